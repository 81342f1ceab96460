/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removes a layer for good, and verifies that it is gone.
 *
 * The sandbox of an ordinary user with a range of ids leaves directories that belong to subordinate ids, which only those
 * ids may empty. A child that is root over these ids then removes them, with nothing but the directory's fd: in the
 * sandbox's own user namespace if that was kept (a confined launcher cannot make another, since newuidmap is
 * set-user-ID), else in a new one with the same ids.
 */
#include "base/fd.h"
#include "sandbox/spec/ids.h"
#include "sys/spawn.h"
#include "workspace/workspace.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>

struct report {
	int result;
	uint64_t n;
	struct err err;
};

/* In the child: enters the given namespace, or makes one and has the parent map its ids. */
static int enter_owner_userns(int sock, int userns, struct err *e)
{
	char go = 0;

	if (userns >= 0)
		return setns(userns, CLONE_NEWUSER) < 0
			       ? err_sys(e, -errno, "cannot enter the sandbox's user namespace")
			       : 0;
	if (unshare(CLONE_NEWUSER) < 0)
		return err_sys(e, -errno, "cannot make a user namespace");
	if (fd_write_all(sock, &go, 1) < 0 || fd_read_exact(sock, &go, 1) < 0)
		_exit(1);
	return 0;
}

static _Noreturn void wipe_in_child(int sock, int userns, int run_fd, const char *name, pid_t parent)
{
	struct report rep = { .err = ERR_INIT };

	rep.result = enter_owner_userns(sock, userns, &rep.err);
	/* Not earlier: the change of credentials resets it. If the parent dies, the child must not keep holding the run. */
	spawn_die_with(parent);
	if (rep.result == 0)
		rep.result = fd_rm_tree(run_fd, name, &rep.n, &rep.err);
	_exit(fd_write_all(sock, &rep, sizeof(rep)) < 0 ? 1 : 0);
}

static int map_wiping_child(int sock, pid_t pid, const struct ids *ids, struct err *e)
{
	char go = 0;
	int r = fd_read_exact(sock, &go, 1);

	if (r == 0)
		r = ids_write_maps(ids, pid, e);
	if (r < 0)
		return r == -EPIPE ? err_set(e, -EPERM, "cannot make a user namespace to wipe the layer") : r;
	return fd_write_all(sock, &go, 1) < 0 ? err_set(e, -EIO, "the process that wipes the layer died") : 0;
}

static int wait_for_wipe(int sock, struct report *rep, struct err *e)
{
	if (fd_read_exact(sock, rep, sizeof(*rep)) < 0)
		return err_set(e, -EIO, "the process that wipes the layer died");
	if (rep->result < 0 && e)
		*e = rep->err;
	return rep->result;
}

static int wipe_as_owner(int run_fd, const char *name, int userns, uint64_t *ret_n, struct err *e)
{
	CLEANUP(ids_release) struct ids ids = IDS_INIT;
	autoclose int ours = -1, theirs = -1;
	struct report rep = { 0 };
	int pair[2], r;
	pid_t pid, self = getpid();

	r = userns >= 0 ? 0 : ids_plan(&ids, NULL, "", 0, 0, true, e);
	if (r < 0)
		return r;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(e, -errno, "cannot make a socket");
	ours = pair[0];
	theirs = pair[1];
	pid = fork();
	if (pid < 0)
		return err_sys(e, -errno, "cannot start a process to wipe the layer");
	if (pid == 0) {
		fd_close(ours); /* so that the parent's death shows as end of file */
		wipe_in_child(theirs, userns, run_fd, name, self);
	}
	theirs = fd_close(theirs);
	r = userns >= 0 ? 0 : map_wiping_child(ours, pid, &ids, e);
	if (r == 0)
		r = wait_for_wipe(ours, &rep, e);
	ours = fd_close(ours);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	*ret_n = rep.n;
	return r;
}

int workspace_wipe(int run_fd, const char *name, int userns, uint64_t *ret_n, struct err *e)
{
	uint64_t n = 0, more = 0;
	struct stat st;
	int r = fd_rm_tree(run_fd, name, &n, e);

	if ((r == -EACCES || r == -EPERM) && !state_is_host_root()) {
		if (e)
			*e = ERR_INIT; /* the retry may succeed: an old message would say that the layer is not wiped */
		r = wipe_as_owner(run_fd, name, userns, &more, e);
	}
	if (ret_n)
		*ret_n = n + more;
	if (r < 0)
		return err_wrap(e, r, "the layer is not wiped");
	if (fstatat(run_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT)
		return err_set(e, -EBUSY, "the layer is not wiped: something is still there");
	return 0;
}
