/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The prompt for pending asks on the terminal of `coffer run` (texts: prompt.h, reasons: doc/adr/0020). The ask server is
 * another process: this file follows its list over the socket like any other client and answers the same way.
 *
 * Invariants
 *  R1  While an ask is shown the terminal is ours alone: no output of the command reaches it and no key reaches the
 *      command. Input typed before the ask appeared, or before its end was reported, is discarded. Only the foreground
 *      process group takes the terminal.
 *  R2  Output is held back within the command's credit, and all of it is written afterwards, in order.
 *  R3  An answer carries the digest of the text that was shown. An answer given elsewhere, the timeout, or the end of the
 *      command removes the ask from the screen, with a line that says so.
 *  R4  The text is laid out for the terminal's size. After a resize it is shown again from its first page, and an answer
 *      to the old layout does not count.
 *  R5  A prompt delays neither the command's end, nor a signal, nor the person: Ctrl-C gives the terminal back and leaves
 *      every ask pending, `never` turns the prompt off for the run.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/jsonget.h"
#include "base/str.h"
#include "codec/term/termrows.h"
#include "run/supervise/supervise_int.h"
#include "run/supervise/tty.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <termios.h>
#include <unistd.h>

#define PAUSE (60 * NSEC_PER_SEC) /* without an ask: resets the count of asks in a row */

static struct supervise_question *find_question(struct supervise_prompt *p, const char *id)
{
	for (size_t i = 0; i < p->n; i++) {
		if (str_eq(jsonget_text(p->q[i].ask, "id"), id))
			return &p->q[i];
	}
	return NULL;
}

static void drop_question(struct supervise_prompt *p, struct supervise_question *q)
{
	size_t i = (size_t)(q - p->q);

	json_decref(q->ask);
	memmove(q, q + 1, (p->n - i - 1) * sizeof(*q));
	p->n--;
}

/* Is a request waiting for this ask, and was it not left to other approvers? Asks to widen the policy have no waiters. */
static bool is_question_due(const struct supervise_question *q)
{
	return !q->later && (json_integer_value(json_object_get(q->ask, "waiters")) > 0 ||
			     str_eq(jsonget_text(q->ask, "kind"), "widen"));
}

/* --- the terminal ------------------------------------------------------------------------------------------------- */

static bool prompt_is_foreground(const struct supervision *sv)
{
	return tcgetpgrp(sv->io->prompt->in) == getpgrp();
}

static void write_prompt_text(struct supervise_prompt *p, const struct buf *b)
{
	if (!buf_error(b))
		supervise_sink_write(&p->out, b->data, b->len);
}

static void write_prompt_line(struct supervise_prompt *p, const char *fmt, ...) PRINTF_LIKE(2, 3);

static void write_prompt_line(struct supervise_prompt *p, const char *fmt, ...)
{
	char raw[512], safe[512];
	autobuf struct buf b = BUF_INIT;
	va_list ap;

	/* supervise_prompt.R1: input typed before the person reads this line was not meant for the command. */
	(void)tcflush(p->w_in.fd, TCIFLUSH);
	va_start(ap, fmt);
	vsnprintf(raw, sizeof(raw), fmt, ap);
	va_end(ap);
	buf_addf(&b, "coffer: %s\r\n", str_safe(raw, safe, sizeof(safe)));
	write_prompt_text(p, &b);
}

static int new_prompt_code(struct supervise_prompt *p)
{
	uint8_t random[64];

	/* Does not wait: the kernel's random generator is seeded long before a sandbox runs. */
	if (getrandom(random, sizeof(random), GRND_NONBLOCK) != (ssize_t)sizeof(random))
		return -EAGAIN;
	return prompt_code(random, sizeof(random), p->code);
}

static unsigned count_further_questions(const struct supervise_prompt *p)
{
	unsigned n = 0;

	for (size_t i = 0; i < p->n; i++)
		n += is_question_due(&p->q[i]) && !str_eq(jsonget_text(p->q[i].ask, "id"), p->id);
	return n;
}

static void describe_question(const struct supervision *sv, const struct supervise_question *q,
			      struct prompt_shown *ret)
{
	const struct supervise_prompt *p = &sv->prompt;
	int kind = ask_kind_parse(jsonget_text(q->ask, "kind"));

	*ret = (struct prompt_shown){ .text = &p->text,
				      .code = p->code,
				      .same = kind < 0 ? "the same again"
						       : ask_kind_means((enum ask_kind)kind)->brief,
				      .rows = p->rows,
				      .cols = p->cols,
				      .page = p->page,
				      .is_rule = kind == ASK_WIDEN,
				      .is_flood = p->row >= PROMPT_ROW,
				      .waiting = p->behind };
}

/* Clears the screen and shows the current page; the last page has the code that allows. */
static int show_page(struct supervision *sv, bool reset, const char *note)
{
	struct supervise_prompt *p = &sv->prompt;
	const struct supervise_question *q = find_question(p, p->id);
	autobuf struct buf b = BUF_INIT;
	struct prompt_shown s;

	if (!q)
		return -EAGAIN;
	if (p->page + 1 == p->pages && !p->code[0] && new_prompt_code(p) < 0)
		return -EAGAIN;
	/* supervise_prompt.R1: keys typed before the page is shown do not answer it. */
	(void)tcflush(sv->io->prompt->in, TCIFLUSH);
	p->line = (struct prompt_line){ 0 };
	describe_question(sv, q, &s);
	s.note = note;
	if (reset)
		prompt_clear(p->rows, &b);
	else
		buf_adds(&b, "\033[H\033[2J");
	prompt_show(&s, &b);
	write_prompt_text(p, &b);
	return buf_error(&b);
}

/* Lays the ask out for the terminal's present size and shows its first page (supervise_prompt.R4). -EMSGSIZE: the
 * terminal is too small. */
static int show_question(struct supervision *sv, bool all, bool reset)
{
	struct supervise_prompt *p = &sv->prompt;
	const struct supervise_question *q = find_question(p, p->id);
	struct prompt_shown s;

	if (!q)
		return -EAGAIN;
	p->code[0] = '\0';
	p->page = 0;
	p->all = all;
	p->behind = count_further_questions(p);
	tty_size(sv->io->prompt->out, &p->rows, &p->cols);
	sv->io->prompt->show(sv->io->prompt->ctx, q->ask, termrows_cols(p->cols), all, &p->text);
	if (buf_error(&p->text.text) || buf_error(&p->text.act))
		return -ENOMEM;
	describe_question(sv, q, &s);
	p->pages = prompt_pages(&s);
	return p->pages ? show_page(sv, reset, NULL) : -EMSGSIZE;
}

static bool terminal_is_resized(const struct supervision *sv)
{
	unsigned rows, cols;

	tty_size(sv->io->prompt->out, &rows, &cols);
	return rows != sv->prompt.rows || cols != sv->prompt.cols;
}

/* --- taking it, and giving it back -------------------------------------------------------------------------------- */

static void give_terminal_back(struct supervision *sv)
{
	struct supervise_prompt *p = &sv->prompt;

	p->active = p->ending = false;
	loop_unwatch(&sv->loop, &p->w_in);
	if (!sv->pump.tty)
		tty_restore();
	pump_hold(&sv->pump, false);
	pump_redraw(&sv->pump);
	p->row_at = clock_nsec(CLOCK_MONOTONIC);
}

static void on_prompt_written(void *ctx)
{
	struct supervision *sv = ctx;
	struct supervise_prompt *p = &sv->prompt;

	/* A write error means that the terminal is gone. */
	if (p->out.error) {
		p->on = false;
		p->ending = true;
	}
	if (p->active && p->ending && (p->out.error || supervise_sink_is_empty(&p->out)))
		give_terminal_back(sv);
}

static void on_prompt_input(struct watch *w, uint32_t events);

static int take_terminal(struct supervision *sv)
{
	struct supervise_prompt *p = &sv->prompt;
	struct err e = ERR_INIT;

	if (!sv->pump.tty && tty_raw(sv->io->prompt->in, &e) < 0)
		return -EIO;
	pump_hold(&sv->pump, true);
	p->active = true;
	p->modes = sv->pump.modes;
	if (loop_watch(&sv->loop, &p->w_in, EPOLLIN) < 0) {
		give_terminal_back(sv);
		return -EIO;
	}
	return 0;
}

/* If no ask is shown, restores the command's terminal modes; the terminal is given back once that is written. */
static void retire_prompt(struct supervision *sv)
{
	struct supervise_prompt *p = &sv->prompt;
	autobuf struct buf b = BUF_INIT;

	if (!p->active || p->id[0] || p->ending)
		return;
	p->ending = true;
	buf_adds(&b, "\r\n");
	termmodes_restore(&p->modes, &b);
	write_prompt_text(p, &b);
	on_prompt_written(sv);
}

static void forget_question(struct supervise_prompt *p)
{
	p->id[0] = p->digest[0] = p->code[0] = '\0';
	prompt_text_release(&p->text);
}

/* The current ask cannot be shown: prints how to see it elsewhere, and leaves it pending. */
static void report_unshowable(struct supervision *sv, int why)
{
	struct supervise_prompt *p = &sv->prompt;
	struct supervise_question *q = find_question(p, p->id);

	write_prompt_line(
		p, "question %s %s: coffer ask show %s", p->id,
		why == -EMSGSIZE ? "needs more room than this terminal has" : "cannot be shown here", p->id);
	/* Another ask may be short enough; other errors turn the prompt off. */
	p->on = p->on && why == -EMSGSIZE;
	if (q)
		q->later = true;
	forget_question(p);
}

static void begin_question(struct supervision *sv, const struct supervise_question *q)
{
	struct supervise_prompt *p = &sv->prompt;
	int r;

	if (!p->active && clock_nsec(CLOCK_MONOTONIC) - p->row_at > PAUSE)
		p->row = 0;
	p->row++;
	/* The text about the asker is read from the run's directory, so that must be visible to others by now. */
	supervise_lasts(sv);
	snprintf(p->id, sizeof(p->id), "%s", jsonget_text(q->ask, "id"));
	snprintf(p->digest, sizeof(p->digest), "%s", jsonget_text(q->ask, "digest"));
	if (!p->active && take_terminal(sv) < 0) {
		p->on = false;
		forget_question(p);
		return;
	}
	r = show_question(sv, false, true);
	if (r < 0)
		report_unshowable(sv, r);
}

/* Shows the next due ask. In the background none is shown: its notice was printed, and it stays pending. */
static void begin_next_question(struct supervision *sv)
{
	struct supervise_prompt *p = &sv->prompt;

	for (size_t i = 0; i < p->n; i++) {
		if (!p->on || p->id[0] || p->ending || sv->ended || sv->killed || sv->told)
			return;
		if (!is_question_due(&p->q[i]))
			continue;
		if (p->active || prompt_is_foreground(sv))
			begin_question(sv, &p->q[i]);
		else
			p->q[i].later = true;
	}
}

/* The current ask is over: shows the next one, or gives the terminal back. */
static void finish_question(struct supervision *sv)
{
	forget_question(&sv->prompt);
	begin_next_question(sv);
	retire_prompt(sv);
}

/* --- what is typed ------------------------------------------------------------------------------------------------ */

static void give_question_up(struct supervision *sv, int why)
{
	report_unshowable(sv, why);
	finish_question(sv);
}

/* Shows the same page and code again, so that the request and the possible answers stay visible whatever is typed. */
static void show_question_again(struct supervision *sv, const char *note)
{
	int r = terminal_is_resized(sv) ? show_question(sv, sv->prompt.all, false)
					: show_page(sv, false, note);

	if (r < 0)
		give_question_up(sv, r);
}

static void show_next_page(struct supervision *sv)
{
	struct supervise_prompt *p = &sv->prompt;

	p->page += p->page + 1 < p->pages;
	show_question_again(sv, NULL);
}

static void send_prompt_answer(struct supervision *sv, struct ask_answer *a)
{
	struct supervise_prompt *p = &sv->prompt;
	autoaskc struct askc c = ASKC_INIT;
	struct supervise_question *q = find_question(p, p->id);
	struct err e = ERR_INIT;
	int r;

	a->who = sv->io->prompt->who;
	r = askc_open(&c, sv->io->run_fd, &e);
	if (r == 0)
		r = askc_answer(&c, p->id, p->digest, a, NULL, &e);
	if (r == -EINVAL) {
		/* The server refused this kind of answer; another one is possible. */
		show_question_again(sv, e.msg);
		return;
	}
	if (r < 0)
		write_prompt_line(p, "%s", e.msg);
	else
		write_prompt_line(p, "%s %s%s%s", p->id, a->allow ? "allowed" : "denied",
				  a->allow ? ", " : "", a->allow ? ask_scope_name(a->scope) : "");
	if (q)
		q->later = true;
	finish_question(sv);
}

static void leave_question(struct supervision *sv, bool all)
{
	struct supervise_prompt *p = &sv->prompt;
	struct supervise_question *q = find_question(p, p->id);

	for (size_t i = 0; all && i < p->n; i++)
		p->q[i].later = true;
	if (q)
		q->later = true;
	write_prompt_line(
		p, "question %s still waits, and so does the command; in another terminal: coffer approve %s",
		p->id, p->id);
	finish_question(sv);
}

static void take_typed_line(struct supervision *sv)
{
	struct supervise_prompt *p = &sv->prompt;
	bool last = p->page + 1 == p->pages;
	struct ask_answer a;
	int r;

	switch (prompt_parse(p->line.text, p->code, &a)) {
	case PROMPT_ALLOW:
		/* supervise_prompt.R4: an answer to the old layout does not count. */
		if (terminal_is_resized(sv))
			show_question_again(sv, NULL);
		else
			send_prompt_answer(sv, &a);
		return;
	case PROMPT_DENY:
		send_prompt_answer(sv, &a);
		return;
	case PROMPT_NEVER:
		p->on = false;
		leave_question(sv, true);
		return;
	case PROMPT_LATER:
		leave_question(sv, false);
		return;
	case PROMPT_MORE:
		r = show_question(sv, true, false);
		if (r < 0)
			give_question_up(sv, r);
		return;
	case PROMPT_UNKNOWN:
		show_question_again(sv, last ? "Not understood. Type the code to allow, or: deny, later."
					     : "Not understood. Enter shows the next page.");
		return;
	case PROMPT_EMPTY:
		show_next_page(sv);
		return;
	}
}

static void suspend_prompt(struct supervision *sv)
{
	struct err e = ERR_INIT;

	if (sv->pump.tty) {
		pump_suspend(&sv->pump);
	} else {
		tty_restore();
		raise(SIGSTOP);
		/* Continued by SIGCONT. */
		if (tty_raw(sv->io->prompt->in, &e) < 0) {
			leave_question(sv, true);
			return;
		}
	}
	supervise_prompt_redraw(sv);
}

static void take_typed_key(struct supervision *sv, enum prompt_key k)
{
	switch (k) {
	case PROMPT_KEY_LINE:
		take_typed_line(sv);
		break;
	case PROMPT_KEY_SPOILT:
		show_question_again(sv, "That line had characters other than letters, and was ignored.");
		break;
	case PROMPT_KEY_INTERRUPT:
		write_prompt_line(&sv->prompt, "interrupted");
		leave_question(sv, true);
		break;
	case PROMPT_KEY_SUSPEND:
		suspend_prompt(sv);
		break;
	case PROMPT_KEY_NONE:
		break;
	}
}

static void on_prompt_input(struct watch *w, uint32_t events)
{
	struct supervision *sv = w->ctx;
	struct supervise_prompt *p = &sv->prompt;
	uint8_t in[256];
	ssize_t n = read(w->fd, in, sizeof(in));
	size_t at = 0, used;

	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		/* The terminal is gone. */
		p->on = false;
		leave_question(sv, true);
		return;
	}
	/* Input after an answer is discarded: it must not answer the next ask. */
	while (at < (size_t)n && p->active && !p->ending) {
		autobuf struct buf echo = BUF_INIT;
		enum prompt_key k = prompt_line_take(&p->line, in + at, (size_t)n - at, &used, &echo);

		at += used;
		write_prompt_text(p, &echo);
		if (k == PROMPT_KEY_NONE)
			continue;
		take_typed_key(sv, k);
		if (k == PROMPT_KEY_LINE)
			return;
	}
}

/* --- the list ----------------------------------------------------------------------------------------------------- */

/* Prints how the ask that is shown has ended. */
static void report_question_end(struct supervise_prompt *p, const json_t *ask)
{
	const json_t *a = json_object_get(ask, "answer");
	const char *state = jsonget_text(ask, "state");

	if (json_is_object(a))
		write_prompt_line(p, "%s was answered elsewhere: %s by %s (%s)", p->id,
				  json_is_true(json_object_get(a, "allow")) ? "allowed" : "denied",
				  jsonget_text(a, "name")[0] ? jsonget_text(a, "name") : "somebody",
				  jsonget_text(a, "via"));
	else if (str_eq(state, "expired"))
		write_prompt_line(p, "%s has expired: nobody answered in time, and it was denied", p->id);
	else
		write_prompt_line(p, "%s is gone: %.200s", p->id, jsonget_text(ask, "why"));
}

static int take_ask(void *ctx, json_t *ask)
{
	struct supervision *sv = ctx;
	struct supervise_prompt *p = &sv->prompt;
	struct supervise_question *q;

	if (!ask)
		return 0;
	q = find_question(p, jsonget_text(ask, "id"));
	if (str_eq(jsonget_text(ask, "state"), "pending")) {
		if (q) {
			json_decref(q->ask);
			q->ask = json_incref(ask);
		} else if (p->n < ASKS_OPEN_MAX) {
			p->q[p->n++] = (struct supervise_question){ .ask = json_incref(ask) };
		}
		return 0;
	}
	if (p->active && !p->ending && str_eq(p->id, jsonget_text(ask, "id"))) {
		supervise_sink_write(&p->out, "\r\n", 2);
		report_question_end(p, ask);
		p->id[0] = '\0';
	}
	if (q)
		drop_question(p, q);
	return 0;
}

static void prompt_server_lost(struct supervision *sv)
{
	struct supervise_prompt *p = &sv->prompt;

	loop_unwatch(&sv->loop, &p->w);
	askc_close(&p->c);
	p->on = false;
	if (p->active && !p->ending) {
		supervise_sink_write(&p->out, "\r\n", 2);
		write_prompt_line(p, "the sandbox's guard is gone, and with it the question: it is denied");
		finish_question(sv);
	}
}

static void on_ask_list(struct watch *w, uint32_t events)
{
	struct supervision *sv = w->ctx;
	struct supervise_prompt *p = &sv->prompt;
	bool shown = p->id[0];
	struct err e = ERR_INIT;

	(void)events;
	if (askc_follow_read(&p->c, take_ask, sv, &e) < 0) {
		prompt_server_lost(sv);
		return;
	}
	if (shown && !p->id[0]) {
		finish_question(sv);
	} else {
		begin_next_question(sv);
		retire_prompt(sv);
	}
}

static int follow_asks(struct supervision *sv)
{
	struct supervise_prompt *p = &sv->prompt;
	struct err e = ERR_INIT;

	if (p->c.fd >= 0)
		return 0;
	if (askc_open(&p->c, sv->io->run_fd, &e) < 0)
		return -EPIPE;
	p->w = (struct watch){ .fd = p->c.fd, .fn = on_ask_list, .ctx = sv };
	if (askc_follow_begin(&p->c, false, &e) == 0 && loop_watch(&sv->loop, &p->w, EPOLLIN) == 0)
		return 0;
	askc_close(&p->c);
	return -EPIPE;
}

/* --- from the beginning to the end -------------------------------------------------------------------------------- */

bool supervise_prompt_asked(struct supervision *sv)
{
	struct supervise_prompt *p = &sv->prompt;

	if (!p->on || sv->ended || sv->killed || (!p->active && !prompt_is_foreground(sv)))
		return false;
	if (follow_asks(sv) < 0) {
		p->on = false;
		return false;
	}
	return true;
}

void supervise_prompt_redraw(struct supervision *sv)
{
	struct supervise_prompt *p = &sv->prompt;

	int r = p->active && !p->ending && p->id[0] ? show_question(sv, p->all, true) : 0;

	if (r < 0)
		give_question_up(sv, r);
}

void supervise_prompt_resized(struct supervision *sv)
{
	const struct supervise_prompt *p = &sv->prompt;

	if (p->active && !p->ending && p->id[0] && terminal_is_resized(sv))
		show_question_again(sv, NULL);
}

void supervise_prompt_round(struct supervision *sv)
{
	struct supervise_prompt *p = &sv->prompt;

	if (!p->active || p->ending || (!sv->ended && !sv->killed))
		return;
	supervise_sink_write(&p->out, "\r\n", 2);
	write_prompt_line(p, "the command has ended, and with it the question");
	finish_question(sv);
}

void supervise_prompt_begin(struct supervision *sv)
{
	const struct prompt_opts *o = sv->io->prompt;
	struct supervise_prompt *p = &sv->prompt;
	int in, out;

	if (!o)
		return;
	/* Duplicates, because the pump watches the originals and epoll accepts each descriptor once. */
	in = fcntl(o->in, F_DUPFD_CLOEXEC, 3);
	out = fcntl(o->out, F_DUPFD_CLOEXEC, 3);
	p->w_in = (struct watch){ .fd = in, .fn = on_prompt_input, .ctx = sv };
	supervise_sink_init(&p->out, &sv->loop, out, on_prompt_written, sv);
	p->on = in >= 0 && out >= 0;
}

void supervise_prompt_close(struct supervision *sv)
{
	struct supervise_prompt *p = &sv->prompt;
	int out;

	if (!sv->io->prompt)
		return;
	if (p->active)
		give_terminal_back(sv);
	while (p->n)
		drop_question(p, &p->q[0]);
	prompt_text_release(&p->text);
	if (p->c.fd >= 0)
		loop_unwatch(&sv->loop, &p->w);
	askc_close(&p->c);
	loop_unwatch(&sv->loop, &p->w_in);
	p->w_in.fd = fd_close(p->w_in.fd);
	out = p->out.w.fd;
	supervise_sink_release(&p->out);
	fd_close(out);
	p->on = false;
}
