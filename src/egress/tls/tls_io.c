/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stream of tls_io.h over a BIO of its own, so that bytes read before TLS began reach OpenSSL first.
 * Errors are sticky; after one the stream moves no more bytes.
 */
#include "egress/tls/tls_io.h"

#include "base/container.h"

#include <openssl/err.h>
#include <string.h>
#include <sys/socket.h>

/* A short read shows that the socket is empty: it saves the recv() that would only return EAGAIN. */
static long io_raw_read(struct io *io, void *data, size_t len)
{
	ssize_t n;

	if (io->pre_at < io->pre.len) {
		size_t have = io->pre.len - io->pre_at;

		if (len > have)
			len = have;
		memcpy(data, io->pre.data + io->pre_at, len);
		io->pre_at += len;
		if (io->pre_at == io->pre.len)
			buf_release(&io->pre), io->pre_at = 0;
		return (long)len;
	}
	if (io->drained)
		return -EAGAIN;
	do
		n = recv(io->w.fd, data, len, MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0) {
		io->drained = errno == EAGAIN;
		return -errno;
	}
	io->drained = n > 0 && (size_t)n < len;
	io->rx += (uint64_t)n;
	return n;
}

static long io_raw_write(struct io *io, const void *data, size_t len)
{
	ssize_t n;

	do
		n = send(io->w.fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	io->tx += (uint64_t)n;
	return n;
}

static int bio_result(BIO *b, struct io *io, long n, int retry)
{
	if (n == -EAGAIN) {
		BIO_set_flags(b, retry | BIO_FLAGS_SHOULD_RETRY);
		return -1;
	}
	if (n < 0) {
		io->error = (int)n;
		return -1;
	}
	return (int)n;
}

static int bio_read(BIO *b, char *data, int len)
{
	struct io *io = BIO_get_data(b);

	BIO_clear_retry_flags(b);
	if (!io || len <= 0)
		return -1;
	return bio_result(b, io, io_raw_read(io, data, (size_t)len), BIO_FLAGS_READ);
}

static int bio_write(BIO *b, const char *data, int len)
{
	struct io *io = BIO_get_data(b);

	BIO_clear_retry_flags(b);
	if (!io || len <= 0)
		return -1;
	return bio_result(b, io, io_raw_write(io, data, (size_t)len), BIO_FLAGS_WRITE);
}

static long bio_ctrl(BIO *b, int cmd, long num, void *ptr)
{
	(void)b, (void)num, (void)ptr;
	return cmd == BIO_CTRL_FLUSH;
}

static int bio_create(BIO *b)
{
	BIO_set_init(b, 1);
	return 1;
}

static const BIO_METHOD *bio_method(void)
{
	static BIO_METHOD *m;

	if (!m) {
		m = BIO_meth_new(BIO_TYPE_SOURCE_SINK | BIO_get_new_index(), "connection");
		if (m) {
			BIO_meth_set_read(m, bio_read);
			BIO_meth_set_write(m, bio_write);
			BIO_meth_set_ctrl(m, bio_ctrl);
			BIO_meth_set_create(m, bio_create);
		}
	}
	return m;
}

static void io_run_task(struct task *t)
{
	struct io *io = CONTAINER_OF(t, struct io, task);

	io->run(io);
}

static void on_io_event(struct watch *w, uint32_t events)
{
	struct io *io = w->ctx;
	struct runq *q = io->q;

	runq_enter(q);
	if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		io->drained = false;
	if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
		io->blocked = false;
	/* The owner does not read or write now, so no read would report the error. */
	if ((events & (EPOLLHUP | EPOLLERR)) && !io->want_in && !io->error)
		io->error = -ECONNRESET;
	runq_add(q, &io->task);
	runq_leave(q);
}

int io_open(struct io *io, struct runq *q, int fd, SSL *ssl, void (*run)(struct io *io), void *owner)
{
	*io = (struct io){ .q = q, .task = { .fn = io_run_task }, .run = run, .owner = owner };
	io->w = (struct watch){ .fd = fd, .fn = on_io_event };
	io->w.ctx = io;
	io->ssl = ssl;
	io->shaken = !ssl;
	if (ssl) {
		BIO *b = bio_method() ? BIO_new(bio_method()) : NULL;

		if (!b)
			return -ENOMEM;
		BIO_set_data(b, io);
		SSL_set_bio(ssl, b, b);
	}
	return 0;
}

void io_close(struct io *io)
{
	runq_drop(io->q, &io->task);
	if (io->w.fd >= 0)
		loop_unwatch(io->q->loop, &io->w);
	SSL_free(io->ssl);
	io->ssl = NULL;
	ERR_clear_error();
	if (!io->borrowed)
		fd_close(io->w.fd);
	io->w.fd = -1;
	buf_release(&io->pre);
	buf_release(&io->out);
}

void io_set_wipe(struct io *io)
{
	io->wipe = io->out.wipe = true;
	if (io->ssl)
		SSL_set_options(io->ssl, SSL_OP_CLEANSE_PLAINTEXT);
}

void io_unread(struct io *io, const void *data, size_t len)
{
	buf_add(&io->pre, data, len);
	io->rx += len;
	if (buf_error(&io->pre))
		io->error = -ENOMEM;
}

/* Translates OpenSSL's error into the state of the stream and a text. */
static void io_note_tls_error(struct io *io, int ret)
{
	int kind = SSL_get_error(io->ssl, ret);
	unsigned long code = ERR_peek_error();
	const char *why = ERR_reason_error_string(code);

	switch (kind) {
	case SSL_ERROR_WANT_READ:
		io->tls_in = true;
		break;
	case SSL_ERROR_WANT_WRITE:
		io->blocked = true;
		break;
	case SSL_ERROR_ZERO_RETURN:
		io->eof = true;
		break;
	default:
		/* The peer sent FIN without close_notify. */
		if (kind == SSL_ERROR_SSL && ERR_GET_REASON(code) == SSL_R_UNEXPECTED_EOF_WHILE_READING) {
			io->eof = io->cut = true;
			break;
		}
		snprintf(io->why, sizeof(io->why), "%s",
			 why		 ? why
			 : io->error < 0 ? strerror(-io->error)
					 : "the connection ended");
		if (io->error >= 0)
			io->error = kind == SSL_ERROR_SSL ? -EPROTO : -ECONNRESET;
	}
	ERR_clear_error();
}

int io_handshake(struct io *io)
{
	int r;

	if (io->shaken || io->error)
		return io->error ? io->error : 1;
	io->tls_in = false;
	r = SSL_do_handshake(io->ssl);
	if (r == 1) {
		io->shaken = true;
		return 1;
	}
	io_note_tls_error(io, r);
	if (io->eof && !io->error) {
		snprintf(io->why, sizeof(io->why), "the connection ended during the handshake");
		io->error = -ECONNRESET;
	}
	return io->error;
}

static size_t io_read_plain(struct io *io, void *data, size_t len)
{
	long n = io_raw_read(io, data, len);

	if (n > 0)
		return (size_t)n;
	if (n == 0)
		io->eof = true;
	else if (n != -EAGAIN)
		io->error = (int)n;
	return 0;
}

size_t io_read(struct io *io, void *data, size_t len)
{
	size_t got = 0;

	if (io->error || io->eof || len == 0)
		return 0;
	if (!io->ssl)
		return io_read_plain(io, data, len);
	io->tls_in = false;
	if (SSL_read_ex(io->ssl, data, len, &got) != 1) {
		io_note_tls_error(io, 0);
		return 0;
	}
	return got;
}

bool io_fill(struct io *io, struct buf *b, size_t cap)
{
	bool any = false;

	while (b->len < cap) {
		size_t room = cap - b->len;
		char *p;
		size_t n;

		if (room > 16384)
			room = 16384;
		p = buf_reserve(b, room);
		if (!p) {
			io->error = -ENOMEM;
			break;
		}
		n = io_read(io, p, room);
		if (n == 0)
			break;
		b->len += n;
		any = true;
	}
	if (b->data)
		b->data[b->len] = 0;
	return any;
}

size_t io_backlog(const struct io *io)
{
	return io->out.len - io->out_at;
}

static long io_write_once(struct io *io, const char *data, size_t len)
{
	size_t done = 0;

	if (!io->ssl)
		return io_raw_write(io, data, len);
	if (SSL_write_ex(io->ssl, data, len, &done) == 1)
		return (long)done;
	io_note_tls_error(io, 0);
	return io->error ? io->error : -EAGAIN;
}

int io_flush(struct io *io)
{
	while (!io->error && !io->blocked && io_backlog(io)) {
		long n = io_write_once(io, io->out.data + io->out_at, io_backlog(io));

		if (n == -EAGAIN) {
			/*
			 * TLS that must read first (only for a renegotiation, which is off) would stop here
			 * until input arrives.
			 */
			io->blocked = true;
			break;
		}
		if (n < 0) {
			io->error = (int)n;
			break;
		}
		io->out_at += (size_t)n;
	}
	if (io_backlog(io) == 0 && io->out.len) {
		buf_clear(&io->out);
		io->out_at = 0;
		/* An idle connection does not keep the memory of a burst. */
		if (io->out.cap > IO_BACKLOG_MAX)
			buf_release(&io->out);
	} else if (io->out_at > IO_BACKLOG_MAX / 2) {
		buf_consume(&io->out, io->out_at);
		io->out_at = 0;
	}
	if (buf_error(&io->out) && !io->error)
		io->error = -ENOMEM;
	return io->error;
}

void io_finish(struct io *io)
{
	if (io->closing || io->w.fd < 0)
		return;
	io->closing = true;
	if (io->ssl && io->shaken && !io->error) {
		SSL_shutdown(io->ssl);
		ERR_clear_error();
	}
	shutdown(io->w.fd, SHUT_WR);
}

void io_arm(struct io *io)
{
	uint32_t events = 0;

	if ((io->want_in || (!io->shaken && io->tls_in)) && !io->eof && !io->error)
		events |= EPOLLIN;
	if (io->blocked || (!io->shaken && !io->tls_in && !io->error))
		events |= EPOLLOUT;
	/* Only to notice a reset, which epoll always reports. */
	if (!events && !io->error)
		events = LOOP_HANG_UP;
	/* The owner stopped reading while TLS held decrypted bytes: no event announces those. */
	if (io->want_in && io->ssl && io->shaken && !io->tls_in && !io->eof && !io->error)
		runq_add(io->q, &io->task);
	if (loop_watch(io->q->loop, &io->w, events) < 0)
		io->error = -ENOMEM;
}

void io_kick(struct io *io)
{
	runq_add(io->q, &io->task);
}
