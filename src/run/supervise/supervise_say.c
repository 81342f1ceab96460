/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines for the caller's stderr while the command runs.
 *
 * Invariants
 *  N1  Nothing is written over a screen that the command draws itself: while its terminal is raw, or has modes that only such
 *      programs set, lines wait. So they do until init has said how the terminal is: that is the sandbox's word, and one that
 *      lies or is silent delays lines, no more.
 *  N2  What waits is told with the next line that can be written, at the latest when the command has ended: once for each
 *      thing, with how often. There is a cap, and what is beyond it is counted.
 *      A question that waits for a person is also put into the terminal's title, which draws over nothing.
 *  N4  An init that does not answer within SAY_WAIT keeps no question from the person: it goes into the title, as over a screen.
 *  N3  A stderr that is not the command's terminal is written to at once.
 *  N4  On the command's terminal, lines begin with the end of whatever sequence it had begun, with plain colours and letters; and
 *      where it leaves a screen of its own behind, with a reset of the terminal. So it hides no line by how it ends.
 */
#include "approval/prompt.h"
#include "base/clock.h"
#include "base/fd.h"
#include "run/supervise/supervise_int.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define SAY_WAIT (2 * NSEC_PER_SEC)

/* Is stderr the terminal that the command has, too? */
static bool shares_terminal(const struct sv *sv)
{
	return sv->pump.tty && !sv->pump.err.capped;
}

static void add_notice(const struct sv *sv, const struct net_msg *m, struct buf *out)
{
	char text[NET_MSG_TEXT];

	net_say_format(m, text);
	sv->io->say((enum net_level)m->level, text, out);
}

/* N4. Not more than needed: the command may go on. */
static const char line_reset[] = "\x18\033\\\033[0m\033(B\017\033[4l";

static void add_reset(const struct sv *sv, struct buf *out)
{
	if (shares_terminal(sv) && sv->notices.n)
		buf_adds(out, termmodes_is_default(&sv->pump.modes) ? line_reset : prompt_reset);
}

/* N2. Lines that count nothing are told once when they are the same. */
static bool is_same_notice(const struct net_msg *a, const struct net_msg *b)
{
	return a->about == b->about && (a->about != NET_SAY_PLAIN || str_eq(a->text, b->text));
}

static void keep_notice(struct sv_notices *l, const struct net_msg *m)
{
	for (size_t i = 0; i < l->n; i++) {
		if (is_same_notice(&l->v[i], m)) {
			l->v[i].count += m->count;
			return;
		}
	}
	if (l->n < SV_NOTICES)
		l->v[l->n++] = *m;
	else
		l->left_out++;
}

static void add_notices(struct sv *sv, struct buf *out)
{
	struct sv_notices *l = &sv->notices;

	add_reset(sv, out);
	for (size_t i = 0; i < l->n; i++)
		add_notice(sv, &l->v[i], out);
	if (l->left_out) {
		struct net_msg m = { .level = NET_LEVEL_NOTE };

		snprintf(m.text, sizeof(m.text), "%llu more lines were left out (coffer net log)",
			 (unsigned long long)l->left_out);
		add_notice(sv, &m, out);
	}
	l->n = 0;
	l->left_out = 0;
}

/* The last question that waits: somebody who looks at the command's screen would not learn of it in time. */
static void set_title(struct sv *sv)
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
		sink_write(&sv->pump.err, b.data, b.len);
}

static void on_notices_late(struct timer *t)
{
	struct sv *sv = t->ctx;

	sv->notices.is_late = true;
	if (!sv->told && !sv->ended)
		set_title(sv);
}

void sv_say(struct sv *sv, const struct net_msg *m)
{
	autobuf struct buf line = BUF_INIT;
	struct sv_notices *l = &sv->notices;

	/* Once the caller was told of the end, its terminal is its own again. */
	if (!sv->io->say || sv->told)
		return;
	if (!shares_terminal(sv)) {
		add_notice(sv, m, &line);
		if (line.len)
			sink_write(&sv->pump.err, line.data, line.len);
		return;
	}
	keep_notice(l, m);
	if (sv->ended || sv->killed)
		return;
	if (l->asked ? l->is_late : !termmodes_is_default(&sv->pump.modes))
		set_title(sv);
	if (l->asked || !termmodes_is_default(&sv->pump.modes))
		return;
	l->asked = true;
	l->is_late = false;
	l->t = (struct timer){ .fn = on_notices_late, .ctx = sv };
	loop_timer(&sv->loop, &l->t, clock_nsec(CLOCK_MONOTONIC) + SAY_WAIT);
	frame_add(&sv->init.out, PROTO_TTY_ASK, SV_MAIN_CHAN, NULL, 0);
	sv_flush_init(sv);
}

void sv_say_text(struct sv *sv, enum net_msg_type type, enum net_level level, const char *text)
{
	struct net_msg m = { .type = type, .level = level };

	snprintf(m.text, sizeof(m.text), "%s", text);
	sv_say(sv, &m);
}

int sv_say_tty(struct sv *sv, const struct frame *f)
{
	autobuf struct buf lines = BUF_INIT;
	uint32_t raw;

	if (!sv->notices.asked || proto_get_u32(f, &raw) < 0 || raw > 1)
		return -EPROTO;
	sv->notices.asked = false;
	loop_timer_off(&sv->loop, &sv->notices.t);
	if (raw || !termmodes_is_default(&sv->pump.modes)) {
		set_title(sv);
		return 0;
	}
	add_notices(sv, &lines);
	if (lines.len)
		sink_write(&sv->pump.err, lines.data, lines.len);
	return 0;
}

void sv_say_rest(struct sv *sv)
{
	autobuf struct buf lines = BUF_INIT;

	if (!sv->io->say || sv->io->err < 0)
		return;
	add_notices(sv, &lines);
	/* A stderr that is gone is nobody's error. */
	if (lines.len)
		(void)!fd_write_all(sv->io->err, lines.data, lines.len);
}
