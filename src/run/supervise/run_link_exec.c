/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command in a running sandbox, joined to the caller's stdio and terminal (coffer exec). The caller's signals are passed
 * on; the caller's descriptors never are.
 */
#include "base/clock.h"
#include "run/supervise/pump.h"
#include "run/supervise/run_link_int.h"
#include "run/supervise/tty.h"

#include <errno.h>
#include <signal.h>

#define INT_AGAIN (2 * NSEC_PER_SEC) /* a second SIGINT within this kills */

struct exec_session {
	struct run_link *l;
	struct loop loop;
	struct watch w;
	struct pump pump;
	struct proto_exit *ret;
	uint64_t last_int;
	bool ended;
	int error;
	struct err *err;
};

static void exec_session_fail(struct exec_session *s, int code)
{
	if (!s->error)
		s->error = code;
	loop_stop(&s->loop);
}

static void flush_link(struct exec_session *s)
{
	int r = conn_flush(&s->l->conn);

	/* After a write error the link is still read to its end: the launcher may have sent the reason. */
	if (r < 0) {
		buf_release(&s->l->conn.out);
		s->l->conn.out_off = 0;
	}
	if (!s->ended &&
	    loop_watch(&s->loop, &s->w, EPOLLIN | (conn_pending(&s->l->conn) ? EPOLLOUT : 0)) < 0)
		exec_session_fail(s, err_set(s->err, -ENOMEM, "cannot watch the sandbox"));
}

static void take_session_exit(struct exec_session *s, const struct frame *f)
{
	if (proto_get_exit(f, s->ret) < 0) {
		exec_session_fail(s,
				  err_set(s->err, -EPROTO, "the sandbox's launcher sent an invalid message"));
		return;
	}
	s->ended = true;
	loop_unwatch(&s->loop, &s->w);
	pump_finish(&s->pump);
	if (pump_is_flushed(&s->pump))
		loop_stop(&s->loop);
}

static void take_session_frame(struct exec_session *s, const struct frame *f)
{
	if (f->type == PROTO_ERROR)
		exec_session_fail(s, run_link_refused(f, s->err));
	else if (f->chan != s->l->chan || f->type == PROTO_STARTED)
		return;
	else if (f->type == PROTO_EXIT)
		take_session_exit(s, f);
	else if (pump_frame(&s->pump, f) < 0)
		exec_session_fail(s,
				  err_set(s->err, -EPROTO, "the sandbox's launcher sent an invalid message"));
}

static void on_link_event(struct watch *w, uint32_t events)
{
	struct exec_session *s = w->ctx;
	struct frame f;
	int r = events & (EPOLLIN | EPOLLHUP | EPOLLERR) ? conn_fill(&s->l->conn) : 0;

	while (!s->ended && !s->error && conn_next(&s->l->conn, &f) > 0)
		take_session_frame(s, &f);
	if (!s->ended && !s->error && r < 0)
		exec_session_fail(s, run_link_gone(s->err));
	else if (!s->ended && !s->error)
		flush_link(s);
}

static void on_session_pump(void *ctx)
{
	struct exec_session *s = ctx;

	/* Stdout has no reader: we end as if by SIGPIPE, and the launcher hangs up on the command. */
	if (s->pump.out.error == -EPIPE && !s->ended) {
		*s->ret = (struct proto_exit){ PROTO_SIGNALED, SIGPIPE, 0 };
		s->ended = true;
		loop_stop(&s->loop);
		return;
	}
	if (s->ended && pump_is_flushed(&s->pump))
		loop_stop(&s->loop);
	else
		flush_link(s);
}

static void send_command_signal(struct exec_session *s, int sig)
{
	proto_add_u32(&s->l->conn.out, PROTO_SIGNAL, s->l->chan, (uint32_t)sig);
	flush_link(s);
}

static void on_caller_signal(void *ctx, const struct signalfd_siginfo *si)
{
	struct exec_session *s = ctx;
	int sig = (int)si->ssi_signo;
	uint64_t now;

	if (s->ended) {
		if (sig != SIGWINCH && sig != SIGTSTP)
			loop_stop(&s->loop);
		return;
	}
	if (sig == SIGWINCH) {
		pump_resized(&s->pump);
	} else if (sig == SIGTSTP) {
		pump_suspend(&s->pump);
	} else if (sig == SIGINT) {
		now = clock_nsec(CLOCK_MONOTONIC);
		send_command_signal(s, s->last_int && now - s->last_int < INT_AGAIN ? SIGKILL : SIGINT);
		s->last_int = now;
	} else {
		send_command_signal(s, sig);
	}
}

static int open_exec_session(struct exec_session *s, const struct run_link_cmd *c,
			     const struct run_link_io *io, struct err *e)
{
	bool tty = c->flags & PROTO_F_TTY;
	const struct pump_opts o = {
		.in = io->in,
		.out = io->out,
		.err = io->err,
		.tty = tty ? io->tty : -1,
		.log_fd = -1,
		.limit = UINT64_MAX,
		.kick = on_session_pump,
		.ctx = s,
	};
	unsigned rows, cols;
	int r = loop_open(&s->loop, e);

	if (r < 0)
		return r;
	tty_size(tty ? io->tty : -1, &rows, &cols);
	r = run_link_begin(s->l, c, rows, cols, e);
	if (r == 0)
		r = pump_open(&s->pump, &s->loop, &s->l->conn, s->l->chan, &o, e);
	if (r == 0)
		r = pump_take_signals(&s->pump, on_caller_signal, s, e);
	if (r < 0)
		return r;
	s->w = (struct watch){ .fd = s->l->fd, .fn = on_link_event, .ctx = s };
	flush_link(s);
	if (c->flags & PROTO_F_STDIN)
		pump_read_input(&s->pump);
	return s->error;
}

int run_link_exec(struct run_link *l, const struct run_link_cmd *c, const struct run_link_io *io,
		  struct proto_exit *ret, struct err *e)
{
	struct sigaction ignore = { .sa_handler = SIG_IGN }, old;
	struct exec_session s = { .l = l, .ret = ret, .err = e, .loop = LOOP_INIT };
	int r;

	sigaction(SIGPIPE, &ignore, &old);
	r = open_exec_session(&s, c, io, e);
	while (r == 0 && !s.loop.stopped) {
		r = loop_round(&s.loop, e);
		pump_continue(&s.pump);
	}
	pump_release(&s.pump);
	loop_close(&s.loop);
	sigaction(SIGPIPE, &old, NULL);
	return r < 0 ? r : s.error;
}
