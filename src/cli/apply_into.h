/* SPDX-License-Identifier: Apache-2.0 */
/* coffer apply of a call over another sandbox's workspace: into that one. */
#ifndef CLI_APPLY_INTO_H
#define CLI_APPLY_INTO_H

#include "cli/changed.h"
#include "gateway/into.h"

/* As workspace_apply(); into_begin() is the last thing that o->before does. */
int apply_into(struct into *i, uint64_t since, const struct apply_opts *o, struct apply_result *res,
	       struct err *e) MUST_CHECK;

/* What is left is then what is different from the sandbox's workspace as it is now. */
int apply_into_copy_again(struct into *i, struct changed *call, struct err *e) MUST_CHECK;

/* For a sandbox that has a checkpoint after each command, this is one. Not while it is held. */
void apply_into_checkpoint(const struct changed *call, bool after);

#endif
