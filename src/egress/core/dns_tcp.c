/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DNS over TCP: many queries per connection, replies in any order.
 *
 * At most CONNS_MAX connections, the oldest is closed for the next; each holds one unread query, OUT_MAX
 * bytes of replies and QUERIES_MAX waiting queries: a client that sends faster than it reads is not read
 * from. A connection without activity for IDLE seconds is closed.
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/container.h"
#include "base/fd.h"
#include "egress/core/dns_serve.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define CONNS_MAX 128
#define OUT_MAX (16u << 10)
#define QUERIES_MAX 64
#define IDLE 20

/* Freed when it is closed and none of its queries waits any more. */
struct tcp_conn {
	struct dns_client base; /* is its own persistent copy: keep() only counts */
	struct watch w;
	struct buf in, out;
	size_t sent;	  /* of out */
	size_t committed; /* bytes of out whose journal lines are written */
	unsigned waiting;
	bool eof;
	bool is_handed; /* the sender of its socket may have made close() wait */
	struct wheel_entry timeout;
	TAILQ_ENTRY(tcp_conn) list;
};

struct tcp_listener {
	struct dns_serve *dns;
	struct watch w;
};

struct dns_tcp {
	struct tcp_listener listeners[2];
	unsigned n_listeners;
	TAILQ_HEAD(, tcp_conn) conns;
	unsigned n_conns;
};

static struct egress *dns_conn_egress(struct tcp_conn *c)
{
	return dns_serve_egress(c->base.dns);
}

static void dns_conn_close(struct tcp_conn *c)
{
	struct dns_tcp *d = *dns_serve_tcp(c->base.dns);

	if (c->w.fd >= 0) {
		const struct linger off = { 0 };

		if (c->is_handed)
			(void)!setsockopt(c->w.fd, SOL_SOCKET, SO_LINGER, &off, sizeof(off));
		loop_unwatch(&dns_conn_egress(c)->loop, &c->w);
		c->w.fd = fd_close(c->w.fd);
		wheel_disarm(&dns_conn_egress(c)->wheel, &c->timeout);
		TAILQ_REMOVE(&d->conns, c, list);
		d->n_conns--;
	}
	if (c->waiting == 0) {
		buf_release(&c->in);
		buf_release(&c->out);
		free(c);
	}
}

static void on_conn_idle(struct wheel_entry *t)
{
	dns_conn_close(CONTAINER_OF(t, struct tcp_conn, timeout));
}

static void dns_tcp_send(struct dns_client *base, const uint8_t *msg, size_t len)
{
	struct tcp_conn *c = (struct tcp_conn *)base;
	uint8_t head[2];

	dns_tcp_head(head, len);
	buf_add(&c->out, head, sizeof(head));
	buf_add(&c->out, msg, len);
}

static size_t dns_tcp_reply_max(const struct dns_client *base, const struct dns_query *q)
{
	(void)base;
	(void)q;
	return DNS_REPLY_MAX;
}

static struct dns_client *dns_tcp_keep(struct dns_client *base)
{
	((struct tcp_conn *)base)->waiting++;
	return base;
}

static void dns_tcp_drop(struct dns_client *base)
{
	struct tcp_conn *c = (struct tcp_conn *)base;

	c->waiting--;
	if (c->w.fd < 0)
		dns_conn_close(c);
}

static const struct dns_client_ops tcp_ops = { dns_tcp_send, dns_tcp_reply_max, dns_tcp_keep, dns_tcp_drop };

static bool dns_conn_is_full(const struct tcp_conn *c)
{
	return c->out.len > OUT_MAX || c->waiting >= QUERIES_MAX;
}

/* False: the client does not speak DNS. */
static bool dns_conn_take_queries(struct tcp_conn *c)
{
	const uint8_t *msg;
	size_t len, off = 0;
	long n = 0;

	while (!dns_conn_is_full(c) &&
	       (n = dns_tcp_next((const uint8_t *)c->in.data + off, c->in.len - off, &msg, &len)) > 0) {
		dns_serve_query(c->base.dns, &c->base, msg, len);
		off += (size_t)n;
	}
	if (off)
		buf_consume(&c->in, off);
	return n >= 0 && !buf_error(&c->out);
}

/* Is there a query that was read while its reply had no room? */
static bool dns_conn_has_query(const struct tcp_conn *c)
{
	const uint8_t *msg;
	size_t len;

	return !dns_conn_is_full(c) && c->in.len &&
	       dns_tcp_next((const uint8_t *)c->in.data, c->in.len, &msg, &len) != 0;
}

/* Waits for the events that matter now; closes the connection when nothing is left to do. */
static void dns_conn_arm(struct tcp_conn *c)
{
	uint32_t events = (c->eof || dns_conn_is_full(c) ? 0u : (uint32_t)(EPOLLIN | EPOLLRDHUP)) |
			  (c->committed > c->sent || dns_conn_has_query(c) ? (uint32_t)EPOLLOUT : 0u);

	bool done = c->eof && !c->waiting && c->out.len == 0;

	if (done || loop_watch(&dns_conn_egress(c)->loop, &c->w, events) < 0)
		dns_conn_close(c);
}

static bool dns_conn_write(struct tcp_conn *c)
{
	ssize_t n;

	if (c->committed == c->sent)
		return true;
	n = send(c->w.fd, c->out.data + c->sent, c->committed - c->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	c->sent += (size_t)n;
	if (c->sent == c->out.len) {
		buf_clear(&c->out);
		c->sent = c->committed = 0;
	}
	return true;
}

static bool dns_conn_read(struct tcp_conn *c)
{
	char *p = buf_reserve(&c->in, DNS_QUERY_MAX);
	ssize_t n = p ? recv(c->w.fd, p, DNS_QUERY_MAX, MSG_DONTWAIT) : -1;

	if (!p)
		return false;
	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	if (n == 0)
		c->eof = true;
	c->in.len += (size_t)n;
	return true;
}

static void on_dns_conn(struct watch *w, uint32_t events)
{
	struct tcp_conn *c = w->ctx;

	wheel_arm(&dns_conn_egress(c)->wheel, &c->timeout, dns_conn_egress(c)->now + IDLE * NSEC_PER_SEC);
	if ((events & (EPOLLERR | EPOLLHUP)) || ((events & EPOLLOUT) && !dns_conn_write(c)) ||
	    ((events & (EPOLLIN | EPOLLRDHUP)) && !dns_conn_read(c)) || !dns_conn_take_queries(c)) {
		dns_conn_close(c);
		return;
	}
	dns_conn_arm(c);
}

/* Made with the first of its listeners or connections. NULL: no memory. */
static struct dns_tcp *dns_tcp_of(struct dns_serve *s)
{
	struct dns_tcp **d = dns_serve_tcp(s);

	if (!*d && (*d = calloc(1, sizeof(**d))) != NULL)
		TAILQ_INIT(&(*d)->conns);
	return *d;
}

void dns_tcp_take(struct dns_serve *s, int fd, bool handed)
{
	struct dns_tcp *d = dns_tcp_of(s);
	struct egress *eg = dns_serve_egress(s);
	struct tcp_conn *c = d ? calloc(1, sizeof(*c)) : NULL;

	if (!c) {
		fd_close(fd);
		return;
	}
	c->base = (struct dns_client){ &tcp_ops, s };
	c->is_handed = handed;
	c->w = (struct watch){ .fd = fd, .fn = on_dns_conn, .ctx = c };
	c->timeout.fn = on_conn_idle;
	TAILQ_INSERT_TAIL(&d->conns, c, list);
	if (++d->n_conns > CONNS_MAX)
		dns_conn_close(TAILQ_FIRST(&d->conns));
	wheel_arm(&eg->wheel, &c->timeout, eg->now + IDLE * NSEC_PER_SEC);
	dns_conn_arm(c);
}

static void on_dns_listener(struct watch *w, uint32_t events)
{
	struct tcp_listener *l = w->ctx;
	int fd;

	(void)events;
	for (int i = 0; i < 16; i++) {
		fd = accept4(w->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
			struct dns_tcp *d = *dns_serve_tcp(l->dns);

			/*
			 * Close one of ours to free a descriptor; if there is none, dns_tcp_tick() retries.
			 */
			if (TAILQ_FIRST(&d->conns))
				dns_conn_close(TAILQ_FIRST(&d->conns));
			else
				loop_unwatch(&dns_serve_egress(l->dns)->loop, w);
		}
		if (fd < 0)
			return;
		dns_tcp_take(l->dns, fd, false);
	}
}

void dns_tcp_flush(struct dns_serve *s, int status)
{
	struct dns_tcp *d = *dns_serve_tcp(s);
	struct tcp_conn *c, *next;

	for (c = d ? TAILQ_FIRST(&d->conns) : NULL; c; c = next) {
		next = TAILQ_NEXT(c, list);
		if (c->out.len == c->committed && !c->eof)
			continue;
		if (status < 0) {
			dns_conn_close(c);
			continue;
		}
		c->committed = c->out.len;
		if (!dns_conn_write(c))
			dns_conn_close(c);
		else
			dns_conn_arm(c);
	}
}

void dns_tcp_tick(struct dns_serve *s)
{
	struct dns_tcp *d = *dns_serve_tcp(s);

	for (unsigned i = 0; d && i < d->n_listeners; i++)
		(void)!loop_watch(&dns_serve_egress(s)->loop, &d->listeners[i].w, EPOLLIN);
}

int dns_tcp_open(struct dns_serve *s, int fd, struct err *e)
{
	struct dns_tcp *d = dns_tcp_of(s);
	struct tcp_listener *l;
	int r;

	if (!d)
		return err_sys(e, -ENOMEM, "cannot serve names");
	BUG_ON(d->n_listeners == 2);
	l = &d->listeners[d->n_listeners++];
	*l = (struct tcp_listener){ .dns = s, .w = { .fd = fd, .fn = on_dns_listener, .ctx = l } };
	r = fd_set_nonblock(fd, true);
	if (r == 0)
		r = loop_watch(&dns_serve_egress(s)->loop, &l->w, EPOLLIN);
	return r < 0 ? err_sys(e, r, "cannot serve names") : 0;
}

void dns_tcp_close_all(struct dns_serve *s)
{
	struct dns_tcp *d = *dns_serve_tcp(s);

	while (d && !TAILQ_EMPTY(&d->conns))
		dns_conn_close(TAILQ_FIRST(&d->conns));
}

void dns_tcp_free(struct dns_serve *s)
{
	struct dns_tcp **d = dns_serve_tcp(s);

	if (!*d)
		return;
	dns_tcp_close_all(s);
	for (unsigned i = 0; i < (*d)->n_listeners; i++) {
		loop_unwatch(&dns_serve_egress(s)->loop, &(*d)->listeners[i].w);
		fd_close((*d)->listeners[i].w.fd);
	}
	free(*d);
	*d = NULL;
}
