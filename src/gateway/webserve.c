/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/webserve.h"

#include "base/fd.h"
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
#define FEED_MAX (64u << 20)

static void quit(struct web *w, int code)
{
	w->exit_code = code;
	loop_stop(&w->loop);
}

static struct web_slot *slot_of(struct web *w, uint64_t id)
{
	struct web_slot *s = &w->slots[id % WEB_SLOTS];

	return s->c && s->id == id ? s : NULL;
}

static void free_slot(struct web *w, struct web_slot *s)
{
	*s = (struct web_slot){ 0 };
	w->n_open--;
}

int web_send(struct web *w, struct webc *c, struct webp_req *q, bool backlog)
{
	autobuf struct buf b = BUF_INIT;
	int r;

	if (w->n_open >= WEBP_OPEN_MAX)
		return -EBUSY;
	/* Ids only have to grow: one whose place is taken is passed over. */
	do {
		w->last_id++;
	} while (w->slots[w->last_id % WEB_SLOTS].c);
	q->id = w->last_id;
	r = webp_req_pack(q, &b);
	if (r == 0 && send(w->channel.fd, b.data, b.len, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)b.len)
		r = -EAGAIN;
	if (r < 0)
		return r;
	w->slots[q->id % WEB_SLOTS] = (struct web_slot){ q->id, c, backlog };
	w->n_open++;
	*(backlog ? &c->fetch : &c->id) = q->id;
	return 0;
}

/* Nobody waits for it any more. */
void web_cancel(struct web *w, uint64_t id)
{
	struct web_slot *s = slot_of(w, id);
	uint32_t head[4] = { WEBP_MAGIC, WEBP_CANCEL, (uint32_t)id, (uint32_t)(id >> 32) };

	if (s)
		free_slot(w, s);
	/* A cofferd that takes nothing any more is told by the end of everything else. */
	(void)!send(w->channel.fd, head, sizeof(head), MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* --- what cofferd says ------------------------------------------------------------------------------------------------ */

static void on_listener(struct watch *w, uint32_t events)
{
	struct web_listener *l = w->ctx;
	struct web_via via = { .port = l->port, .names = l->names };
	int fd = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	(void)events;
	if (fd >= 0)
		(void)webc_add(l->web, fd, &via);
}

static void take_listener(struct web *w, const struct webp_answer *a, int fd)
{
	struct web_listener *l = calloc(1, sizeof(*l));

	if (!l) {
		fd_close(fd);
		return;
	}
	*l = (struct web_listener){ .next = w->listeners, .web = w, .port = (uint16_t)a->status };
	memcpy(l->names, a->message, sizeof(l->names));
	l->w = (struct watch){ .fd = fd, .fn = on_listener, .ctx = l };
	w->listeners = l;
	if (loop_watch(&w->loop, &l->w, EPOLLIN) < 0)
		quit(w, 1);
}

static void take_backlog(struct web *w, struct web_slot *s, const struct webp_answer *a, int fd)
{
	struct webc *c = s->c;
	autobuf struct buf b = BUF_INIT;

	free_slot(w, s);
	c->fetch = 0;
	if (a->type != WEBP_REPLY || fd < 0 || fd_read_all(fd, FEED_MAX, &b) < 0)
		webc_drop(c);
	else
		webc_backlog(c, buf_cstr(&b), b.len);
	fd_close(fd);
}

static void take_answer(struct web *w, const struct webp_answer *a, int *fds)
{
	struct web_slot *s = slot_of(w, a->id);
	struct webc *c = s ? s->c : NULL;

	if (!s) { /* cancelled meanwhile */
		fd_close(fds[0]);
		fd_close(fds[1]);
		return;
	}
	if (s->backlog) {
		take_backlog(w, s, a, fds[0]);
		return;
	}
	if (a->type == WEBP_OUT) {
		webc_begin_exec(c, fds[0], fds[1]);
		return;
	}
	if (a->type == WEBP_OPEN) {
		webc_begin_events(c);
		return;
	}
	free_slot(w, s);
	c->id = 0;
	if (a->type == WEBP_EXIT)
		webc_exec_ended(c, (int)a->status);
	else if (a->type == WEBP_END && (c->state == WEBC_SSE || c->state == WEBC_EXEC))
		webc_end_stream(c);
	else
		webc_answer(c, a, fds[0]);
}

static void on_channel(struct watch *watch, uint32_t events)
{
	struct web *w = watch->ctx;
	struct web_via via = { .owner = true };
	struct webp_answer a;
	char data[sizeof(a)];
	int fds[2] = { -1, -1 }, n;
	size_t len;

	(void)events;
	n = fdpass_recv_some(watch->fd, data, sizeof(data), &len, fds, 2);
	if (n == -EAGAIN || n == -EINTR)
		return;
	if (n < 0 || webp_answer_parse(data, len, (size_t)n, &a) < 0) {
		/* cofferd has gone, or is not what it should be. */
		quit(w, n == -EPIPE ? 0 : 1);
		return;
	}
	switch (a.type) {
	case WEBP_CONN:
		memcpy(via.key, a.key, HASH_LEN);
		(void)webc_add(w, fds[0], &via);
		break;
	case WEBP_LISTEN:
		take_listener(w, &a, fds[0]);
		break;
	case WEBP_FEED:
		web_feed_open(w->feed, fds[0]);
		break;
	default:
		take_answer(w, &a, fds);
	}
}

/* --- the whole -------------------------------------------------------------------------------------------------------- */

static void on_tick(struct timer *t)
{
	struct web *w = t->ctx;
	uint64_t now = clock_nsec(CLOCK_MONOTONIC);
	static uint64_t beat;

	wheel_advance(&w->wheel, now);
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

static int start(struct web *w, struct err *e)
{
	int r = loop_open(&w->loop, e);

	if (r < 0)
		return r;
	if (sodium_init() < 0)
		return err_set(e, -EIO, "cannot start the cryptographic library");
	/* Against chosen keys; by itself it would open a file for that, later. */
	json_object_seed(randombytes_random() | 1);
	signal(SIGPIPE, SIG_IGN);
	wheel_init(&w->wheel, clock_nsec(CLOCK_MONOTONIC));
	w->feed = web_feed_new(w);
	w->once = web_once_new();
	if (!w->feed || !w->once)
		return err_set(e, -ENOMEM, "out of memory");
	w->tick = (struct timer){ .fn = on_tick, .ctx = w };
	loop_timer(&w->loop, &w->tick, clock_nsec(CLOCK_MONOTONIC) + TICK);
	w->channel = (struct watch){ .fd = WEB_CHANNEL, .fn = on_channel, .ctx = w };
	r = loop_watch(&w->loop, &w->channel, EPOLLIN);
	return r < 0 ? err_sys(e, r, "cannot watch the channel") : web_fence(e);
}

static void release(struct web *w)
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
	r = start(&w, &e);
	if (r == 0)
		r = loop_run(&w.loop, &e);
	if (r < 0) {
		fprintf(stderr, "coffer-web: %s\n", e.msg);
		w.exit_code = 1;
	}
	release(&w);
	return w.exit_code;
}
