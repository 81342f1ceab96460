/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notices for the caller's stderr while the command runs: network denials, pending asks. They must not garble a screen
 * that the command draws, and the command must not be able to hide them.
 *
 * Invariants
 *  N1  Nothing is written over a screen that the command draws: while its terminal is raw, or has modes that only
 *      full-screen programs set, notices are queued. They are also queued until init has reported the terminal's state.
 *      That report is the sandbox's claim: a false or missing one delays notices and does nothing else.
 *  N2  Queued notices are written with the next one that may be written, at the latest when the command has ended; equal
 *      ones once, with their count. The queue is capped, and notices beyond the cap are counted.
 *      A pending ask is also shown in the terminal's title, which draws over nothing.
 *  N3  A stderr that is not the command's terminal is written to at once.
 *  N4  If init does not report within SAY_WAIT, a pending ask is shown in the title, as over a full-screen program.
 *  N5  On the command's terminal, notices begin by ending any escape sequence that the command had begun and by setting
 *      plain colours and characters; where the command leaves full-screen modes set, by a reset of the terminal. So the
 *      command cannot hide a notice by the state in which it leaves the terminal.
 */
#include "approval/prompt.h"
#include "base/clock.h"
#include "base/fd.h"
#include "run/supervise/supervise_int.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define SAY_WAIT (2 * NSEC_PER_SEC)

/* Is stderr the same terminal that the command has? */
static bool stderr_is_command_terminal(const struct supervision *sv)
{
	return sv->pump.tty && !sv->pump.err.capped;
}

static void format_notice(const struct supervision *sv, const struct net_msg *m, struct buf *out)
{
	char text[NET_MSG_TEXT];

	net_say_format(m, text);
	sv->io->say((enum net_level)m->level, text, out);
}

/* supervise_say.N5: ends a sequence and resets colours and characters. No more than that: the command may go on. */
static const char line_reset[] = "\x18\033\\\033[0m\033(B\017\033[4l";

static void add_terminal_reset(const struct supervision *sv, struct buf *out)
{
	if (stderr_is_command_terminal(sv) && sv->notices.n)
		buf_adds(out, termmodes_is_default(&sv->pump.modes) ? line_reset : prompt_reset);
}

/* supervise_say.N2: notices about the same subject are merged; plain ones, which have no subject, by their text. */
static bool is_same_notice(const struct net_msg *a, const struct net_msg *b)
{
	return a->about == b->about && (a->about != NET_SAY_PLAIN || str_eq(a->text, b->text));
}

static void queue_notice(struct supervise_notices *l, const struct net_msg *m)
{
	for (size_t i = 0; i < l->n; i++) {
		if (is_same_notice(&l->v[i], m)) {
			l->v[i].count += m->count;
			return;
		}
	}
	if (l->n < SUPERVISE_NOTICES)
		l->v[l->n++] = *m;
	else
		l->left_out++;
}

static void take_all_notices(struct supervision *sv, struct buf *out)
{
	struct supervise_notices *l = &sv->notices;

	add_terminal_reset(sv, out);
	for (size_t i = 0; i < l->n; i++)
		format_notice(sv, &l->v[i], out);
	if (l->left_out) {
		struct net_msg m = { .level = NET_LEVEL_NOTE };

		snprintf(m.text, sizeof(m.text), "%llu more line%s left out (coffer net log)",
			 (unsigned long long)l->left_out, l->left_out == 1 ? " was" : "s were");
		format_notice(sv, &m, out);
	}
	l->n = 0;
	l->left_out = 0;
}

/* Shows the latest pending ask in the title: a person who watches a full-screen program would miss a queued notice. */
static void show_ask_in_title(struct supervision *sv)
{
	autobuf struct buf b = BUF_INIT;
	const struct net_msg *m = NULL;

	for (size_t i = 0; i < sv->notices.n; i++) {
		if (sv->notices.v[i].type == NET_ASKED)
			m = &sv->notices.v[i];
	}
	if (!m)
		return;
	buf_adds(&b, "\033]2;coffer: ");
	str_add_safe(&b, m->text, strlen(m->text), false);
	buf_adds(&b, "\007");
	if (!buf_error(&b))
		supervise_sink_write(&sv->pump.err, b.data, b.len);
}

static void on_terminal_report_timeout(struct timer *t)
{
	struct supervision *sv = t->ctx;

	sv->notices.is_late = true;
	if (!sv->told && !sv->ended)
		show_ask_in_title(sv);
}

void supervise_say(struct supervision *sv, const struct net_msg *m)
{
	autobuf struct buf line = BUF_INIT;
	struct supervise_notices *l = &sv->notices;

	/* After io->ended() the terminal belongs to the caller. */
	if (!sv->io->say || sv->told)
		return;
	if (!stderr_is_command_terminal(sv)) {
		format_notice(sv, m, &line);
		if (line.len)
			supervise_sink_write(&sv->pump.err, line.data, line.len);
		return;
	}
	queue_notice(l, m);
	if (sv->ended || sv->killed)
		return;
	if (l->asked ? l->is_late : !termmodes_is_default(&sv->pump.modes))
		show_ask_in_title(sv);
	if (l->asked || !termmodes_is_default(&sv->pump.modes))
		return;
	l->asked = true;
	l->is_late = false;
	l->t = (struct timer){ .fn = on_terminal_report_timeout, .ctx = sv };
	loop_timer(&sv->loop, &l->t, clock_nsec(CLOCK_MONOTONIC) + SAY_WAIT);
	frame_add(&sv->init.out, PROTO_TTY_ASK, SUPERVISE_MAIN_CHAN, NULL, 0);
	supervise_flush_init(sv);
}

void supervise_say_text(struct supervision *sv, enum net_msg_type type, enum net_level level,
			const char *text)
{
	struct net_msg m = { .type = type, .level = level };

	snprintf(m.text, sizeof(m.text), "%s", text);
	supervise_say(sv, &m);
}

int supervise_say_tty(struct supervision *sv, const struct frame *f)
{
	autobuf struct buf lines = BUF_INIT;
	uint32_t raw;

	if (!sv->notices.asked || proto_get_u32(f, &raw) < 0 || raw > 1)
		return -EPROTO;
	sv->notices.asked = false;
	loop_timer_off(&sv->loop, &sv->notices.t);
	if (raw || !termmodes_is_default(&sv->pump.modes)) {
		show_ask_in_title(sv);
		return 0;
	}
	take_all_notices(sv, &lines);
	if (lines.len)
		supervise_sink_write(&sv->pump.err, lines.data, lines.len);
	return 0;
}

void supervise_say_rest(struct supervision *sv)
{
	autobuf struct buf lines = BUF_INIT;

	if (!sv->io->say || sv->io->err < 0)
		return;
	take_all_notices(sv, &lines);
	/* A closed stderr is not an error of the run. */
	if (lines.len)
		(void)!fd_write_all(sv->io->err, lines.data, lines.len);
}
