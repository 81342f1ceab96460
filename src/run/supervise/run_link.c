/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's side of a run's control socket, over blocking calls: requests about the sandbox (stop, stat, ping, freeze,
 * rollback) and commands whose input and output are functions of the caller (run_link_transfer()). Commands joined to a
 * terminal are in run_link_exec.c. Each request is checked against the launcher's protocol version before it is sent. A
 * request that fails this check must not be sent.
 */
#include "run/supervise/run_link.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "ipc/fdpass.h"
#include "run/supervise/run_link_int.h"
#include "sandbox/state/compat.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#define MESSAGES_MAX 4096
#define DETACHED_ROWS 24 /* of a terminal that nobody looks at */
#define DETACHED_COLS 80

int run_link_open_within(struct run_link *l, int run_fd, int timeout_ms, struct err *e)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	autoclose int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	*l = RUN_LINK_INIT;
	if (fd < 0)
		return err_sys(e, -errno, "cannot make a socket");
	/* By descriptor: the path of a state directory may be longer than sun_path. */
	snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d/ctl.sock", run_fd);
	while (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0) {
		struct pollfd none;

		/* EAGAIN: the launcher's backlog is full; retry. */
		if (errno != EAGAIN && errno != EINTR)
			return err_sys(e, -errno, "cannot reach the sandbox");
		if (timeout_ms == 0)
			return err_set(e, -ETIMEDOUT, "the sandbox's launcher does not respond");
		poll(&none, 0, 10);
		if (timeout_ms > 0)
			timeout_ms = timeout_ms > 10 ? timeout_ms - 10 : 0;
	}
	conn_init(&l->conn, fd);
	l->fd = TAKE_FD(fd);
	l->protocol = compat_read(run_fd);
	return 0;
}

int run_link_open(struct run_link *l, int run_fd, struct err *e)
{
	return run_link_open_within(l, run_fd, -1, e);
}

void run_link_close(struct run_link *l)
{
	conn_release(&l->conn);
	fd_close(l->fd);
	*l = RUN_LINK_INIT;
}

int run_link_gone(struct err *e)
{
	return err_set(e, -EPIPE, "the sandbox has ended");
}

int run_link_refused(const struct frame *f, struct err *e)
{
	char text[512];
	size_t n = f->len < sizeof(text) - 1 ? f->len : sizeof(text) - 1;

	memcpy(text, f->data, n);
	text[n] = '\0';
	return err_set(e, -EPERM, "the sandbox's launcher refused: %s", text);
}

static unsigned count_argv(char *const *v)
{
	unsigned n = 0;

	while (v && v[n])
		n++;
	return n;
}

static void add_argv_strings(struct buf *b, char *const *v)
{
	for (; v && *v; v++)
		buf_add(b, *v, strlen(*v) + 1);
}

int run_link_begin(struct run_link *l, const struct run_link_cmd *c, unsigned rows, unsigned cols,
		   struct err *e)
{
	autobuf struct buf body = BUF_INIT;
	const struct proto_start s = { .flags = c->flags,
				       .argc = count_argv(c->argv),
				       .envc = count_argv(c->env),
				       .rows = rows,
				       .cols = cols };
	int r = compat_check(l->protocol, RUN_COMMAND, e);

	if (r < 0)
		return r;
	buf_add(&body, c->cwd, strlen(c->cwd) + 1);
	add_argv_strings(&body, c->argv);
	add_argv_strings(&body, c->env);
	if (buf_error(&body))
		return err_set(e, -ENOMEM, "out of memory");
	if (body.len > PROTO_START_MAX || s.argc + s.envc > PROTO_STRINGS_MAX)
		return err_set(e, -E2BIG, "arguments and environment are too long");
	l->chan++;
	proto_add_data(&l->conn.out, PROTO_START_DATA, l->chan, body.data, body.len);
	proto_add_start(&l->conn.out, l->chan, &s);
	return buf_error(&l->conn.out) ? err_set(e, -ENOMEM, "out of memory") : 0;
}

/* Sends queued frames and waits until the link is readable, or writable while frames are left. 1: readable. */
static int wait_link_ready(struct run_link *l, int timeout_ms, struct err *e)
{
	struct pollfd p = { .fd = l->fd, .events = POLLIN };
	int r = conn_flush(&l->conn);

	/* A write error is ignored: the launcher may have sent the reason before it closed the link, and that is read first. */
	if (r > 0)
		p.events |= POLLOUT;
	r = poll(&p, 1, timeout_ms);
	if (r < 0 && errno != EINTR)
		return err_sys(e, -errno, "cannot wait for the sandbox");
	if (r == 0)
		return err_set(e, -ETIMEDOUT, "the sandbox does not respond");
	return p.revents & (POLLIN | POLLHUP | POLLERR) ? 1 : 0;
}

/* Waits for the next frame; PROTO_ERROR of the launcher becomes an error. */
static int wait_next_frame(struct run_link *l, int timeout_ms, struct frame *f, struct err *e)
{
	for (;;) {
		int r = conn_next(&l->conn, f);

		if (r > 0 && f->type == PROTO_ERROR)
			return run_link_refused(f, e);
		if (r > 0)
			return 0;
		if (r < 0)
			return err_set(e, r, "the sandbox's launcher sent a malformed message");
		r = wait_link_ready(l, timeout_ms, e);
		if (r < 0)
			return r;
		if (r > 0 && conn_fill(&l->conn) < 0)
			return run_link_gone(e);
	}
}

int run_link_detach(struct run_link *l, const struct run_link_cmd *c, bool *ret_started,
		    struct proto_exit *ret, struct err *e)
{
	struct run_link_cmd cmd = *c;
	struct frame f;
	int r;

	cmd.flags |= PROTO_F_DETACH;
	r = run_link_begin(l, &cmd, DETACHED_ROWS, DETACHED_COLS, e);
	do {
		r = r < 0 ? r : wait_next_frame(l, -1, &f, e);
		if (r < 0)
			return r;
	} while (f.chan != l->chan || (f.type != PROTO_STARTED && f.type != PROTO_EXIT));
	*ret_started = f.type == PROTO_STARTED;
	if (!*ret_started && proto_get_exit(&f, ret) < 0)
		return err_set(e, -EPROTO, "the sandbox's launcher sent an invalid message");
	return 0;
}

int run_link_stat(struct run_link *l, int timeout_ms, struct buf *ret, struct err *e)
{
	struct frame f;
	int r = compat_check(l->protocol, RUN_STAT, e);

	if (r < 0)
		return r;
	frame_add(&l->conn.out, PROTO_STAT, 0, NULL, 0);
	do {
		r = wait_next_frame(l, timeout_ms, &f, e);
		if (r < 0)
			return r;
	} while (f.type != PROTO_STAT_REPLY);
	buf_add(ret, f.data, f.len);
	return buf_error(ret) ? err_set(e, -ENOMEM, "out of memory") : 0;
}

int run_link_ping(struct run_link *l, int timeout_ms, struct err *e)
{
	uint64_t token = clock_nsec(CLOCK_MONOTONIC);
	struct frame f;
	int r = compat_check(l->protocol, RUN_PING, e);

	if (r < 0)
		return r;
	frame_add(&l->conn.out, PROTO_PING, 0, &token, sizeof(token));
	do {
		r = wait_next_frame(l, timeout_ms, &f, e);
		if (r < 0)
			return r;
	} while (f.type != PROTO_PONG || f.len != sizeof(token) ||
		 memcmp(f.data, &token, sizeof(token)) != 0);
	return 0;
}

int run_link_stop(struct run_link *l, uint32_t grace_ms, struct err *e)
{
	struct frame f;
	int r = compat_check(l->protocol, RUN_STOP, e);

	if (r < 0)
		return r;
	proto_add_u32(&l->conn.out, PROTO_STOP, 0, grace_ms);
	do {
		r = wait_next_frame(l, -1, &f, e);
	} while (r == 0);
	/* The launcher closes the link when the sandbox has ended, as requested. */
	return r == -EPIPE ? 0 : r;
}

/* Reads with recvmsg: the reply carries a descriptor, which read() would lose. */
static int fill_link_with_fd(struct run_link *l, int *fd, struct err *e)
{
	char some[256];
	int r = wait_link_ready(l, -1, e), n, got;

	if (r <= 0)
		return r;
	n = fdpass_recv_stream(l->fd, some, sizeof(some), &got);
	if (n == -EAGAIN)
		return 0;
	if (n <= 0)
		return run_link_gone(e);
	if (got >= 0) {
		fd_close(*fd);
		*fd = got;
	}
	return conn_feed(&l->conn, some, (size_t)n) < 0 ? err_set(e, -ENOMEM, "out of memory") : 0;
}

int run_link_freeze(struct run_link *l, uint32_t ms, unsigned *ret_how, int *ret_layers, struct err *e)
{
	autoclose int fd = -1;
	struct frame f;
	uint32_t how;
	int r = compat_check(l->protocol, RUN_FREEZE, e);

	if (r < 0)
		return r;
	proto_add_u32(&l->conn.out, PROTO_FREEZE, 0, ms);
	for (;;) {
		r = conn_next(&l->conn, &f);
		if (r < 0)
			return err_set(e, r, "the sandbox's launcher sent a malformed message");
		if (r > 0 && f.type == PROTO_ERROR)
			return run_link_refused(&f, e);
		if (r > 0 && f.type == PROTO_FROZEN)
			break;
		r = r > 0 ? 0 : fill_link_with_fd(l, &fd, e);
		if (r < 0)
			return r;
	}
	if (proto_get_u32(&f, &how) < 0 || how >= PROTO_FROZEN_COUNT)
		return err_set(e, -EPROTO, "the sandbox's launcher sent an invalid message");
	*ret_how = how;
	*ret_layers = TAKE_FD(fd);
	return 0;
}

bool run_link_is_frozen(struct run_link *l)
{
	struct pollfd p = { .fd = l->fd, .events = POLLIN };

	/* The launcher sends nothing on this link until the freeze is over. */
	return poll(&p, 1, 0) == 0;
}

int run_link_rollback(struct run_link *l, struct err *e)
{
	struct frame f;
	int r = compat_check(l->protocol, RUN_ROLLBACK, e);

	if (r < 0)
		return r;
	frame_add(&l->conn.out, PROTO_ROLLBACK, 0, NULL, 0);
	do {
		r = wait_next_frame(l, -1, &f, e);
	} while (r == 0);
	return r == -EPIPE ? 0 : r;
}

struct transfer {
	struct run_link *l;
	const struct run_link_xfer *x;
	struct proto_exit *ret;
	struct buf more; /* produced and not yet sent */
	size_t more_off;
	bool producing, sending;
	uint32_t in_credit, room, owed;
	bool done;
};

/* Queues input as far as the credit allows. */
static int send_transfer_input(struct transfer *t, struct err *e)
{
	struct conn *c = &t->l->conn;

	while (t->sending && t->in_credit > FRAME_HEAD && conn_pending(c) < PROTO_WINDOW) {
		size_t have = t->more.len - t->more_off, n;
		int r;

		if (!have && t->producing) {
			buf_clear(&t->more);
			t->more_off = 0;
			r = t->x->produce(t->x->ctx, &t->more);
			if (r < 0)
				return err_set(e, r, "cannot read the files to copy");
			t->producing = r > 0;
			continue;
		}
		if (!have) {
			frame_add(&c->out, PROTO_STDIN, t->l->chan, NULL, 0);
			t->sending = false;
			break;
		}
		n = have > FRAME_MAX_PAYLOAD ? FRAME_MAX_PAYLOAD : have;
		n = n > t->in_credit - FRAME_HEAD ? t->in_credit - FRAME_HEAD : n;
		frame_add(&c->out, PROTO_STDIN, t->l->chan, t->more.data + t->more_off, (uint32_t)n);
		t->more_off += n;
		t->in_credit -= (uint32_t)n + FRAME_HEAD;
	}
	return 0;
}

static int take_transfer_output(struct transfer *t, const struct frame *f)
{
	uint32_t cost = f->len + FRAME_HEAD;
	int r = 0;

	if (cost > t->room)
		return -EPROTO;
	t->room -= cost;
	t->owed += cost;
	if (f->type == PROTO_STDOUT && t->x->consume)
		r = t->x->consume(t->x->ctx, f->data, f->len);
	if (f->type == PROTO_STDERR && t->x->messages && t->x->messages->len + f->len <= MESSAGES_MAX)
		buf_add(t->x->messages, f->data, f->len);
	if (t->owed >= PROTO_CREDIT_STEP) {
		proto_add_u32(&t->l->conn.out, PROTO_CREDIT, t->l->chan, t->owed);
		t->room += t->owed;
		t->owed = 0;
	}
	return r;
}

static int take_transfer_frame(struct transfer *t, const struct frame *f, struct err *e)
{
	uint32_t v;
	int r;

	/* Late frames of an earlier command on this link. */
	if (f->chan != t->l->chan)
		return 0;
	switch (f->type) {
	case PROTO_STARTED:
		return 0;
	case PROTO_STDOUT:
	case PROTO_STDERR:
		r = take_transfer_output(t, f);
		return r < 0 ? err_set(e, r, "cannot receive the files from the sandbox") : 0;
	case PROTO_STDIN_CREDIT:
		if (proto_get_u32(f, &v) < 0 || v > PROTO_WINDOW - t->in_credit)
			break;
		t->in_credit += v;
		return 0;
	case PROTO_STDIN_CLOSED:
		t->sending = false;
		return 0;
	case PROTO_EXIT:
		if (proto_get_exit(f, t->ret) < 0)
			break;
		t->done = true;
		return 0;
	default:
		break;
	}
	return err_set(e, -EPROTO, "the sandbox's launcher sent an invalid message");
}

int run_link_transfer(struct run_link *l, const struct run_link_cmd *c, const struct run_link_xfer *x,
		      struct proto_exit *ret, struct err *e)
{
	struct transfer t = { .l = l, .x = x, .ret = ret, .in_credit = PROTO_WINDOW, .room = PROTO_WINDOW };
	struct run_link_cmd cmd = *c;
	int r;

	t.producing = t.sending = x->produce != NULL;
	if (x->produce)
		cmd.flags |= PROTO_F_STDIN;
	r = run_link_begin(l, &cmd, 0, 0, e);
	while (r == 0 && !t.done) {
		struct frame f;

		r = send_transfer_input(&t, e);
		if (r == 0)
			r = wait_next_frame(l, -1, &f, e);
		if (r == 0)
			r = take_transfer_frame(&t, &f, e);
	}
	buf_release(&t.more);
	return r;
}
