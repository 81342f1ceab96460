/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket (ctl.sock) and its clients: coffer exec, cp, stop, ps, checkpoint. A client is the launcher's own
 * user, or root; still, only frames that a client may send are passed on to init, and each client's queue is bounded by
 * the credit that it granted.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "run/supervise/supervise_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define STOP_GRACE_MAX 3600000u
#define LISTEN_PAUSE (100 * NSEC_PER_MSEC)

static void on_control_client(struct watch *w, uint32_t events);

int supervise_client_add(struct supervision *sv, int fd, pid_t pid, uid_t uid)
{
	struct client *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->sv = sv;
	c->pid = pid;
	c->uid = uid;
	c->w = (struct watch){ .fd = fd, .fn = on_control_client, .ctx = c };
	conn_init(&c->conn, fd);
	c->next = sv->clients;
	sv->clients = c;
	sv->n_client++;
	if (fd >= 0 && loop_watch(&sv->loop, &c->w, EPOLLIN) < 0) {
		c->w.fd = -1;
		supervise_client_drop(c);
		return -ENOMEM;
	}
	return 0;
}

void supervise_client_drop(struct client *c)
{
	struct supervision *sv = c->sv;
	struct client **p = &sv->clients;
	struct chan *ch, *next;

	if (sv->freeze.by == c)
		supervise_thaw(sv);
	while (*p != c)
		p = &(*p)->next;
	*p = c->next;
	sv->n_client--;
	for (ch = sv->chans; ch; ch = next) {
		next = ch->next;
		if (ch->client != c)
			continue;
		if (ch->state == CHAN_BODY)
			supervise_chan_free(ch);
		else
			supervise_exec_hang_up(ch);
	}
	for (unsigned i = 0; i < sv->n_ping; i++) {
		if (sv->ping[i].client == c)
			sv->ping[i].client = NULL;
	}
	loop_unwatch(&sv->loop, &c->w);
	fd_close(c->w.fd);
	conn_release(&c->conn);
	free(c);
}

/* A client is not read while its own replies pile up unread, nor while init has too much queued. */
static bool may_read_client(const struct client *c)
{
	return !c->closing && !c->sv->paused && conn_pending(&c->conn) < SUPERVISE_CLIENT_HIGH;
}

static int watch_client(struct client *c)
{
	bool reads = may_read_client(c);

	if (c->w.fd < 0)
		return 0;
	return loop_watch(&c->sv->loop, &c->w,
			  (reads ? EPOLLIN : 0) | (conn_pending(&c->conn) ? EPOLLOUT : 0));
}

/* A write error only shuts the socket down: on_control_client() drops the client, since our caller still uses it. */
void supervise_client_flush(struct client *c)
{
	c->dirty = false;
	if (conn_flush(&c->conn) < 0 && c->w.fd >= 0)
		shutdown(c->w.fd, SHUT_RDWR);
	if (watch_client(c) < 0 && c->w.fd >= 0)
		shutdown(c->w.fd, SHUT_RDWR);
}

void supervise_client_later(struct client *c)
{
	c->dirty = c->sv->dirty = true;
}

void supervise_clients_flush(struct supervision *sv)
{
	sv->dirty = false;
	for (struct client *c = sv->clients; c; c = c->next) {
		if (c->dirty)
			supervise_client_flush(c);
	}
}

static int forward_ping(struct supervision *sv, struct client *c, const struct frame *f)
{
	struct ping *p = &sv->ping[sv->n_ping];

	if (f->len > PROTO_PING_MAX)
		return -EPROTO;
	if (sv->n_ping == SUPERVISE_PINGS)
		return supervise_refuse(c, "the sandbox does not respond");
	p->client = c;
	p->len = f->len;
	memcpy(p->data, f->data, f->len);
	sv->n_ping++;
	frame_add(&sv->init.out, PROTO_PING, 0, f->data, f->len);
	supervise_flush_init(sv);
	return 0;
}

static int take_stop_request(struct supervision *sv, struct client *c, const struct frame *f)
{
	autobuf struct buf fields = BUF_INIT;
	struct json j = JSON_INIT(&fields);
	uint32_t grace;
	int r;

	if (proto_get_u32(f, &grace) < 0 || grace > STOP_GRACE_MAX)
		return -EPROTO;
	json_u64(&j, "grace_ms", grace);
	json_i64(&j, "client_pid", c->pid);
	json_u64(&j, "client_uid", c->uid);
	r = buf_error(&fields) ? -ENOMEM : supervise_event(sv, "stop.request", &fields);
	if (r == 0)
		supervise_stop(sv, SIGTERM, grace * NSEC_PER_MSEC);
	return 0;
}

/* Reports a limit only where it is enforced. */
static void put_enforced_limit(struct json *j, const char *key, const struct limit *l)
{
	if (l->enforced && l->value != LIMIT_NONE)
		json_u64(j, key, l->value);
}

static int reply_stat(struct supervision *sv, struct client *c)
{
	autobuf struct buf out = BUF_INIT;
	struct json j = JSON_INIT(&out);
	struct cgroup_stat st = { 0 };
	unsigned commands = 0;

	for (const struct chan *ch = sv->chans; ch; ch = ch->next)
		commands += ch->state == CHAN_RUNNING && !ch->is_port && !ch->is_agent;
	if (sv->cg)
		cgroup_read_stat(sv->cg, &st);
	json_obj(&j, NULL);
	json_str(&j, "id", sv->spec->id);
	json_i64(&j, "pid", sv->run->pid);
	json_u64(&j, "uptime_us", (clock_nsec(CLOCK_MONOTONIC) - sv->started) / 1000);
	json_u64(&j, "commands", commands);
	if (st.has_memory) {
		/* Without the page cache that the kernel can reclaim at once: it only tells how many files were read. */
		json_u64(&j, "memory",
			 st.memory_now > st.memory_idle ? st.memory_now - st.memory_idle : st.memory_now);
		json_u64(&j, "memory_cache", st.memory_idle);
		json_u64(&j, "memory_peak", st.memory_peak);
		json_u64(&j, "oom_kills", st.oom_kills);
	}
	if (st.has_cpu)
		json_u64(&j, "cpu_us", st.cpu_usec);
	if (st.has_pids) {
		json_u64(&j, "pids", st.pids_now);
		json_u64(&j, "pids_refused", st.pids_refused);
	}
	put_enforced_limit(&j, "memory_limit", &sv->spec->limits.l[LIMIT_MEMORY]);
	put_enforced_limit(&j, "pids_limit", &sv->spec->limits.l[LIMIT_PIDS]);
	json_end_obj(&j);
	if (buf_error(&out))
		return -ENOMEM;
	frame_add(&c->conn.out, PROTO_STAT_REPLY, 0, out.data, (uint32_t)out.len);
	return 0;
}

static int take_control_frame(struct supervision *sv, struct client *c, const struct frame *f)
{
	switch (f->type) {
	case PROTO_PING:
		return forward_ping(sv, c, f);
	case PROTO_STOP:
		return take_stop_request(sv, c, f);
	case PROTO_STAT:
		return f->len ? -EPROTO : reply_stat(sv, c);
	case PROTO_FREEZE:
		return supervise_freeze(sv, c, f);
	case PROTO_ROLLBACK:
		return supervise_rollback(sv, c, f);
	default:
		return -EPROTO;
	}
}

static int forward_stdin(struct chan *ch, const struct frame *f)
{
	uint32_t cost = f->len ? f->len + FRAME_HEAD : 0;

	if (!(ch->flags & PROTO_F_STDIN) || ch->in_eof || cost > ch->in_room)
		return -EPROTO;
	ch->in_room -= cost;
	ch->in_eof = f->len == 0;
	if (!ch->in_closed)
		frame_add(&ch->sv->init.out, PROTO_STDIN, ch->id, f->data, f->len);
	return 0;
}

static int forward_credit(struct chan *ch, const struct frame *f)
{
	uint32_t v;

	if (proto_get_u32(f, &v) < 0 || v < PROTO_CREDIT_MIN || v > PROTO_WINDOW - ch->out_room)
		return -EPROTO;
	ch->out_room += v;
	proto_add_u32(&ch->sv->init.out, PROTO_CREDIT, ch->id, v);
	return 0;
}

static int forward_signal(struct chan *ch, const struct frame *f)
{
	uint32_t sig;

	if (proto_get_u32(f, &sig) < 0 || sig < 1 || sig > 64)
		return -EPROTO;
	proto_add_u32(&ch->sv->init.out, PROTO_SIGNAL, ch->id, sig);
	return 0;
}

static int forward_resize(struct chan *ch, const struct frame *f)
{
	unsigned rows, cols;

	if (!(ch->flags & PROTO_F_TTY) || proto_get_resize(f, &rows, &cols) < 0)
		return -EPROTO;
	proto_add_resize(&ch->sv->init.out, ch->id, rows, cols);
	return 0;
}

/* A frame for a command that starts or runs. For one that has ended it is late, not wrong, and is dropped (proto.P2). */
static int take_command_frame(struct supervision *sv, struct client *c, const struct frame *f)
{
	struct chan *ch = sv->chans;
	int r;

	while (ch && (ch->client != c || ch->client_id != f->chan))
		ch = ch->next;
	if (!ch)
		return f->chan <= c->last_chan ? 0 : -EPROTO;
	if (ch->state == CHAN_BODY)
		return -EPROTO;
	r = f->type == PROTO_STDIN    ? forward_stdin(ch, f)
	    : f->type == PROTO_CREDIT ? forward_credit(ch, f)
	    : f->type == PROTO_SIGNAL ? forward_signal(ch, f)
				      : forward_resize(ch, f);
	if (r == 0)
		supervise_flush_init(sv);
	return r;
}

int supervise_client_frame(struct supervision *sv, struct client *c, const struct frame *f)
{
	if (f->chan == 0)
		return take_control_frame(sv, c, f);
	switch (f->type) {
	case PROTO_START_DATA:
		return supervise_exec_body(c, f);
	case PROTO_START:
		return supervise_exec_start(c, f);
	case PROTO_STDIN:
	case PROTO_CREDIT:
	case PROTO_SIGNAL:
	case PROTO_RESIZE:
		return take_command_frame(sv, c, f);
	default:
		return -EPROTO;
	}
}

/* Handles the frames that have arrived; pauses all clients while init has too much queued. */
static int take_client_frames(struct supervision *sv, struct client *c)
{
	struct frame f;
	int r = 0;

	while (may_read_client(c) && (r = conn_next(&c->conn, &f)) > 0) {
		r = supervise_client_frame(sv, c, &f);
		if (r < 0)
			return r;
		if (conn_pending(&sv->init) > SUPERVISE_INIT_HIGH)
			sv->paused = true;
	}
	return r < 0 ? r : 0;
}

/* Reads, handles and writes for one client. The client may have been freed on return. */
static void serve_client(struct client *c, int r)
{
	if (r >= 0)
		r = take_client_frames(c->sv, c);
	if (r == -EPROTO && !c->closing)
		r = supervise_refuse(c, "the request is not well formed");
	if (r >= 0)
		r = conn_flush(&c->conn);
	if (r < 0 || (c->closing && !conn_pending(&c->conn)) || watch_client(c) < 0)
		supervise_client_drop(c);
}

static void on_control_client(struct watch *w, uint32_t events)
{
	struct client *c = w->ctx;

	serve_client(c, events & (EPOLLIN | EPOLLHUP | EPOLLERR) ? conn_fill(&c->conn) : 0);
}

void supervise_clients_resume(struct supervision *sv)
{
	struct client *next;

	sv->paused = false;
	/* Frames already read into a client's buffer raise no further event. */
	for (struct client *c = sv->clients; c; c = next) {
		next = c->next;
		serve_client(c, 0);
	}
}

static void on_control_accept(struct watch *w, uint32_t events)
{
	struct supervision *sv = w->ctx;
	autoclose int fd = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct ucred cred;
	socklen_t len = sizeof(cred);

	(void)events;
	if (fd < 0) {
		/* Out of descriptors or memory: the connection stays in the backlog, and a timer keeps us from spinning. */
		if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
			loop_unwatch(&sv->loop, w);
			loop_timer(&sv->loop, &sv->t_listen, clock_nsec(CLOCK_MONOTONIC) + LISTEN_PAUSE);
		}
		return;
	}
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0 ||
	    (cred.uid != geteuid() && cred.uid != 0))
		return;
	if (sv->n_client < SUPERVISE_CLIENTS && !sv->killed &&
	    supervise_client_add(sv, fd, cred.pid, cred.uid) == 0)
		fd = -1;
}

static void listen_for_clients_again(struct timer *t)
{
	struct supervision *sv = t->ctx;

	if (loop_watch(&sv->loop, &sv->w_listen, EPOLLIN) < 0)
		loop_timer(&sv->loop, t, clock_nsec(CLOCK_MONOTONIC) + LISTEN_PAUSE);
}

void supervise_listen(struct supervision *sv, int fd)
{
	sv->w_listen = (struct watch){ .fd = fd, .fn = on_control_accept, .ctx = sv };
	sv->t_listen = (struct timer){ .fn = listen_for_clients_again, .ctx = sv };
	if (sv->w_listen.fd >= 0)
		listen_for_clients_again(&sv->t_listen);
}
