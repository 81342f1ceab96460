/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames over a stream, buffered in both directions (conn.h). Knows nothing of what a frame means and never
 * waits.
 */

#include "ipc/conn.h"

#include "base/cleanup.h"

#include <errno.h>
#include <sys/socket.h>

#define READ_SIZE (16u << 10)  /* reads a batch of small frames without touching more memory than this */
#define KEEP_SIZE (128u << 10) /* larger buffers are freed when they are empty */

void conn_init(struct conn *c, int fd)
{
	*c = CONN_INIT;
	c->fd = fd;
}

void conn_release(struct conn *c)
{
	buf_release(&c->in);
	buf_release(&c->out);
	*c = CONN_INIT;
}

/* Records the error of one direction. A peer that closes with unread data causes ECONNRESET; it is gone like
 * any other. */
static int set_direction_error(int *error, int code)
{
	*error = code == -ECONNRESET ? -EPIPE : code;
	return *error;
}

/* Drops the parsed bytes at the front, so that an incomplete frame has room to become complete. */
static void compact_in(struct conn *c)
{
	if (!c->in_off)
		return;
	buf_consume(&c->in, c->in_off);
	c->in_off = 0;
	if (c->in.len == 0 && c->in.cap > KEEP_SIZE)
		buf_release(&c->in);
}

/* How much to read: what the frame at the front still lacks, and at least READ_SIZE. */
static size_t read_size(const struct conn *c)
{
	size_t want;

	if (c->in.len < 4)
		return READ_SIZE;
	want = FRAME_HEAD + (size_t)frame_u32((const uint8_t *)c->in.data);
	if (want > FRAME_HEAD + FRAME_MAX_PAYLOAD || want <= c->in.len)
		return READ_SIZE;
	return want - c->in.len > READ_SIZE ? FRAME_HEAD + FRAME_MAX_PAYLOAD : READ_SIZE;
}

int conn_fill(struct conn *c)
{
	size_t size;
	char *p;
	ssize_t n;

	if (c->in_error)
		return c->in_error;
	compact_in(c);
	size = read_size(c);
	p = buf_reserve(&c->in, size);
	if (!p)
		return set_direction_error(&c->in_error, -ENOMEM);
	do {
		n = read(c->fd, p, size);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN ? 0 : set_direction_error(&c->in_error, -errno);
	if (n == 0)
		return set_direction_error(&c->in_error, -EPIPE);
	c->in.len += (size_t)n;
	return 1;
}

int conn_feed(struct conn *c, const void *data, size_t len)
{
	if (c->in_error)
		return c->in_error;
	compact_in(c);
	buf_add(&c->in, data, len);
	return buf_error(&c->in) ? set_direction_error(&c->in_error, -ENOMEM) : 1;
}

int conn_next(struct conn *c, struct frame *ret)
{
	long n;

	/* Frames that arrived before the end are still delivered. */
	if (c->in_error && c->in_error != -EPIPE)
		return c->in_error;
	if (c->in_off == c->in.len)
		return 0;
	n = frame_parse(c->in.data + c->in_off, c->in.len - c->in_off, ret);
	if (n < 0)
		return set_direction_error(&c->in_error, (int)n);
	c->in_off += (size_t)n;
	return n > 0;
}

/* Sends a part of the output queue; returns the number of bytes like send(). */
static ssize_t send_some(struct conn *c)
{
	const char *p = c->out.data + c->out_off;
	size_t len = conn_pending(c);
	ssize_t n;

	if (c->fd < 0)
		return (ssize_t)len;
	n = send(c->fd, p, len, MSG_NOSIGNAL);
	/* The descriptor may be a pipe instead of a socket; its owner ignores SIGPIPE. */
	return n < 0 && errno == ENOTSOCK ? write(c->fd, p, len) : n;
}

int conn_flush(struct conn *c)
{
	if (c->out_error)
		return c->out_error;
	if (buf_error(&c->out))
		return set_direction_error(&c->out_error, -ENOMEM);
	while (conn_pending(c)) {
		ssize_t n = send_some(c);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0)
			return set_direction_error(&c->out_error, -errno);
		c->out_off += (size_t)n;
	}
	if (conn_pending(c)) {
		if (c->out_off > KEEP_SIZE) {
			buf_consume(&c->out, c->out_off);
			c->out_off = 0;
		}
		return 1;
	}
	if (c->out.cap > KEEP_SIZE)
		buf_release(&c->out);
	else
		buf_clear(&c->out);
	c->out_off = 0;
	return 0;
}
