/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handshake with one proxy, CONNECT or SOCKS5 (codec/http/connect.h, codec/net/socks.h). Buffers that may
 * hold a password are zeroed, and the fetched credential is dropped as soon as it is sent (proxy.O4). No
 * message may contain a credential.
 */
#include "dial/proxy/proxy_tunnel.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define PEEK 4096

/* It may have held the password. */
static void tunnel_wipe_buf(struct buf *b)
{
	if (b->data)
		sodium_memzero(b->data, b->cap);
	buf_release(b);
}

static void tunnel_forget_credential(struct tunnel *t)
{
	if (!t->secret)
		return;
	buf_release(&t->credential);
	t->user = t->password = NULL;
}

void tunnel_cancel(struct tunnel *t)
{
	resolver_cancel(t->resolver, &t->lookup);
	race_cancel(&t->race);
	loop_timer_off(t->loop, &t->deadline);
	loop_unwatch(t->loop, &t->w);
	t->w.fd = fd_close(t->w.fd);
	if (t->vault && t->vault->is_open)
		vaultc_cancel(&t->vault->client, &t->fetch);
	tunnel_forget_credential(t);
	tunnel_wipe_buf(&t->in);
	tunnel_wipe_buf(&t->out);
}

static void tunnel_finish(struct tunnel *t, enum tunnel_end end, int status, int fd, const char *why)
{
	tunnel_cancel(t);
	t->done(t, end, status, fd, why);
}

static void tunnel_fault(struct tunnel *t, int status, const char *what)
{
	char why[128];

	snprintf(why, sizeof(why), "%s", what);
	tunnel_finish(t, TUNNEL_FAULT, status, -1, why);
}

/*
 * Has the request been sent, so that silence may be the server's? In SOCKS the request follows two short
 * replies.
 */
static bool tunnel_request_is_sent(const struct tunnel *t)
{
	if (t->proxy->type != POLICY_PROXY_SOCKS5)
		return true;
	return t->taken >= (t->socks.wants_auth ? 4 : 2);
}

static void on_tunnel_deadline(struct timer *timer)
{
	struct tunnel *t = timer->ctx;

	if (t->w.fd >= 0 && tunnel_request_is_sent(t))
		tunnel_finish(t, TUNNEL_SILENT, -ETIMEDOUT, -1, "the proxy did not respond in time");
	else
		tunnel_fault(t, -ETIMEDOUT,
			     t->w.fd >= 0 ? "the proxy did not respond in time"
					  : "connecting to the proxy timed out");
}

static void tunnel_set_deadline(struct tunnel *t, uint64_t ms)
{
	loop_timer(t->loop, &t->deadline, clock_nsec(CLOCK_MONOTONIC) + ms * NSEC_PER_MSEC);
}

static int tunnel_flush(struct tunnel *t)
{
	while (t->out_off < t->out.len) {
		ssize_t n = send(t->w.fd, t->out.data + t->out_off, t->out.len - t->out_off, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 1 : -errno;
		t->out_off += (size_t)n;
	}
	if (t->out.data)
		sodium_memzero(t->out.data, t->out.cap);
	t->out.len = t->out_off = 0;
	return 0;
}

/*
 * Parses the handshake so far: 1 the tunnel is open, 0 more is needed; *used bytes belong to the handshake.
 */
static int tunnel_parse(struct tunnel *t, const char *data, size_t len, size_t *used, struct err *e)
{
	long n;
	int r;

	if (t->proxy->type == POLICY_PROXY_SOCKS5)
		return socks_feed(&t->socks, (const uint8_t *)data, len, used, &t->out, e);
	n = connect_parse_reply(&t->reply, data, len, e);
	*used = n > 0 ? (size_t)n : 0;
	r = n > 0 ? 1 : (int)n;
	return r;
}

static void tunnel_refused(struct tunnel *t, int r, const struct err *e)
{
	char why[128];

	/*
	 * 401: sent by some proxies instead of 407. 405 and 501: it makes no tunnels; SOCKS 7 and 8 mean the
	 * same.
	 */
	const bool its_own =
		t->proxy->type == POLICY_PROXY_SOCKS5
			? t->socks.reply == 7 || t->socks.reply == 8
			: t->reply.status == 401 || t->reply.status == 405 || t->reply.status == 501;

	snprintf(why, sizeof(why), "%.120s", e->msg);
	if (r == -ECONNREFUSED && !its_own)
		tunnel_finish(t, TUNNEL_REFUSED, -ECONNREFUSED, -1, why);
	else if (r == -ENOMEM)
		tunnel_finish(t, TUNNEL_OURS, r, -1, why);
	else
		tunnel_finish(t, TUNNEL_FAULT, -EREMOTEIO, -1, why);
}

/* Takes exactly `n` bytes that were peeked at. */
static int tunnel_take_bytes(struct tunnel *t, size_t n)
{
	char sink[PEEK];
	ssize_t got;

	if (n > sizeof(sink))
		return -EBADMSG;
	got = n ? recv(t->w.fd, sink, n, MSG_DONTWAIT) : 0;
	t->taken += n;
	return got == (ssize_t)n ? 0 : -EIO;
}

static int tunnel_watch(struct tunnel *t)
{
	return loop_watch(t->loop, &t->w, EPOLLIN | (t->out.len > t->out_off ? EPOLLOUT : 0u));
}

static void tunnel_opened(struct tunnel *t)
{
	int fd;

	loop_unwatch(t->loop, &t->w);
	fd = TAKE_FD(t->w.fd);
	tunnel_finish(t, TUNNEL_OPEN, 0, fd, "");
}

/*
 * Peeks once at the received bytes. Until the handshake is over all of them belong to it, so all are taken;
 * at its end only its own. 1: peek again; 0: wait; -1: it has ended.
 */
static int tunnel_peek(struct tunnel *t)
{
	size_t held = t->in.len, used = 0;
	const bool was_asked = tunnel_request_is_sent(t);
	struct err e = ERR_INIT;
	char *at = buf_reserve(&t->in, PEEK);
	ssize_t n;
	int r;

	if (!at) {
		tunnel_finish(t, TUNNEL_OURS, -ENOMEM, -1, "no memory");
		return -1;
	}
	n = recv(t->w.fd, at, PEEK, MSG_PEEK | MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0) {
		tunnel_fault(t, n < 0 ? -errno : -EREMOTEIO, "the proxy closed the connection");
		return -1;
	}
	t->in.len += (size_t)n;
	r = tunnel_parse(t, t->in.data, t->in.len, &used, &e);
	if (r < 0) {
		tunnel_refused(t, r, &e);
		return -1;
	}
	if ((r == 1 && (used < held || used > t->in.len)) ||
	    tunnel_take_bytes(t, r == 1 ? used - held : (size_t)n) < 0) {
		tunnel_fault(t, -EREMOTEIO, "the proxy's response cannot be read");
		return -1;
	}
	if (r == 1) {
		tunnel_opened(t);
		return -1;
	}
	/* SOCKS consumes piece by piece; an HTTP head is parsed from its first byte each time. */
	if (used)
		buf_consume(&t->in, used);
	if (!was_asked && tunnel_request_is_sent(t))
		tunnel_set_deadline(t, TUNNEL_ANSWER_MS);
	return 1;
}

static void on_proxy_socket(struct watch *w, uint32_t events)
{
	struct tunnel *t = w->ctx;
	int r = 0;

	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
		do {
			r = tunnel_peek(t);
		} while (r == 1);
	}
	if (r < 0)
		return;
	r = tunnel_flush(t);
	if (r >= 0)
		r = tunnel_watch(t);
	if (r < 0)
		tunnel_fault(t, r, "the proxy closed the connection");
}

static int tunnel_greet(struct tunnel *t, struct err *e)
{
	if (t->proxy->type == POLICY_PROXY_SOCKS5) {
		t->socks = SOCKS_INIT(&t->target, t->port, t->user, t->password);
		return socks_start(&t->socks, &t->out, e);
	}
	t->reply = CONNECT_REPLY_INIT;
	return connect_add_request(&t->out, &t->target, t->port, t->user, t->password, e);
}

static void tunnel_begin_handshake(struct tunnel *t)
{
	struct err e = ERR_INIT;
	int r;

	tunnel_set_deadline(t, tunnel_request_is_sent(t) ? TUNNEL_ANSWER_MS : TUNNEL_CONNECT_MS);
	r = tunnel_greet(t, &e);
	if (r < 0) {
		tunnel_finish(t, TUNNEL_OURS, r, -1, e.msg);
		return;
	}
	/* CONNECT has sent it by now; SOCKS sends it on demand. */
	if (t->proxy->type != POLICY_PROXY_SOCKS5)
		tunnel_forget_credential(t);
	r = tunnel_flush(t);
	if (r >= 0)
		r = tunnel_watch(t);
	if (r < 0)
		tunnel_fault(t, r, "the proxy closed the connection");
}

static void on_proxy_credential(struct vaultc_request *a, int status, struct slice value, const char *why)
{
	struct tunnel *t = a->ctx;
	char text[128];

	if (status == 0)
		why = dial_vault_split(t->vault, t->secret, &t->proxy->host, t->proxy->port, value,
				       &t->credential, &t->user, &t->password);
	if (!why) {
		tunnel_begin_handshake(t);
		return;
	}
	snprintf(text, sizeof(text), "%.120s", why);
	tunnel_finish(t, TUNNEL_OURS, -EACCES, -1, text);
}

/* Not before there is a connection to use it for. */
static void tunnel_fetch_credential(struct tunnel *t)
{
	const char *why = NULL;

	t->fetch = (struct vaultc_request){ .done = on_proxy_credential, .ctx = t };
	if (dial_vault_fetch(t->vault, &t->fetch, t->secret, &t->proxy->host, t->proxy->port, &why) < 0)
		tunnel_finish(t, TUNNEL_OURS, -EACCES, -1, why);
}

static void on_proxy_connected(struct race *race, int status, int fd, const struct addr *a)
{
	struct tunnel *t = race->ctx;
	char why[128];

	(void)a;
	if (status < 0) {
		snprintf(why, sizeof(why), "cannot connect to the proxy: %s", strerror(-status));
		/* Too many descriptors or no memory here is not the proxy's fault. */
		tunnel_finish(t,
			      status == -EMFILE || status == -ENFILE || status == -ENOMEM ? TUNNEL_OURS
											  : TUNNEL_FAULT,
			      status, -1, why);
		return;
	}
	t->w.fd = fd;
	if (t->is_greeting_only) {
		tunnel_finish(t, TUNNEL_OPEN, 0, -1, "");
		return;
	}
	if (t->secret)
		tunnel_fetch_credential(t);
	else
		tunnel_begin_handshake(t);
}

static void tunnel_connect(struct tunnel *t, const struct addr *addrs, size_t n)
{
	int r;

	t->race = (struct race){ .done = on_proxy_connected, .ctx = t };
	r = race_start(&t->race, t->loop, addrs, n, t->proxy->port);
	if (r < 0)
		on_proxy_connected(&t->race, r, -1, NULL);
}

static void on_proxy_name(struct resolve_lookup *l, struct resolve_answer *a)
{
	struct tunnel *t = l->ctx;
	char why[128];

	if (a->status == 0) {
		tunnel_connect(t, a->addrs, a->n_addrs);
		return;
	}
	snprintf(why, sizeof(why), "cannot resolve the proxy: %s", a->why);
	tunnel_fault(t, a->status, why);
}

/* Called from the loop, so that done() is never called from within tunnel_start(). */
static void on_tunnel_begin(struct timer *timer)
{
	struct tunnel *t = timer->ctx;
	struct resolve_answer *a = NULL;
	int r;

	timer->fn = on_tunnel_deadline;
	tunnel_set_deadline(t, TUNNEL_CONNECT_MS);
	if (t->proxy->host.kind == HOST_ADDR) {
		tunnel_connect(t, &t->proxy->host.addr, 1);
		return;
	}
	r = resolver_lookup(t->resolver, &t->proxy->host, &t->lookup, &a);
	if (r == 1)
		on_proxy_name(&t->lookup, a);
	else if (r < 0)
		tunnel_finish(t, TUNNEL_OURS, r, -1, "too many names are being resolved");
}

void tunnel_start(struct tunnel *t)
{
	t->w = (struct watch){ .fd = -1, .fn = on_proxy_socket, .ctx = t };
	t->lookup = (struct resolve_lookup){ .fn = on_proxy_name, .ctx = t };
	t->deadline = (struct timer){ .fn = on_tunnel_begin, .ctx = t };
	t->in = t->out = t->credential = (struct buf){ .wipe = true };
	loop_timer(t->loop, &t->deadline, clock_nsec(CLOCK_MONOTONIC));
}
