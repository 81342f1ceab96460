/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clients of the ask server's socket: their requests, the verdicts they wait for, the changes they
 * follow. Keeps askserve.V1 and askserve.V3. Nobody but the owner and root is served, and nothing blocks on a
 * client.
 */
#include "approval/server/askserve_int.h"

#include "base/fd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct askserve_client {
	struct askserve_client *next;
	struct askserve *s;
	struct watch w;
	struct conn conn;
	uid_t uid;
	uint64_t waiter; /* not 0: id of its waiter in the list */
	bool follows, all;
	bool closing;	/* close it after the queued bytes are sent */
	bool is_asking; /* within asks_put(): its verdict is held in `early` until the ask itself was sent */
	struct buf early;
	char why[ASK_WHY_MAX];
};

/* ---- Frames. ---- */

static void add_response_frame(struct buf *out, enum askp_type type, const struct buf *body)
{
	if (!buf_error(body) && body->len <= FRAME_MAX_PAYLOAD)
		frame_add(out, (uint8_t)type, 0, buf_cstr(body), (uint32_t)body->len);
}

static void add_ask(const struct askserve *s, const struct ask *a, struct buf *out)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);
	struct ask_view v;

	ask_view(s->asks, a, &v);
	ask_json(&v, &j, NULL);
	add_response_frame(out, ASKP_ASK, &b);
}

static void add_done(struct buf *out)
{
	frame_add(out, ASKP_DONE, 0, "{}", 2);
}

static void add_error(struct buf *out, int r, const struct err *e)
{
	autobuf struct buf b = BUF_INIT, text = BUF_INIT;
	struct json j = JSON_INIT(&b);

	buf_adds(&text, e->msg);
	if (e->hint[0])
		buf_addf(&text, "; %s", e->hint);
	json_obj(&j, NULL);
	json_str(&j, "code", askp_code_name(r));
	json_str(&j, "message", buf_cstr(&text));
	json_end_obj(&j);
	add_response_frame(out, ASKP_ERROR, &b);
}

static void add_verdict(struct buf *out, const char *id, bool allow, const char *why)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);

	json_obj(&j, NULL);
	json_str(&j, "id", id);
	json_bool(&j, "allow", allow);
	json_str(&j, "why", why);
	json_end_obj(&j);
	add_response_frame(out, ASKP_VERDICT, &b);
}

static bool view_is_open(const struct ask_view *v)
{
	return v->state == ASK_PENDING || v->state == ASK_PARKED || v->state == ASK_GRANTED;
}

static void serve_list(const struct askserve *s, bool all, struct buf *out)
{
	const struct ask *a = NULL;

	while ((a = asks_next(s->asks, a)) != NULL) {
		struct ask_view v;

		ask_view(s->asks, a, &v);
		if (all || view_is_open(&v))
			add_ask(s, a, out);
	}
	add_done(out);
}

static void reply_with_ask(const struct askserve *s, const char *id, int r, const struct err *e,
			   struct buf *out)
{
	const struct ask *a = asks_find(s->asks, id);

	if (r < 0 || !a) {
		add_error(out, r < 0 ? r : -ENOENT, e);
		return;
	}
	add_ask(s, a, out);
	add_done(out);
}

static int serve_revoke(struct askserve *s, const struct askp_request *q, struct err *e)
{
	int r = asks_revoke(s->asks, asks_clock(), q->id, &q->answer.who, e);

	if (r == 0 && s->widen_changed && s->owner.widened) {
		s->widen_changed = false;
		r = s->owner.widened(s->owner.ctx, e);
	}
	askserve_store(s);
	askserve_settle(s);
	return r;
}

static void serve_submit(struct askserve *s, struct askserve_client *c, const struct askp_request *q,
			 struct buf *out)
{
	autobuf struct buf canon = BUF_INIT;
	struct ask_question asked = q->q;
	struct err e = ERR_INIT;
	char id[ASK_ID_MAX];
	const struct ask *a;
	int r = askserve_check_widen(s, &asked, &canon, &e);

	if (r < 0) {
		add_error(out, -EINVAL, &e);
		return;
	}
	c->waiter = ASKSERVE_WAITER | ++s->serial;
	c->is_asking = true;
	asks_put(s->asks, asks_clock(), &asked, c->waiter, q->seconds, id);
	c->is_asking = false;
	a = asks_find(s->asks, id);
	if (a) {
		add_ask(s, a, out);
		buf_add(out, buf_cstr(&c->early), c->early.len);
	} else {
		err_set(&e, -EBUSY, "%s", c->why);
		add_error(out, -EBUSY, &e);
	}
	buf_release(&c->early);
	askserve_settle(s);
}

void askserve_frame(struct askserve *s, struct askserve_client *c, const struct frame *f, struct buf *out)
{
	struct askp_request q;
	struct err e = ERR_INIT;
	int r = askp_request_parse(f, &q, &e);

	if (r < 0 || c->waiter || c->follows) {
		if (r == 0)
			askp_request_release(&q);
		add_error(out, -EPROTO, (r < 0 ? 0 : err_set(&e, -EPROTO, "an answer is still to come"), &e));
		c->closing = true;
		return;
	}
	askserve_check_session(s);
	q.answer.who.uid = c->uid;
	switch (q.type) {
	case ASKP_FOLLOW:
		c->follows = true;
		c->all = q.all;
		serve_list(s, q.all, out);
		break;
	case ASKP_LIST:
		serve_list(s, q.all, out);
		break;
	case ASKP_SHOW:
		err_set(&e, -ENOENT, "there is no question %s", q.id);
		reply_with_ask(s, q.id, 0, &e, out);
		break;
	case ASKP_ANSWER:
		r = askserve_answer(s, q.id, q.digest, &q.answer, &e);
		reply_with_ask(s, q.id, r, &e, out);
		break;
	case ASKP_REVOKE:
		r = serve_revoke(s, &q, &e);
		reply_with_ask(s, q.id, r, &e, out);
		break;
	default:
		serve_submit(s, c, &q, out);
		break;
	}
	askp_request_release(&q);
}

/* ---- Clients. ---- */

static void askclient_free(struct askserve_client *c)
{
	struct askserve *s = c->s;
	struct askserve_client **p = &s->clients;
	uint64_t waiter = c->waiter;

	while (*p != c)
		p = &(*p)->next;
	*p = c->next;
	s->n_clients--;
	loop_unwatch(s->loop, &c->w);
	conn_release(&c->conn);
	fd_close(c->w.fd);
	free(c);
	if (waiter)
		asks_drop(s->asks, asks_clock(), waiter);
}

/* False: the client has been disconnected and freed. */
static bool askclient_flush(struct askserve_client *c)
{
	int r = conn_flush(&c->conn);

	if (r < 0 || conn_pending(&c->conn) > ASKSERVE_OWED_MAX || (r == 0 && c->closing)) {
		askclient_free(c);
		return false;
	}
	if (loop_watch(c->s->loop, &c->w, (uint32_t)(EPOLLIN | (r ? EPOLLOUT : 0))) < 0) {
		askclient_free(c);
		return false;
	}
	return true;
}

static void on_askclient(struct watch *w, uint32_t events)
{
	struct askserve_client *c = w->ctx;
	int r = 0, n;

	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		r = conn_fill(&c->conn);
	while (!c->closing) {
		struct frame f;

		n = conn_next(&c->conn, &f);
		if (n == 0)
			break;
		if (n < 0) {
			r = n;
			break;
		}
		askserve_frame(c->s, c, &f, &c->conn.out);
	}
	if (r < 0)
		askclient_free(c);
	else
		(void)askclient_flush(c);
}

static int askclient_add(struct askserve *s, int fd)
{
	struct ucred u;
	socklen_t len = sizeof(u);
	struct askserve_client *c;

	/* askserve.V1: only the owner of the state directory and root. */
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &u, &len) < 0 || (u.uid != 0 && u.uid != geteuid()))
		return -EPERM;
	if (s->n_clients >= ASKP_CLIENTS)
		return -EBUSY;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->s = s;
	c->uid = u.uid;
	c->w = (struct watch){ .fd = fd, .fn = on_askclient, .ctx = c };
	conn_init(&c->conn, fd);
	if (loop_watch(s->loop, &c->w, EPOLLIN) < 0) {
		conn_release(&c->conn);
		free(c);
		return -ENOMEM;
	}
	c->next = s->clients;
	s->clients = c;
	s->n_clients++;
	return 0;
}

void askserve_on_listen(struct watch *w, uint32_t events)
{
	struct askserve *s = w->ctx;
	int fd;

	(void)events;
	while ((fd = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
		if (askclient_add(s, fd) < 0)
			fd_close(fd);
	}
}

/* ---- Messages caused by others. ---- */

void askserve_tell_client(struct askserve *s, uint64_t waiter, bool allow, const char *id, const char *why)
{
	for (struct askserve_client *c = s->clients; c; c = c->next) {
		if (c->waiter != waiter)
			continue;
		c->waiter = 0;
		snprintf(c->why, sizeof(c->why), "%s", why);
		add_verdict(c->is_asking ? &c->early : &c->conn.out, id, allow, why);
		if (allow)
			asks_taken(s->asks, waiter);
		loop_timer(s->loop, &s->t_again, 0);
		return;
	}
}

void askserve_tell_followers(struct askserve *s, const struct ask *a)
{
	for (struct askserve_client *c = s->clients; c; c = c->next) {
		if (c->follows && conn_pending(&c->conn) <= ASKSERVE_OWED_MAX) {
			add_ask(s, a, &c->conn.out);
			loop_timer(s->loop, &s->t_again, 0);
		}
	}
}

/* Messages that others caused are flushed from a timer, because flushing may free the client that is being
 * served. */
void askserve_on_again(struct timer *t)
{
	struct askserve *s = t->ctx;
	struct askserve_client *c, *next;

	for (c = s->clients; c; c = next) {
		next = c->next;
		if (conn_pending(&c->conn))
			(void)askclient_flush(c);
	}
}

void askserve_drop_clients(struct askserve *s)
{
	struct askserve_client *c, *next;

	for (c = s->clients; c; c = next) {
		next = c->next;
		(void)!conn_flush(&c->conn);
		askclient_free(c);
	}
}
