/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The main loop of coffer-web (webserve.h): the channel to cofferd, listening sockets, and the tick. It must not
 * read a byte of a client before it is confined (webfence.c).
 */
#include "web/server/webserve.h"

#include "base/fd.h"
#include "codec/net/addr.h"
#include "ipc/fdpass.h"

#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define TICK NSEC_PER_SEC
#define FEED_MAX (4u << 20) /* limit for a page of the log, plus one event */

static void quit_web(struct web *w, int code)
{
	w->exit_code = code;
	loop_stop(&w->loop);
}

static struct web_slot *find_slot(struct web *w, uint64_t id)
{
	struct web_slot *s = &w->slots[id % WEB_SLOTS];

	return id && s->id == id ? s : NULL;
}

static void release_slot(struct web *w, struct web_slot *s)
{
	*s = (struct web_slot){ 0 };
	w->n_open--;
}

/* --- to cofferd ----------------------------------------------------------------------------------------- */

static int watch_channel(struct web *w)
{
	return loop_watch(&w->loop, &w->channel, EPOLLIN | (w->waiting ? EPOLLOUT : 0));
}

/* Messages stay in order. If cofferd does not read, requests queue up, at most WEBP_OPEN_MAX of them. */
static int send_to_channel(struct web *w, const void *data, size_t len)
{
	struct web_waiting *x;

	if (!w->waiting && send(w->channel.fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)len)
		return 0;
	if (!w->waiting && errno != EAGAIN && errno != EINTR && errno != ENOBUFS)
		return -errno; /* it has exited: the end of the channel follows */
	x = malloc(sizeof(*x) + len);
	if (!x)
		return -ENOMEM;
	x->next = NULL;
	x->len = len;
	memcpy(x->data, data, len);
	*w->waiting_end = x;
	w->waiting_end = &x->next;
	return watch_channel(w);
}

static void flush_channel(struct web *w)
{
	while (w->waiting) {
		struct web_waiting *x = w->waiting;

		if (send(w->channel.fd, x->data, x->len, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)x->len)
			break;
		w->waiting = x->next;
		if (!w->waiting)
			w->waiting_end = &w->waiting;
		free(x);
	}
	if (watch_channel(w) < 0)
		quit_web(w, 1);
}

int web_send(struct web *w, struct webc *c, struct webp_req *q)
{
	autobuf struct buf b = BUF_INIT;
	int r;

	if (w->n_open >= WEBP_OPEN_MAX)
		return -EBUSY;
	/* Ids only have to grow: one whose slot is taken is skipped. */
	do {
		w->last_id++;
	} while (w->slots[w->last_id % WEB_SLOTS].id);
	q->id = w->last_id;
	r = webp_req_pack(q, &b);
	r = r < 0 ? r : send_to_channel(w, b.data, b.len);
	if (r < 0)
		return r;
	w->slots[q->id % WEB_SLOTS] = (struct web_slot){ q->id, c };
	w->n_open++;
	if (c)
		c->id = q->id;
	return 0;
}

/* The client does not wait for it any more. */
void web_cancel(struct web *w, uint64_t id)
{
	struct web_slot *s = find_slot(w, id);
	uint32_t head[4] = { WEBP_MAGIC, WEBP_CANCEL, (uint32_t)id, (uint32_t)(id >> 32) };

	if (s)
		release_slot(w, s);
	/* A failure is ignored: the end of the channel follows. */
	(void)!send_to_channel(w, head, sizeof(head));
}

void web_send_stats(struct web *w)
{
	autobuf struct buf b = BUF_INIT;

	w->stats.streams = w->n_streams;
	w->stats.connections = w->n_conns;
	if (w->waiting || memcmp(&w->stats, &w->told, sizeof(w->stats)) == 0 ||
	    webp_stats_pack(&w->stats, &b) < 0)
		return;
	if (send_to_channel(w, b.data, b.len) == 0)
		w->told = w->stats;
}

/* --- messages of cofferd -------------------------------------------------------------------------------- */

/* The holder of one IPv6 address usually has its /64. */
static void set_peer_network(struct web_via *via, const struct sockaddr_storage *sa, socklen_t len)
{
	struct addr a = { 0 };
	uint16_t port;

	if (addr_from_sockaddr(sa, len, &a, &port) == 0)
		hash_sha256(a.b, addr_is_v4(&a) ? sizeof(a.b) : sizeof(a.b) / 2, via->peer);
}

static void on_tcp_connection(struct watch *w, uint32_t events)
{
	struct web_listener *l = w->ctx;
	struct web_via via = { .port = l->port, .names = l->names };
	struct sockaddr_storage sa = { 0 };
	socklen_t len = sizeof(sa);
	int fd = accept4(w->fd, (struct sockaddr *)&sa, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);

	(void)events;
	if (fd >= 0) {
		set_peer_network(&via, &sa, len);
		(void)webc_add(l->web, fd, &via);
		return;
	}
	/* Out of a resource: retrying at once would be a busy loop. */
	if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
		loop_unwatch(&l->web->loop, w);
		l->web->is_full = true;
	}
}

static void resume_listening(struct web *w)
{
	if (!w->is_full)
		return;
	w->is_full = false;
	for (struct web_listener *l = w->listeners; l; l = l->next) {
		if (loop_watch(&w->loop, &l->w, EPOLLIN) < 0)
			w->is_full = true;
	}
}

static void add_listener(struct web *w, const struct webp_answer *a, int fd)
{
	struct web_listener *l = calloc(1, sizeof(*l));

	if (!l) {
		fd_close(fd);
		return;
	}
	*l = (struct web_listener){ .next = w->listeners, .web = w, .port = (uint16_t)a->status };
	memcpy(l->names, a->message, sizeof(l->names));
	l->w = (struct watch){ .fd = fd, .fn = on_tcp_connection, .ctx = l };
	w->listeners = l;
	if (loop_watch(&w->loop, &l->w, EPOLLIN) < 0)
		quit_web(w, 1);
}

static void take_log_page(struct web *w, uint64_t id, const struct webp_answer *a, int fd)
{
	autobuf struct buf b = BUF_INIT;
	bool good = a->type == WEBP_REPLY && fd >= 0 && fd_read_all(fd, FEED_MAX, &b) == 0;

	fd_close(fd);
	web_feed_take_page(w->feed, id, good ? buf_cstr(&b) : NULL, b.len);
}

static void take_cofferd_answer(struct web *w, const struct webp_answer *a, int *fds)
{
	struct web_slot *s = find_slot(w, a->id);
	struct webc *c = s ? s->c : NULL;

	if (!s) { /* cancelled meanwhile */
		fd_close(fds[0]);
		fd_close(fds[1]);
		return;
	}
	if (!c) {
		release_slot(w, s);
		take_log_page(w, a->id, a, fds[0]);
		return;
	}
	web_rate_judged(w, &c->ask.req, a->type != WEBP_ERROR || a->status != 401,
			clock_nsec(CLOCK_MONOTONIC));
	if (a->type == WEBP_OUT) {
		webc_begin_exec(c, fds[0], fds[1]);
		return;
	}
	if (a->type == WEBP_OPEN) {
		webc_begin_events(c, a->seq);
		return;
	}
	release_slot(w, s);
	c->id = 0;
	if (a->type == WEBP_EXIT)
		webc_exec_ended(c, (int)a->status);
	else if (a->type == WEBP_END && (c->state == WEBC_SSE || c->state == WEBC_EXEC))
		webc_end_stream(c);
	else
		webc_answer(c, a, fds[0]);
}

static void on_cofferd_message(struct watch *watch, uint32_t events)
{
	struct web *w = watch->ctx;
	struct web_via via = { .owner = true };
	struct webp_answer a;
	char data[sizeof(a)];
	int fds[2] = { -1, -1 }, n;
	size_t len;

	if (events & EPOLLOUT) {
		flush_channel(w);
		return;
	}
	n = fdpass_recv_some(watch->fd, data, sizeof(data), &len, fds, 2);
	if (n == -EAGAIN || n == -EINTR)
		return;
	if (n < 0 || webp_answer_parse(data, len, (size_t)n, &a) < 0) {
		/* cofferd has exited, or is not what it should be. */
		quit_web(w, n == -EPIPE ? 0 : 1);
		return;
	}
	switch (a.type) {
	case WEBP_CONN:
		memcpy(via.key, a.key, HASH_LEN);
		(void)webc_add(w, fds[0], &via);
		break;
	case WEBP_LISTEN:
		add_listener(w, &a, fds[0]);
		break;
	case WEBP_FEED:
		web_feed_open(w->feed, fds[0]);
		break;
	default:
		take_cofferd_answer(w, &a, fds);
	}
}

/* --- start and end -------------------------------------------------------------------------------------- */

static void on_web_tick(struct timer *t)
{
	struct web *w = t->ctx;
	uint64_t now = clock_nsec(CLOCK_MONOTONIC);
	static uint64_t beat;

	wheel_advance(&w->wheel, now);
	resume_listening(w);
	web_feed_age(w->feed, now);
	web_send_stats(w);
	if (now - beat > WEB_BEAT) {
		beat = now;
		for (struct webc *c = w->conns, *next; c; c = next) {
			next = c->next;
			if (c->state == WEBC_SSE)
				webc_beat(c);
		}
	}
	loop_timer(&w->loop, t, now + TICK);
}

/* Each connection may need a memory file, or a command's two pipes. */
static int limit_connections(struct web *w, struct err *e)
{
	struct rlimit files;
	int r = fence_limits(&web_fence, e);
	rlim_t n;

	if (r < 0)
		return r;
	if (getrlimit(RLIMIT_NOFILE, &files) < 0)
		return err_sys(e, -errno, "cannot limit coffer-web");
	n = files.rlim_cur > 128 ? (files.rlim_cur - 64) / 2 : 32;
	w->max_conns = n < WEB_CONNS ? (unsigned)n : WEB_CONNS;
	return 0;
}

static int web_start(struct web *w, struct err *e)
{
	int r = loop_open(&w->loop, e);

	if (r < 0)
		return r;
	if (sodium_init() < 0)
		return err_set(e, -EIO, "cannot start the cryptographic library");
	/* Against chosen keys; jansson would otherwise open a file for its seed later. */
	json_object_seed(randombytes_random() | 1);
	signal(SIGPIPE, SIG_IGN);
	wheel_init(&w->wheel, clock_nsec(CLOCK_MONOTONIC));
	w->waiting_end = &w->waiting;
	w->feed = web_feed_new(w);
	w->once = web_once_new();
	if (!w->feed || !w->once)
		return err_set(e, -ENOMEM, "out of memory");
	w->tick = (struct timer){ .fn = on_web_tick, .ctx = w };
	loop_timer(&w->loop, &w->tick, clock_nsec(CLOCK_MONOTONIC) + TICK);
	w->channel = (struct watch){ .fd = WEB_CHANNEL, .fn = on_cofferd_message, .ctx = w };
	r = loop_watch(&w->loop, &w->channel, EPOLLIN);
	if (r < 0)
		return err_sys(e, r, "cannot watch the channel");
	r = limit_connections(w, e);
	return r < 0 ? r : fence_up(&web_fence, e);
}

static void web_release(struct web *w)
{
	while (w->conns)
		webc_drop(w->conns);
	while (w->listeners) {
		struct web_listener *l = w->listeners;

		w->listeners = l->next;
		loop_unwatch(&w->loop, &l->w);
		fd_close(l->w.fd);
		free(l);
	}
	while (w->waiting) {
		struct web_waiting *x = w->waiting;

		w->waiting = x->next;
		free(x);
	}
	web_feed_free(w->feed);
	web_once_free(w->once);
	loop_close(&w->loop);
}

int web_main(void)
{
	static struct web w;
	struct err e = ERR_INIT;
	int r;

	w.loop = LOOP_INIT;
	r = web_start(&w, &e);
	if (r == 0)
		r = loop_run(&w.loop, &e);
	if (r < 0) {
		fprintf(stderr, "coffer-web: %s\n", e.msg);
		w.exit_code = 1;
	}
	web_release(&w);
	return w.exit_code;
}
