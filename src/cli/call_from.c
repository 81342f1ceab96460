/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/call_from.h"

#include "base/fd.h"
#include "sandbox/layers.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>

int call_from_open(struct call_from *f, const char *ref, struct err *e)
{
	int r = changed_open(&f->run, ref, false, e);

	if (r == 0 && !state_run_has_begun(f->run.run_fd))
		return err_set(e, -ENOENT, "%s is no run yet", ref);
	return r;
}

int call_from_open_trees(struct call_from *f, struct err *e)
{
	struct changed *c = &f->run;
	const char *mode = c->meta.ws_mode ? c->meta.ws_mode : "";
	int r;

	if (c->meta.workspace) {
		/* The path was resolved when the run began: a link in it now means that it is not the same any more. */
		r = fd_openat2(AT_FDCWD, c->meta.workspace, O_RDONLY | O_DIRECTORY, 0,
			       RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
		if (r < 0)
			return err_sys(e, r, "the directory that %s works on is not there: %s", c->id,
				       c->meta.workspace);
		f->trees.lower = c->lower = r;
	}
	if (str_eq(mode, "overlay") || str_eq(mode, "ephemeral")) {
		r = layers_open_upper(c->run_fd, e);
		if (r < 0 && r != -ENOENT)
			return r;
		f->trees.upper = c->upper = r < 0 ? -1 : r;
	}
	if (f->trees.upper < 0 && f->trees.lower < 0)
		return err_set(e, -ENODATA, "nothing is left of the workspace of %s", c->id);
	return 0;
}

void call_from_release(struct call_from *f)
{
	changed_release(&f->run);
	f->trees = (struct give_from){ -1, -1 };
}
