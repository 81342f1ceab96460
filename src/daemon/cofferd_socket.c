/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock and the socket: one cofferd per state directory (cofferd_client.D2). A stale socket is removed
 * only with the lock held, and never if somebody listens there without the lock, as a service manager does.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "daemon/cofferd_daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

#define LOCK_TRIES 500
#define LOCK_PAUSE (10 * (long)NSEC_PER_MSEC)

static bool socket_is_served(const struct daemon *d)
{
	autoclose int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un a;

	cofferd_address(d->st, &a);
	return fd >= 0 && (connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0 || errno == EAGAIN);
}

/* Takes the lock (cofferd_client.D2). -EEXIST: there is a cofferd. A process that has the lock but does not
 * serve is about to exit, or was killed and left a child that has not executed its program yet. */
int cofferd_take_lock(struct daemon *d, bool activated, struct err *e)
{
	const struct timespec pause = { .tv_nsec = LOCK_PAUSE };

	d->lock_fd = openat(d->st->fd, "cofferd.lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (d->lock_fd < 0)
		return err_sys(e, -errno, "cannot open %s/cofferd.lock", d->st->path);
	for (int i = 0; flock(d->lock_fd, LOCK_EX | LOCK_NB) < 0; i++) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return err_sys(e, -errno, "cannot lock %s/cofferd.lock", d->st->path);
		/* A service manager's socket accepts connections whether or not a cofferd serves it, so it
		 * proves nothing. */
		if (i >= LOCK_TRIES || (!activated && socket_is_served(d)))
			return err_set(e, -EEXIST, "there is a cofferd for %s already", d->st->path);
		nanosleep(&pause, NULL);
	}
	return 0;
}

/* The socket is left over from a killed cofferd, since we have the lock. But a service manager may listen
 * there without it. */
static int remove_stale_socket(const struct daemon *d, struct err *e)
{
	struct stat st;

	if (fstatat(d->st->fd, SOCKET, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : err_sys(e, -errno, "cannot look at %s/" SOCKET, d->st->path);
	if (!S_ISSOCK(st.st_mode) || st.st_uid != geteuid())
		return err_set(e, -EEXIST, "%s/" SOCKET " is in the way: it is not a socket of your own",
			       d->st->path);
	if (socket_is_served(d)) {
		err_set(e, -EADDRINUSE, "somebody listens at %s/" SOCKET " already", d->st->path);
		return err_hint(e, -EADDRINUSE,
				"if that is systemd: systemctl --user start cofferd (root: without --user)");
	}
	return unlinkat(d->st->fd, SOCKET, 0) < 0
		       ? err_sys(e, -errno, "cannot remove %s/" SOCKET, d->st->path)
		       : 0;
}

int cofferd_make_socket(struct daemon *d, struct err *e)
{
	autoclose int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un a;
	int r;

	if (fd < 0)
		return err_sys(e, -errno, "cannot make a socket");
	cofferd_address(d->st, &a);
	r = remove_stale_socket(d, e);
	if (r < 0)
		return r;
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 128) < 0)
		return err_sys(e, -errno, "cannot make %s/" SOCKET, d->st->path);
	return TAKE_FD(fd);
}
