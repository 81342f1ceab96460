/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer call --from: opens the sandbox that a call is made for, and the directories of its workspace. They
 * are only read: the call gets a copy of the layer, and the sandbox itself is never changed from here.
 */
#include "cli/run/call_from.h"

#include "base/fd.h"
#include "cli/run/run_say.h"
#include "sandbox/state/layers.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>

int cli_call_from_open(struct call_from *f, const char *ref, struct err *e)
{
	int r = cli_changed_open(&f->run, ref, false, e);

	if (r == 0 && !state_run_has_begun(f->run.run_fd))
		return err_set(e, -ENOENT, "%s has not started yet", ref);
	return r;
}

int cli_call_from_open_trees(struct call_from *f, struct err *e)
{
	struct changed *c = &f->run;
	const char *mode = c->meta.ws_mode ? c->meta.ws_mode : "";
	int r;

	if (c->meta.workspace) {
		/* The path was resolved when the run began. A symbolic link in it now means that it leads to
		 * another directory. */
		r = fd_openat2(AT_FDCWD, c->meta.workspace, O_RDONLY | O_DIRECTORY, 0,
			       RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
		if (r < 0)
			return err_sys(e, r, "cannot open the directory that %s works on: %s", c->id,
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

static bool from_has_mode(const struct call_from *f, const char *mode)
{
	return str_eq(f->run.meta.ws_mode ? f->run.meta.ws_mode : "", mode);
}

/* Does the sandbox have a layer, which has to be copied? Otherwise it works on the directory itself. */
static bool from_has_layer(const struct call_from *f)
{
	return from_has_mode(f, "overlay") || from_has_mode(f, "ephemeral");
}

int cli_call_from_workspace(struct call_from *f, struct run_opts *o, struct err *e)
{
	const struct run_meta *m = &f->run.meta;

	if (m->over) {
		err_set(e, -EOPNOTSUPP, "%s is itself a call over the workspace of %s", f->run.id, m->over);
		return err_hint(e, -EOPNOTSUPP, "coffer apply %s first, then --from %s", f->run.id, m->over);
	}
	if (!m->workspace && !f->run.alive)
		return err_set(e, -ENODATA, "nothing is left of the workspace of %s", f->run.id);
	o->ws_exact = m->workspace;
	o->ws_none = !m->workspace;
	/* Files that belong to subordinate ids are accessible only if those ids are mapped in the call's
	 * sandbox as well. */
	o->map_ids = o->map_ids || m->map_ids;
	return 0;
}

static int populate_from_borrowed(void *ctx, struct run *r, struct err *e)
{
	struct call_from *f = ctx;
	int ret = borrow_populate(&f->call, r, e);

	if (ret == 0)
		cli_run_say_masks(r->spec);
	return ret;
}

static void release_borrowed(void *ctx)
{
	struct call_from *f = ctx;

	borrow_release(&f->borrow);
}

int cli_call_from_populate(struct call_from *f, struct run *r, const struct strv *show, struct err *e)
{
	int ret;

	if (!from_has_layer(f))
		return 0;
	ret = borrow_open(&f->borrow, f->run.id, e);
	if (ret < 0)
		return ret;
	f->call = (struct borrow_call){ .from = &f->borrow, .show = show };
	memcpy(r->spec->over, f->run.id, sizeof(r->spec->over));
	r->origin = (struct run_origin){
		.kind = RUN_COPIED, .fill = populate_from_borrowed, .forget = release_borrowed, .ctx = f
	};
	return 0;
}

void cli_call_from_release(struct call_from *f)
{
	borrow_release(&f->borrow);
	cli_changed_release(&f->run);
	f->trees = (struct give_from){ -1, -1 };
}
