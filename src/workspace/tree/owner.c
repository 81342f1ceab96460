/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a function in a child that is root over the user's subordinate ids, and brings its output back (owner.h).
 */
#include "workspace/tree/owner.h"

#include "base/fd.h"
#include "sandbox/spec/ids.h"
#include "sys/spawn.h"

#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define OUT_MAX (2ULL << 30)

struct report {
	int result;
	uint64_t len; /* of the bytes that follow */
	struct err err;
};

static _Noreturn void run_in_owner_child(int sock, int (*fn)(void *ctx, struct buf *out, struct err *e),
					 void *ctx, pid_t parent)
{
	struct report rep = { .err = ERR_INIT };
	autobuf struct buf out = BUF_INIT;
	char go = 0;

	if (unshare(CLONE_NEWUSER) < 0)
		rep.result = err_sys(&rep.err, -errno, "cannot make a user namespace for the run's ids");
	/* Not earlier: the change of credentials resets it. */
	spawn_die_with(parent);
	if (rep.result == 0 && (fd_write_all(sock, &go, 1) < 0 || fd_read_exact(sock, &go, 1) < 0))
		_exit(1);
	if (rep.result == 0)
		rep.result = fn(ctx, &out, &rep.err);
	if (rep.result == 0 && buf_error(&out))
		rep.result = err_set(&rep.err, -ENOMEM, "out of memory");
	rep.len = rep.result == 0 ? out.len : 0;
	_exit(fd_write_all(sock, &rep, sizeof(rep)) < 0 ||
	      fd_write_all(sock, buf_cstr(&out), (size_t)rep.len) < 0);
}

static int take_owner_report(int sock, struct buf *out, struct err *e)
{
	struct report rep;
	char *p;

	if (fd_read_exact(sock, &rep, sizeof(rep)) < 0)
		return err_set(e, -EIO, "the process that works on the run's files died");
	if (rep.result < 0) {
		if (e)
			*e = rep.err;
		return rep.result;
	}
	p = rep.len <= OUT_MAX ? buf_reserve(out, (size_t)rep.len) : NULL;
	if (!p)
		return err_set(e, -ENOMEM, "out of memory");
	if (fd_read_exact(sock, p, (size_t)rep.len) < 0)
		return err_set(e, -EIO, "the process that works on the run's files died");
	out->len += (size_t)rep.len;
	out->data[out->len] = '\0';
	return 0;
}

static int map_owner_and_wait(int sock, pid_t pid, const struct ids *ids, struct buf *out, struct err *e)
{
	char go = 0;
	int r = fd_read_exact(sock, &go, 1);

	if (r == 0)
		r = ids_write_maps(ids, pid, e);
	if (r < 0)
		return r == -EPIPE ? err_set(e, -EPERM, "cannot make a user namespace for the run's ids") : r;
	if (fd_write_all(sock, &go, 1) < 0)
		return err_set(e, -EIO, "the process that works on the run's files died");
	return take_owner_report(sock, out, e);
}

int owner_call(bool mapped, int (*fn)(void *ctx, struct buf *out, struct err *e), void *ctx, struct buf *out,
	       struct err *e)
{
	CLEANUP(ids_release) struct ids ids = IDS_INIT;
	autoclose int ours = -1, theirs = -1;
	int pair[2], r;
	pid_t pid, self = getpid();

	if (!mapped)
		return fn(ctx, out, e);
	r = ids_plan(&ids, NULL, "", 0, 0, true, e);
	if (r < 0)
		return r;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(e, -errno, "cannot make a socket");
	ours = pair[0];
	theirs = pair[1];
	pid = fork();
	if (pid < 0)
		return err_sys(e, -errno, "cannot start a process");
	if (pid == 0) {
		fd_close(ours); /* so that the parent's death shows as end of file */
		run_in_owner_child(theirs, fn, ctx, self);
	}
	theirs = fd_close(theirs);
	r = map_owner_and_wait(ours, pid, &ids, out, e);
	ours = fd_close(ours);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return r;
}
