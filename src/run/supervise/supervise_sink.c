/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes to a descriptor of the caller without ever waiting for its reader and without O_NONBLOCK, which other
 * processes that share the descriptor would see. Bytes that cannot be written now are queued; the queue is bounded by
 * the credit of the source. The way to write without waiting depends on the kind of descriptor: supervise_sink_write_some().
 */
#include "run/supervise/supervise_sink.h"

#include "base/cleanup.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

#define PIPE_CHUNK 4096 /* PIPE_BUF: a pipe that polls writable takes that much without waiting */
#define TTY_CHUNK 512

static void on_sink_writable(struct watch *w, uint32_t events);

void supervise_sink_init(struct supervise_sink *s, struct loop *l, int fd, void (*changed)(void *ctx),
			 void *ctx)
{
	*s = (struct supervise_sink){ .loop = l, .changed = changed, .ctx = ctx };
	s->w = (struct watch){ .fd = fd, .fn = on_sink_writable, .ctx = s };
}

static enum supervise_sink_kind supervise_sink_kind_of(int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return SINK_OTHER;
	return S_ISREG(st.st_mode)    ? SINK_FILE
	       : S_ISSOCK(st.st_mode) ? SINK_SOCKET
	       : S_ISFIFO(st.st_mode) ? SINK_PIPE
				      : SINK_OTHER;
}

/* Polls first, because the descriptor may be blocking; writes no more than a writable one takes without waiting. */
static ssize_t write_if_ready(int fd, const char *p, size_t len, size_t most)
{
	struct pollfd pfd = { .fd = fd, .events = POLLOUT };

	if (poll(&pfd, 1, 0) == 0) {
		errno = EAGAIN;
		return -1;
	}
	return write(fd, p, len < most ? len : most);
}

static ssize_t supervise_sink_write_some(struct supervise_sink *s, const char *p, size_t len)
{
	int fd = s->w.fd;

	if (s->kind == SINK_UNKNOWN)
		s->kind = supervise_sink_kind_of(fd);
	if (s->kind == SINK_FILE)
		return write(fd, p, len);
	if (s->kind == SINK_SOCKET)
		return send(fd, p, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (s->kind == SINK_PIPE && !s->no_nowait) {
		const struct iovec v = { .iov_base = (void *)p, .iov_len = len };
		ssize_t n = pwritev2(fd, &v, 1, -1, RWF_NOWAIT);

		if (n >= 0 || (errno != EOPNOTSUPP && errno != ENOSYS))
			return n;
		s->no_nowait = true;
	}
	return write_if_ready(fd, p, len, s->kind == SINK_PIPE ? PIPE_CHUNK : TTY_CHUNK);
}

static void supervise_sink_fail(struct supervise_sink *s, int code)
{
	s->error = code;
	buf_release(&s->q);
	s->off = 0;
	loop_unwatch(s->loop, &s->w);
}

/* Writes as much as possible without waiting; returns the number of bytes, or -1 when writing has failed for good. */
static ssize_t supervise_sink_write_now(struct supervise_sink *s, const char *p, size_t len)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = supervise_sink_write_some(s, p + done, len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0) {
			supervise_sink_fail(s, -errno);
			return -1;
		}
		done += (size_t)n;
	}
	return (ssize_t)done;
}

static void on_sink_writable(struct watch *w, uint32_t events)
{
	struct supervise_sink *s = w->ctx;
	ssize_t n = supervise_sink_write_now(s, s->q.data + s->off, s->q.len - s->off);

	(void)events;
	if (n < 0) {
		s->changed(s->ctx);
		return;
	}
	s->off += (size_t)n;
	if (!supervise_sink_is_empty(s))
		return;
	buf_release(&s->q);
	s->off = 0;
	loop_unwatch(s->loop, &s->w);
	s->changed(s->ctx);
}

static void supervise_sink_write_or_queue(struct supervise_sink *s, const char *p, size_t len)
{
	ssize_t n = 0;

	if (supervise_sink_is_empty(s) && !s->held)
		n = supervise_sink_write_now(s, p, len);
	if (n < 0) {
		s->changed(s->ctx);
		return;
	}
	if ((size_t)n == len)
		return;
	if (s->off > (64u << 10)) {
		buf_consume(&s->q, s->off);
		s->off = 0;
	}
	buf_add(&s->q, p + n, len - (size_t)n);
	if (buf_error(&s->q) || (!s->held && loop_watch(s->loop, &s->w, EPOLLOUT) < 0)) {
		supervise_sink_fail(s, -ENOMEM);
		s->changed(s->ctx);
	}
}

void supervise_sink_write(struct supervise_sink *s, const void *data, size_t len)
{
	autobuf struct buf safe = BUF_INIT;

	if (s->w.fd < 0 || s->error || !len)
		return;
	if (!s->filter) {
		supervise_sink_write_or_queue(s, data, len);
		return;
	}
	termsafe_feed(&s->safe, &safe, data, len);
	if (buf_error(&safe))
		supervise_sink_fail(s, -ENOMEM);
	else if (safe.len)
		supervise_sink_write_or_queue(s, safe.data, safe.len);
}

void supervise_sink_hold(struct supervise_sink *s, bool held)
{
	if (s->held == held || s->w.fd < 0)
		return;
	s->held = held;
	if (held) {
		loop_unwatch(s->loop, &s->w);
	} else if (!supervise_sink_is_empty(s) && loop_watch(s->loop, &s->w, EPOLLOUT) < 0) {
		supervise_sink_fail(s, -ENOMEM);
		s->changed(s->ctx);
	}
}

void supervise_sink_finish(struct supervise_sink *s)
{
	autobuf struct buf safe = BUF_INIT;

	if (s->w.fd < 0 || s->error || !s->filter)
		return;
	termsafe_finish(&s->safe, &safe);
	if (safe.len)
		supervise_sink_write_or_queue(s, safe.data, safe.len);
}

void supervise_sink_release(struct supervise_sink *s)
{
	if (s->loop)
		loop_unwatch(s->loop, &s->w);
	buf_release(&s->q);
	*s = (struct supervise_sink){ .w = WATCH_INIT };
}
