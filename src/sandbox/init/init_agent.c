/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The socket inside for the ssh-agent (PROTO_LISTEN), whose keys are outside. Each connection becomes a channel that the
 * host has requested before (PROTO_ACCEPT), so the host sets the number of connections; others wait in the backlog. From
 * then on the channel is like a dialled one (init_dial.c): bytes of the program are its output, replies its input.
 *
 * The socket is in a directory that only the commands' own uid may enter. A command that removes it has no agent.
 */
#include "base/cleanup.h"
#include "sandbox/init/init_int.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#define BACKLOG 64

static int make_agent_directory(const char *path)
{
	char dir[sizeof(((struct sockaddr_un *)0)->sun_path)];
	size_t n = strlen(path);

	while (n && path[n] != '/')
		n--;
	if (n == 0)
		return -EINVAL;
	memcpy(dir, path, n);
	dir[n] = '\0';
	return syscall(SYS_mkdirat, (long)AT_FDCWD, dir, 0700L) < 0 ? -errno : 0;
}

static int make_agent_socket(const struct sockaddr_un *at)
{
	int fd = (int)syscall(SYS_socket, (long)AF_UNIX, (long)(SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC),
			      0L);
	int r;

	if (fd < 0)
		return -errno;
	if (syscall(SYS_bind, (long)fd, at, (long)sizeof(*at)) < 0 ||
	    syscall(SYS_listen, (long)fd, (long)BACKLOG) < 0) {
		r = -errno;
		fd_close(fd);
		return r;
	}
	return fd;
}

int agent_listen(struct init *in, const uint8_t *path, uint32_t len)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int r;

	if (in->agent_fd || len < 2 || len >= sizeof(at.sun_path) || path[0] != '/' ||
	    memchr(path, '\0', len))
		return -EPROTO;
	memcpy(at.sun_path, path, len);
	r = make_agent_directory(at.sun_path);
	/* The result is kept in agent_fd and reported by each PROTO_ACCEPT. */
	in->agent_fd = r < 0 ? r : make_agent_socket(&at);
	return 0;
}

static void agent_request_failed(struct init *in, struct cmd *c, int code)
{
	const struct proto_exit end = { PROTO_NOT_STARTED, (unsigned)-code, PROTO_WHAT_REQUEST };

	c->dialing = DIAL_NOT;
	c->in = fd_close(c->in);
	cmd_ended(in, c, &end);
}

int cmd_accept(struct init *in, struct cmd *c)
{
	c->state = CMD_RUNNING;
	c->flags = PROTO_F_STDIN | CMD_F_DIAL;
	c->credit = c->in_room = PROTO_WINDOW;
	c->chunk = INIT_CHUNK;
	c->dialing = DIAL_ACCEPT;
	if (in->agent_fd <= 0)
		agent_request_failed(in, c, in->agent_fd ? in->agent_fd : -ENOENT);
	return 0;
}

void cmd_accepted(struct init *in, struct cmd *c)
{
	int fd = (int)syscall(SYS_accept4, (long)in->agent_fd, NULL, NULL,
			      (long)(SOCK_NONBLOCK | SOCK_CLOEXEC));

	if (fd < 0 && (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED))
		return;
	/* For example at the limit of open files: the host may retry. */
	if (fd < 0) {
		agent_request_failed(in, c, -errno);
		return;
	}
	c->in = fd;
	fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0) {
		agent_request_failed(in, c, -errno);
		return;
	}
	c->out[0] = fd;
	c->dialing = DIAL_NOT;
	proto_add_u32(&in->out, PROTO_STARTED, c->chan, 0);
}
