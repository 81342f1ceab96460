/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Taking a layer away for good, and looking that it is.
 *
 * An ordinary user whose sandbox had a range of ids is left with directories that belong to subordinate ids, which only
 * those may empty. Then a child does it that is root over these ids, in a user namespace of its own and with nothing but
 * the directory's fd.
 */
#include "base/fd.h"
#include "sandbox/ids.h"
#include "workspace/workspace.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

struct report {
	int result;
	uint64_t n;
	struct err err;
};

/* The child: asks for its ids to be mapped, then removes and reports. */
static _Noreturn void wipe_in_child(int sock, int run_fd, const char *name)
{
	struct report rep = { .err = ERR_INIT };
	char go = 0;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || unshare(CLONE_NEWUSER) < 0)
		rep.result = err_sys(&rep.err, -errno, "cannot make a user namespace to wipe the layer");
	else if (fd_write_all(sock, &go, 1) < 0 || fd_read_exact(sock, &go, 1) < 0)
		_exit(1);
	else
		rep.result = fd_rm_tree(run_fd, name, &rep.n, &rep.err);
	_exit(fd_write_all(sock, &rep, sizeof(rep)) < 0 ? 1 : 0);
}

static int map_and_wait(int sock, pid_t pid, const struct ids *ids, struct report *rep, struct err *e)
{
	char go = 0;
	int r;

	r = fd_read_exact(sock, &go, 1);
	if (r == 0)
		r = ids_write_maps(ids, pid, e);
	if (r < 0)
		return r == -EPIPE ? err_set(e, -EPERM, "cannot make a user namespace to wipe the layer") : r;
	if (fd_write_all(sock, &go, 1) < 0 || fd_read_exact(sock, rep, sizeof(*rep)) < 0)
		return err_set(e, -EIO, "the process that wipes the layer died");
	if (rep->result < 0 && e)
		*e = rep->err;
	return rep->result;
}

static int wipe_as_owner(int run_fd, const char *name, uint64_t *ret_n, struct err *e)
{
	CLEANUP(ids_release) struct ids ids = IDS_INIT;
	autoclose int ours = -1, theirs = -1;
	struct report rep = { 0 };
	int pair[2], r;
	pid_t pid;

	r = ids_plan(&ids, NULL, "", 0, 0, true, e);
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
		fd_close(ours); /* the parent's death is then an end of file */
		wipe_in_child(theirs, run_fd, name);
	}
	theirs = fd_close(theirs);
	r = map_and_wait(ours, pid, &ids, &rep, e);
	ours = fd_close(ours);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	*ret_n = rep.n;
	return r;
}

int workspace_wipe(int run_fd, const char *name, uint64_t *ret_n, struct err *e)
{
	uint64_t n = 0, more = 0;
	struct stat st;
	int r = fd_rm_tree(run_fd, name, &n, e);

	if ((r == -EACCES || r == -EPERM) && !state_is_host_root())
		r = wipe_as_owner(run_fd, name, &more, e);
	if (ret_n)
		*ret_n = n + more;
	if (r < 0)
		return err_wrap(e, r, "the layer is not wiped");
	if (fstatat(run_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT)
		return err_set(e, -EBUSY, "the layer is not wiped: something is still there");
	return 0;
}
