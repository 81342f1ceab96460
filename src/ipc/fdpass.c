/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends and receives descriptors over UNIX sockets (SCM_RIGHTS). Every received descriptor is CLOEXEC, and
 * none is leaked when a message is refused.
 */

#include "ipc/fdpass.h"

#include "base/cleanup.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

union fdpass_control {
	char bytes[CMSG_SPACE(FDPASS_MAX * sizeof(int))];
	struct cmsghdr align;
};

int fdpass_send(int sock, const void *data, size_t len, const int *fds, size_t n)
{
	union fdpass_control ctl = { 0 };
	struct iovec iov = { .iov_base = (void *)data, .iov_len = len };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t sent;

	if (n > FDPASS_MAX)
		return -E2BIG;
	if (n) {
		struct cmsghdr *c;

		m.msg_control = ctl.bytes;
		m.msg_controllen = CMSG_SPACE(n * sizeof(int));
		c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(c), fds, n * sizeof(int));
	}
	do {
		sent = sendmsg(sock, &m, MSG_NOSIGNAL);
	} while (sent < 0 && errno == EINTR);
	if (sent < 0)
		return -errno;
	return (size_t)sent == len ? 0 : -EIO;
}

/* Copies the descriptors that came with a message to `got` and returns their number. */
static size_t collect_fds(struct msghdr *m, int *got)
{
	size_t n = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		size_t bytes = c->cmsg_len - CMSG_LEN(0);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		if (n + bytes / sizeof(int) > FDPASS_MAX)
			BUG("more descriptors than the control buffer holds");
		memcpy(got + n, CMSG_DATA(c), bytes);
		n += bytes / sizeof(int);
	}
	return n;
}

static void close_fds(const int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		fd_close(fds[i]);
}

/* Receives one message, or a part of a stream: the number of bytes, with all descriptors that came in `got`. */
static ssize_t receive_with_fds(int sock, void *data, size_t cap, int got[FDPASS_MAX], size_t *ret_n,
				int *ret_flags)
{
	union fdpass_control ctl = { 0 };
	struct iovec iov = { .iov_base = data, .iov_len = cap };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = ctl.bytes,
			    .msg_controllen = sizeof(ctl.bytes) };
	ssize_t r;

	do {
		r = recvmsg(sock, &m, MSG_CMSG_CLOEXEC);
	} while (r < 0 && errno == EINTR);
	if (r < 0)
		return -errno;
	*ret_n = collect_fds(&m, got);
	*ret_flags = m.msg_flags;
	return r;
}

int fdpass_recv_some(int sock, void *data, size_t cap, size_t *ret_len, int *fds, size_t max)
{
	int got[FDPASS_MAX], flags = 0;
	size_t n = 0;
	ssize_t r = receive_with_fds(sock, data, cap, got, &n, &flags);

	if (r < 0)
		return (int)r;
	if (r == 0 || n > max || (flags & (MSG_TRUNC | MSG_CTRUNC))) {
		close_fds(got, n);
		return r == 0 ? -EPIPE : -EPROTO;
	}
	if (n)
		memcpy(fds, got, n * sizeof(int));
	*ret_len = (size_t)r;
	return (int)n;
}

int fdpass_recv(int sock, void *data, size_t len, int *fds, size_t n)
{
	int got[FDPASS_MAX] = { 0 };
	size_t n_bytes = 0;
	int r = fdpass_recv_some(sock, data, len, &n_bytes, got, FDPASS_MAX);

	if (r < 0)
		return r;
	if (n_bytes != len || (size_t)r != n) {
		close_fds(got, (size_t)r);
		return -EPROTO;
	}
	if (n)
		memcpy(fds, got, n * sizeof(int));
	return 0;
}

int fdpass_recv_stream(int sock, void *data, size_t cap, int *ret_fd)
{
	int got[FDPASS_MAX], flags = 0;
	size_t n = 0;
	ssize_t r = receive_with_fds(sock, data, cap, got, &n, &flags);

	if (r < 0)
		return (int)r;
	if (n > 1)
		close_fds(got + 1, n - 1);
	*ret_fd = n ? got[0] : -1;
	return (int)r;
}
