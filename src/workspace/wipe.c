/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removes a layer for good, and verifies that it is gone.
 *
 * The sandbox of an ordinary user with a range of ids leaves directories that belong to subordinate ids, which only those
 * ids may empty. A child that is root over these ids then removes them, with nothing but the directory's fd: in the
 * sandbox's own user namespace if that was kept (a confined launcher cannot make another, since newuidmap is
 * set-user-ID), else in a new one with the same ids.
 */
#include "workspace/wipe.h"
#include "base/fd.h"
#include "sandbox/spec/ids_child.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/stat.h>

struct wiping {
	int userns; /* the sandbox's own; -1: a new one */
	int run_fd;
	const char *name;
};

static int enter_sandbox_userns(void *ctx, struct err *e)
{
	const struct wiping *w = ctx;

	return setns(w->userns, CLONE_NEWUSER) < 0
		       ? err_sys(e, -errno, "cannot enter the sandbox's user namespace")
		       : 0;
}

/* Reports how much it removed, also if it could not remove everything. */
static int wipe_layer(void *ctx, struct buf *out, struct err *e)
{
	const struct wiping *w = ctx;
	uint64_t n = 0;
	int r = fd_rm_tree(w->run_fd, w->name, &n, e);

	buf_add(out, &n, sizeof(n));
	return r;
}

static int wipe_as_owner(int run_fd, const char *name, int userns, uint64_t *ret_n, struct err *e)
{
	CLEANUP(ids_release) struct ids ids = IDS_INIT;
	autobuf struct buf out = BUF_INIT;
	struct wiping w = { userns, run_fd, name };
	const struct ids_child c = { .what = "wipes the layer",
				     .ids = userns >= 0 ? NULL : &ids,
				     .enter = userns >= 0 ? enter_sandbox_userns : NULL,
				     .work = wipe_layer,
				     .ctx = &w,
				     .out = &out };
	int r = userns >= 0 ? 0 : ids_plan(&ids, NULL, "", 0, 0, true, e);

	if (r == 0)
		r = ids_child_run(&c, e);
	if (out.len == sizeof(*ret_n))
		memcpy(ret_n, out.data, sizeof(*ret_n));
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
