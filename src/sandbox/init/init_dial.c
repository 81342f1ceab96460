/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection to a port inside, as a channel without a command (PROTO_DIAL), for coffer run -p: bytes of the host are its
 * input, bytes of the port its output, any signal closes it. 127.0.0.1 is tried first, then ::1, since programs listen on
 * either. Nothing but the sandbox's own loopback is dialled.
 */
#include "base/cleanup.h"
#include "sandbox/init/init_int.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>

static long set_loopback_address(bool v6, uint16_t port, struct sockaddr_in6 *to)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)to;
	const uint16_t net_port = (uint16_t)(port << 8 | port >> 8);
	/* In network order: 127.0.0.1. */
	static const uint8_t loopback[4] = { 127, 0, 0, 1 };

	memset(to, 0, sizeof(*to));
	if (v6) {
		to->sin6_family = AF_INET6;
		to->sin6_port = net_port;
		to->sin6_addr.s6_addr[15] = 1;
		return sizeof(*to);
	}
	v4->sin_family = AF_INET;
	v4->sin_port = net_port;
	memcpy(&v4->sin_addr, loopback, sizeof(loopback));
	return sizeof(*v4);
}

/* 0: connecting, or negative errno. */
static int start_connect(struct cmd *c)
{
	struct sockaddr_in6 to;
	long len = set_loopback_address(c->dialing == DIAL_V6, c->port, &to);
	int fd = (int)syscall(SYS_socket, (long)(c->dialing == DIAL_V6 ? AF_INET6 : AF_INET),
			      (long)(SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC), 0L);

	if (fd < 0)
		return -errno;
	if (syscall(SYS_connect, (long)fd, &to, len) < 0 && errno != EINPROGRESS) {
		int r = -errno;

		fd_close(fd);
		return r;
	}
	c->in = fd;
	return 0;
}

static void dial_failed(struct init *in, struct cmd *c, int code)
{
	const struct proto_exit end = { PROTO_NOT_STARTED, (unsigned)-code, PROTO_WHAT_REQUEST };

	c->dialing = DIAL_NOT;
	c->in = fd_close(c->in);
	cmd_ended(in, c, &end);
}

static void dial_other_loopback(struct init *in, struct cmd *c, int code)
{
	c->in = fd_close(c->in);
	if (c->dialing == DIAL_V4) {
		c->dialing = DIAL_V6;
		if (start_connect(c) == 0)
			return;
	}
	dial_failed(in, c, code);
}

int cmd_dial(struct init *in, struct cmd *c, uint16_t port)
{
	int r;

	c->state = CMD_RUNNING;
	c->flags = PROTO_F_STDIN | CMD_F_DIAL;
	c->credit = c->in_room = PROTO_WINDOW;
	c->chunk = INIT_CHUNK;
	c->port = port;
	c->dialing = DIAL_V4;
	r = start_connect(c);
	if (r < 0)
		dial_other_loopback(in, c, r);
	return 0;
}

void cmd_dialled(struct init *in, struct cmd *c)
{
	struct sockaddr_in6 to;
	long len = set_loopback_address(c->dialing == DIAL_V6, c->port, &to);
	int fd;

	/* A second connect() returns the result of the first. */
	if (syscall(SYS_connect, (long)c->in, &to, len) < 0 && errno != EISCONN) {
		if (errno != EALREADY && errno != EINPROGRESS)
			dial_other_loopback(in, c, -errno);
		return;
	}
	fd = fcntl(c->in, F_DUPFD_CLOEXEC, 0);
	if (fd < 0) {
		dial_failed(in, c, -errno);
		return;
	}
	c->out[0] = fd;
	c->dialing = DIAL_NOT;
	proto_add_u32(&in->out, PROTO_STARTED, c->chan, 0);
}

void cmd_dial_end_input(const struct cmd *c)
{
	syscall(SYS_shutdown, (long)c->in, (long)SHUT_WR);
}

void cmd_dial_close(struct init *in, struct cmd *c)
{
	const struct proto_exit end = { PROTO_EXITED, 0, PROTO_WHAT_NONE };

	if (c->dialing != DIAL_NOT) {
		dial_failed(in, c, -ECANCELED);
		return;
	}
	c->out[0] = fd_close(c->out[0]);
	cmd_ended(in, c, &end);
}
