/* SPDX-License-Identifier: Apache-2.0 */
/* coffer call --from: the sandbox that a call is made for, and its workspace as it is now. */
#ifndef CLI_CALL_FROM_H
#define CLI_CALL_FROM_H

#include "checkpoint/borrow.h"
#include "cli/common/changed.h"
#include "cli/run/run_spec.h"
#include "workspace/apply/give.h"

struct call_from {
	struct changed run;
	struct give_from trees; /* descriptors that `run` owns, or -1 */
	struct borrow borrow;	/* --workspace */
	struct borrow_call call;
};

#define CALL_FROM_INIT ((struct call_from){ .run = CHANGED_INIT, .trees = { -1, -1 }, .borrow = BORROW_INIT })

int cli_call_from_open(struct call_from *f, const char *ref, struct err *e) MUST_CHECK;
/* Opens the parts of its workspace that exist: the original directory, the layer, or both. */
int cli_call_from_open_trees(struct call_from *f, struct err *e) MUST_CHECK;

/* With --workspace: cli_call_from_workspace() sets the directory that the call's sandbox is made over;
 * cli_call_from_populate(), once there is a spec, has the sandbox's layer copied beneath that of the call. */
int cli_call_from_workspace(struct call_from *f, struct run_opts *o, struct err *e) MUST_CHECK;
int cli_call_from_populate(struct call_from *f, struct run *r, const struct strv *show,
			   struct err *e) MUST_CHECK;
void cli_call_from_release(struct call_from *f);

#endif
