/* SPDX-License-Identifier: Apache-2.0 */
/* Taking a layer away for good, and looking that it is. */
#include "base/fd.h"
#include "workspace/workspace.h"

#include <errno.h>
#include <fcntl.h>

int workspace_wipe(int run_fd, const char *name, uint64_t *ret_n, struct err *e)
{
	uint64_t n = 0;
	struct stat st;
	int r = fd_rm_tree(run_fd, name, &n, e);

	if (ret_n)
		*ret_n = n;
	if (r < 0) {
		r = err_wrap(e, r, "the layer is not wiped");
		if (r == -EACCES || r == -EPERM)
			err_hint(
				e, r,
				"files of subordinate ids need their owner: 'unshare --map-auto --map-root-user rm -rf' on "
				"the run's directory");
		return r;
	}
	if (fstatat(run_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT)
		return err_set(e, -EBUSY, "the layer is not wiped: something is still there");
	return 0;
}
