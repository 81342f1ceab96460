/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS on the connection, the secret, the request, the response: courier.U3, courier.U4. Blocking calls, each
 * bounded by the deadline. The secret must not be fetched before the server is verified.
 */
#include "courier/courier_int.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "codec/http/urlpath.h"
#include "vault/common/vaultproto.h"

#include <errno.h>
#include <openssl/err.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#define VAULT_IN (VAULT_SECRET_MAX + 1024)

/* 0 when the descriptor is ready, -ETIMEDOUT. */
static int wait_until_ready(const struct courier *c, int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };
	uint64_t now;
	int n;

	do {
		now = clock_nsec(CLOCK_MONOTONIC);
		if (now >= c->deadline)
			return -ETIMEDOUT;
		n = poll(&p, 1, (int)((c->deadline - now) / NSEC_PER_MSEC) + 1);
	} while (n == 0 || (n < 0 && errno == EINTR));
	return n < 0 ? -errno : 0;
}

/* Waits as TLS requires; 0 to continue. `e` says what failed. */
static int tls_wait(const struct courier *c, SSL *s, int got, const char *what, struct err *e)
{
	int why = SSL_get_error(s, got), r;
	const char *verify = tls_verify_error(s);

	switch (why) {
	case SSL_ERROR_WANT_READ:
	case SSL_ERROR_WANT_WRITE:
		r = wait_until_ready(c, c->sock, why == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT);
		return r < 0 ? err_sys(e, r, "%s %s", c->job.host.text, what) : 0;
	case SSL_ERROR_ZERO_RETURN:
		return err_set(e, -EPIPE, "%s %s: it closed the connection", c->job.host.text, what);
	case SSL_ERROR_SYSCALL:
		r = errno ? -errno : -EPIPE;
		return err_sys(e, r, "%s %s", c->job.host.text, what);
	default:
		if (verify && !SSL_is_init_finished(s))
			return err_set(e, -EACCES, "the certificate of %s cannot be trusted: %s",
				       c->job.host.text, verify);
		verify = ERR_reason_error_string(ERR_peek_last_error());
		return err_set(e, -EPROTO, "%s %s: %s", c->job.host.text, what,
			       verify ? verify : "TLS failed");
	}
}

static int tls_handshake(struct courier *c, SSL *s, struct err *e)
{
	int n, r = 0;

	if (SSL_set_fd(s, c->sock) != 1)
		return err_set(e, -EIO, "cannot begin TLS");
	do {
		ERR_clear_error();
		errno = 0;
		n = SSL_do_handshake(s);
		if (n != 1)
			r = tls_wait(c, s, n, "does not finish the TLS handshake", e);
	} while (n != 1 && r == 0);
	/* OpenSSL has checked both; this is a second line of defence. */
	if (r == 0 && (SSL_get_verify_result(s) != X509_V_OK || !SSL_get0_peer_certificate(s)))
		return err_set(e, -EACCES, "the certificate of %s was not verified", c->job.host.text);
	return r;
}

/* ---- The secret. ---- */

static int take_rendered_secret(struct courier *c, const char *in, size_t len, struct err *e)
{
	struct vault_msg m;

	if (vault_msg_parse(VAULT_TO_CLIENT, in, len, 0, &m) < 0 ||
	    (m.type != VAULT_RENDERED && m.type != VAULT_REFUSED))
		return err_set(e, -EPROTO, "the vault broke the protocol");
	if (m.type == VAULT_REFUSED)
		return err_set(e, m.status, "the vault does not give the secret: %.*s", (int)m.text[0].len,
			       m.text[0].p ? m.text[0].p : "");
	buf_add(&c->secret, m.text[0].p, m.text[0].len);
	return buf_error(&c->secret) ? err_set(e, -ENOMEM, "out of memory") : 0;
}

static int fetch_secret(struct courier *c, struct err *e)
{
	struct vault_msg m = { .type = VAULT_RENDER,
			       .id = 1,
			       .num = { c->job.handle, c->job.port },
			       .text = { slice_of(c->job.host.text),
					 { c->job.target.p, c->job.target.len } } };
	const char *query = memchr(c->job.target.p, '?', c->job.target.len);
	size_t size;
	struct buf io = { .wipe = true };
	char *p;
	ssize_t n;
	int r;

	if (query)
		m.text[1].len = (size_t)(query - c->job.target.p);
	size = vault_msg_size(VAULT_FROM_CLIENT, &m);
	p = buf_reserve(&io, size > VAULT_IN ? size : VAULT_IN);
	n = p && size ? vault_msg_pack(VAULT_FROM_CLIENT, &m, p, size) : -ENOMEM;
	if (n < 0 || send(c->vault, p, (size_t)n, MSG_NOSIGNAL) != n) {
		buf_release(&io);
		return err_set(e, -EPIPE, "cannot send a request to the vault");
	}
	r = wait_until_ready(c, c->vault, POLLIN);
	n = r < 0 ? -1 : recv(c->vault, p, VAULT_IN, MSG_TRUNC | MSG_DONTWAIT);
	if (n <= 0 || (size_t)n > VAULT_IN)
		r = err_set(e, -EPIPE, "the vault closed the channel without a reply");
	else
		r = take_rendered_secret(c, p, (size_t)n, e);
	if (n > 0)
		io.len = (size_t)n < VAULT_IN ? (size_t)n : VAULT_IN;
	buf_release(&io);
	return r;
}

/* A line break at its end comes from an editor. */
static int read_courier_key(struct courier *c, struct err *e)
{
	int r = fd_read_all(c->key, COURIER_KEY_MAX, &c->secret);

	if (r < 0)
		return err_sys(e, r, "cannot read the key");
	while (c->secret.len &&
	       (c->secret.data[c->secret.len - 1] == '\n' || c->secret.data[c->secret.len - 1] == '\r'))
		c->secret.data[--c->secret.len] = '\0';
	return c->secret.len ? 0 : err_set(e, -EINVAL, "the key file is empty");
}

static int get_courier_secret(struct courier *c, struct err *e)
{
	if (c->job.auth == COURIER_NO_AUTH)
		return 0;
	return c->vault >= 0 ? fetch_secret(c, e) : read_courier_key(c, e);
}

/* ---- Request and response. ---- */

static int tls_send_all(struct courier *c, SSL *s, const struct buf *out, struct err *e)
{
	size_t at = 0;
	int r = 0;

	while (r == 0 && at < out->len) {
		int n;

		ERR_clear_error();
		errno = 0;
		n = SSL_write(s, out->data + at, (int)(out->len - at));
		if (n > 0)
			at += (size_t)n;
		else
			r = tls_wait(c, s, n, "does not accept the request", e);
	}
	return r;
}

static int send_courier_request(struct courier *c, SSL *s, struct err *e)
{
	struct buf out = { .wipe = true };
	int r = get_courier_secret(c, e);

	if (r == 0) {
		r = courier_request(&c->job, (struct slice){ c->secret.data, c->secret.len },
				    clock_nsec(CLOCK_REALTIME) / NSEC_PER_SEC, &out);
		if (r < 0)
			err_set(e, r, "the secret has bytes that are not allowed in a header");
	}
	buf_clear(&c->secret);
	if (r == 0)
		r = tls_send_all(c, s, &out, e);
	buf_release(&out);
	return r;
}

/* Once the status is known, neither the end of the connection nor the deadline discards it. */
static int read_response(struct courier *c, SSL *s, struct courier_response *a, struct err *e)
{
	char in[4096];
	int r = 0;

	while (r == 0) {
		int n;

		ERR_clear_error();
		errno = 0;
		n = SSL_read(s, in, sizeof(in));
		if (n > 0) {
			r = courier_response_feed(a, in, (size_t)n);
			if (r < 0)
				return err_set(e, r, "the response of %s cannot be read: %s",
					       c->job.host.text, a->why);
		} else {
			r = tls_wait(c, s, n, "sends no response", e);
			if (r < 0 && courier_response_end(a) == 1)
				return 0;
		}
	}
	return r < 0 ? r : 0;
}

int courier_talk(struct courier *c, struct courier_response *a, struct err *e)
{
	SSL *s = NULL;
	int r = tls_ctx_connect(c->tls, &c->job.host, c->job.port,
				c->job.flags & COURIER_HAS_CA ? buf_cstr(&c->pem) : NULL, TLS_ALPN_H1, &s, e);

	if (r < 0)
		return r;
	r = tls_handshake(c, s, e);
	r = r < 0 ? r : send_courier_request(c, s, e);
	r = r < 0 ? r : read_response(c, s, a, e);
	if (r == 0)
		(void)!SSL_shutdown(s);
	SSL_free(s);
	return r;
}
