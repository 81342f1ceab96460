/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The service manager's protocol for cofferd (activate.h), by hand: two variables do not justify linking
 * libsystemd.
 */
#include "cofferdc/activate.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"

#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#define COUNT_MAX 16

unsigned activate_count(void)
{
	const char *pid = getenv("LISTEN_PID"),
		   *fds = getenv("LISTEN_FDS"); // NOLINT(concurrency-mt-unsafe): one thread
	uint64_t p, n;

	if (!pid || !fds || str_to_u64(pid, &p) < 0 || str_to_u64(fds, &n) < 0 || p != (uint64_t)getpid() ||
	    n > COUNT_MAX)
		return 0;
	return (unsigned)n;
}

static int socket_option(int fd, int name)
{
	int v = -1;
	socklen_t len = sizeof(v);

	return getsockopt(fd, SOL_SOCKET, name, &v, &len) == 0 ? v : -1;
}

int activate_take(struct err *e)
{
	int fd = ACTIVATE_FIRST, r;

	if (socket_option(fd, SO_DOMAIN) != AF_UNIX || socket_option(fd, SO_TYPE) != SOCK_SEQPACKET ||
	    socket_option(fd, SO_ACCEPTCONN) != 1) {
		err_set(e, -EINVAL,
			"the socket of the service manager is not a listening SOCK_SEQPACKET socket");
		return err_hint(e, -EINVAL, "ListenSequentialPacket= in the socket unit");
	}
	r = fd_set_cloexec(fd, true);
	if (r == 0)
		r = fd_set_nonblock(fd, true);
	return r < 0 ? err_sys(e, r, "cannot use the socket of the service manager") : fd;
}

void activate_notify(const char *text)
{
	const char *path = getenv("NOTIFY_SOCKET"); // NOLINT(concurrency-mt-unsafe): one thread
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	autoclose int fd = -1;
	size_t n = path ? strlen(path) : 0;

	if (n < 2 || n >= sizeof(a.sun_path) || (path[0] != '/' && path[0] != '@'))
		return;
	memcpy(a.sun_path, path, n);
	if (path[0] == '@')
		a.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0)
		(void)!sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&a,
			      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n));
}
