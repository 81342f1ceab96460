/* SPDX-License-Identifier: Apache-2.0 */
/* coffer call --from: the sandbox on whose behalf a call is made, and its workspace as it is now. */
#ifndef CLI_CALL_FROM_H
#define CLI_CALL_FROM_H

#include "checkpoint/borrow.h"
#include "cli/common/changed.h"
#include "cli/run/run_spec.h"
#include "workspace/apply/give.h"

struct call_from {
	struct changed run;
	struct give_from trees; /* borrowed from run, or -1 */
	struct borrow borrow;	/* --workspace */
	struct borrow_call call;
};

#define CALL_FROM_INIT ((struct call_from){ .run = CHANGED_INIT, .trees = { -1, -1 }, .borrow = BORROW_INIT })

int call_from_open(struct call_from *f, const char *ref, struct err *e) MUST_CHECK;
/* What of its workspace there is: the original, its layer over it, or an empty one of its own. */
int call_from_open_trees(struct call_from *f, struct err *e) MUST_CHECK;

/* --workspace: what the call's sandbox is made over. Then, once there is a spec, how it is filled. */
int call_from_workspace(struct call_from *f, struct run_opts *o, struct err *e) MUST_CHECK;
int call_from_populate(struct call_from *f, struct run *r, const struct strv *show, struct err *e) MUST_CHECK;
void call_from_release(struct call_from *f);

#endif
