/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carries stdin, stdout and stderr of the caller to and from one channel, under credit in both directions (proto.P3).
 * Output to a terminal of the caller is made harmless unless the command was given that terminal. Descriptors of the
 * caller are shared with other processes and are never set non-blocking.
 */
#include "run/supervise/pump.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "run/supervise/tty.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>

#define EROFS_TEXT "Read-only file system" /* as strerror() has it in the usual locale */
#define CUT_MARK "\n[coffer: the output limit was reached; the rest was thrown away]\n"
#define CONN_HIGH (128u << 10) /* no more input while the other side has this much to take */

bool pump_has_input(int fd)
{
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return false;
	return !(S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3));
}

/* Output that the caller has taken is granted to the command again. */
static void return_output_credit(struct pump *s)
{
	if (s->owed < PROTO_CREDIT_STEP || !pump_is_flushed(s))
		return;
	proto_add_u32(&s->conn->out, PROTO_CREDIT, s->chan, s->owed);
	s->room += s->owed;
	s->owed = 0;
}

static void on_sink_change(void *ctx)
{
	struct pump *s = ctx;

	return_output_credit(s);
	s->kick(s->ctx);
}

static void end_input(struct pump *s)
{
	loop_unwatch(s->loop, &s->in);
	s->in_done = true;
	frame_add(&s->conn->out, PROTO_STDIN, s->chan, NULL, 0);
}

/* The descriptor polled readable, so read() does not block, unless another process shares the pipe and was faster:
 * pipes are therefore read with RWF_NOWAIT where the kernel has it. */
static ssize_t read_caller_input(struct pump *s, void *p, size_t len)
{
	if (s->in_is_pipe) {
		const struct iovec v = { .iov_base = p, .iov_len = len };
		ssize_t n = preadv2(s->in.fd, &v, 1, -1, RWF_NOWAIT);

		if (n >= 0 || (errno != EOPNOTSUPP && errno != ENOSYS))
			return n;
		s->in_is_pipe = false;
	}
	return read(s->in.fd, p, len);
}

static void watch_input(struct pump *s)
{
	bool want = s->in_on && !s->in_done && !s->in_held && s->in_credit > FRAME_HEAD &&
		    conn_pending(s->conn) < CONN_HIGH;

	if (loop_watch(s->loop, &s->in, want ? EPOLLIN : 0) < 0)
		end_input(s);
}

static void on_caller_input(struct watch *w, uint32_t events)
{
	struct pump *s = w->ctx;
	size_t most = s->in_credit - FRAME_HEAD;
	uint8_t *frame;
	ssize_t n;

	(void)events;
	most = most > FRAME_MAX_PAYLOAD ? FRAME_MAX_PAYLOAD : most;
	frame = (uint8_t *)buf_reserve(&s->conn->out, FRAME_HEAD + most);
	n = frame ? read_caller_input(s, frame + FRAME_HEAD, most) : -1;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0) {
		frame_put_head(frame, PROTO_STDIN, s->chan, (uint32_t)n);
		s->conn->out.len += FRAME_HEAD + (size_t)n;
		s->in_credit -= FRAME_HEAD + (uint32_t)n;
	} else {
		end_input(s);
	}
	s->kick(s->ctx);
	watch_input(s);
}

static void open_output_sinks(struct pump *s, const struct pump_opts *o)
{
	bool log = o->log_fd >= 0;
	bool out_tty = !log && o->out >= 0 && isatty(o->out), err_tty = !log && o->err >= 0 && isatty(o->err);

	supervise_sink_init(&s->out, s->loop, log ? o->log_fd : o->out, on_sink_change, s);
	supervise_sink_init(&s->err, s->loop, log ? o->log_fd : o->err, on_sink_change, s);
	/* With -t the caller handed over the terminal: escape sequences of the command are passed through. */
	s->out.filter = !s->tty && out_tty;
	s->err.filter = !s->tty && err_tty;
	s->out.capped = !out_tty;
	s->err.capped = !err_tty;
	s->mark_cut = log;
}

int pump_open(struct pump *s, struct loop *l, struct conn *c, uint32_t chan, const struct pump_opts *o,
	      struct err *e)
{
	struct stat st;
	int r;

	*s = (struct pump){ .loop = l, .conn = c, .chan = chan, .kick = o->kick, .ctx = o->ctx };
	s->tty = o->tty >= 0;
	s->tty_fd = o->tty;
	s->limit = o->limit;
	s->times = o->times;
	s->room = s->in_credit = PROTO_WINDOW;
	s->in = (struct watch){ .fd = o->in, .fn = on_caller_input, .ctx = s };
	s->in_is_pipe = o->in >= 0 && fstat(o->in, &st) == 0 && S_ISFIFO(st.st_mode);
	open_output_sinks(s, o);
	r = s->tty ? tty_raw(o->tty, e) : 0;
	return r;
}

void pump_read_input(struct pump *s)
{
	s->in_on = true;
	watch_input(s);
}

void pump_continue(struct pump *s)
{
	if (s->in_on && !s->in.events)
		watch_input(s);
}

/* How many of `len` bytes the output limit allows; terminals are not limited. */
static uint32_t bytes_within_limit(const struct pump *s, const struct supervise_sink *k, uint32_t len)
{
	uint64_t left;

	if (!k->capped)
		return len;
	left = s->limit > s->printed ? s->limit - s->printed : 0;
	return len > left ? (uint32_t)left : len;
}

static int pump_take_output(struct pump *s, const struct frame *f)
{
	struct supervise_sink *k = f->type == PROTO_STDERR ? &s->err : &s->out;
	uint32_t n, cost = f->len + FRAME_HEAD;

	if (!f->len || cost > s->room || (s->tty && f->type == PROTO_STDERR))
		return -EPROTO;
	s->room -= cost;
	s->owed += cost;
	n = bytes_within_limit(s, k, f->len);
	if (s->tty)
		termmodes_feed(&s->modes, f->data, f->len);
	if (s->times && n)
		logtimes_note(s->times, clock_nsec(CLOCK_REALTIME));
	s->saw_erofs = s->saw_erofs || memmem(f->data, f->len, EROFS_TEXT, sizeof(EROFS_TEXT) - 1);
	supervise_sink_write(k, f->data, n);
	s->printed += f->len;
	if (n < f->len && !s->cut) {
		s->cut = true;
		if (s->mark_cut)
			supervise_sink_write(k, CUT_MARK, sizeof(CUT_MARK) - 1);
	}
	return_output_credit(s);
	return 0;
}

int pump_frame(struct pump *s, const struct frame *f)
{
	uint32_t v;

	switch (f->type) {
	case PROTO_STDOUT:
	case PROTO_STDERR:
		return pump_take_output(s, f);
	case PROTO_STDIN_CREDIT:
		if (!s->in_on || proto_get_u32(f, &v) < 0 || v < PROTO_CREDIT_MIN ||
		    v > PROTO_WINDOW - s->in_credit)
			return -EPROTO;
		s->in_credit += v;
		watch_input(s);
		return 0;
	case PROTO_STDIN_CLOSED:
		if (!s->in_on || f->len)
			return -EPROTO;
		s->in_done = true;
		loop_unwatch(s->loop, &s->in);
		return 0;
	default:
		return -EPROTO;
	}
}

int pump_take_signals(struct pump *s, void (*fn)(void *ctx, const struct signalfd_siginfo *si), void *ctx,
		      struct err *e)
{
	static const int wanted[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
		struct sigaction sa;

		/* Signals that the caller ignores (nohup, a shell's background) stay ignored: a signalfd would receive them. */
		if (sigaction(wanted[i], NULL, &sa) == 0 && sa.sa_handler != SIG_IGN)
			sigaddset(&set, wanted[i]);
	}
	if (s->tty || s->resizes)
		sigaddset(&set, SIGWINCH);
	if (s->tty)
		sigaddset(&set, SIGTSTP);
	return loop_signals(s->loop, &set, fn, ctx, e);
}

void pump_resized(struct pump *s)
{
	unsigned rows, cols;

	if (!s->tty)
		return;
	tty_size(s->tty_fd, &rows, &cols);
	proto_add_resize(&s->conn->out, s->chan, rows, cols);
	s->kick(s->ctx);
}

void pump_hold(struct pump *s, bool held)
{
	s->in_held = held;
	if (s->in_on && !s->in_done)
		watch_input(s);
	/* Output that is not a terminal is not held. */
	if (!s->out.capped || !held)
		supervise_sink_hold(&s->out, held);
	if (!s->err.capped || !held)
		supervise_sink_hold(&s->err, held);
}

void pump_redraw(struct pump *s)
{
	unsigned rows, cols;

	if (!s->tty)
		return;
	tty_size(s->tty_fd, &rows, &cols);
	/* The kernel sends no SIGWINCH for an unchanged size. */
	proto_add_resize(&s->conn->out, s->chan, rows > 1 ? rows - 1 : rows + 1, cols);
	proto_add_resize(&s->conn->out, s->chan, rows, cols);
	s->kick(s->ctx);
}

void pump_suspend(struct pump *s)
{
	struct err e;

	if (!s->tty)
		return;
	tty_restore();
	raise(SIGSTOP);
	/* Continued by SIGCONT. If the terminal is gone by now, the next read of it fails. */
	if (tty_raw(s->tty_fd, &e) == 0)
		pump_resized(s);
}

void pump_finish(struct pump *s)
{
	loop_unwatch(s->loop, &s->in);
	s->in_done = true;
	supervise_sink_finish(&s->out);
	supervise_sink_finish(&s->err);
}

void pump_release(struct pump *s)
{
	if (!s->loop)
		return;
	if (s->tty)
		tty_restore();
	loop_unwatch(s->loop, &s->in);
	supervise_sink_release(&s->out);
	supervise_sink_release(&s->err);
	s->loop = NULL;
}
