/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a function in a child that is root over the user's subordinate ids, and brings its output back (owner.h).
 * The child executes nothing.
 */
#include "workspace/tree/owner.h"

#include "sandbox/spec/ids_child.h"

int owner_call(bool mapped, int (*fn)(void *ctx, struct buf *out, struct err *e), void *ctx, struct buf *out,
	       struct err *e)
{
	CLEANUP(ids_release) struct ids ids = IDS_INIT;
	const struct ids_child c = {
		.what = "works on the run's files", .ids = &ids, .work = fn, .ctx = ctx, .out = out
	};
	int r;

	if (!mapped)
		return fn(ctx, out, e);
	r = ids_plan(&ids, NULL, "", 0, 0, true, e);
	return r < 0 ? r : ids_child_run(&c, e);
}
