/* SPDX-License-Identifier: Apache-2.0 */
/* coffer apply of a call over another sandbox's workspace: the changes are written into that sandbox's
 * workspace. */
#ifndef CLI_APPLY_INTO_H
#define CLI_APPLY_INTO_H

#include "checkpoint/into.h"
#include "cli/common/changed.h"
#include "workspace/apply/apply.h"

/* As workspace_apply(). o->before must call into_begin() as its last step. */
int cli_apply_into(struct into *i, uint64_t since, const struct apply_opts *o, struct apply_result *res,
		   struct err *e) MUST_CHECK;

/* Copies the sandbox's layer again after a partial apply, so that the call's remaining changes are relative
 * to its workspace as it is now. */
int cli_apply_into_copy_again(struct into *i, struct changed *call, struct err *e) MUST_CHECK;

/*
 * Make a checkpoint of the sandbox before and after, while it is not frozen, so that changes that an agent
 * was talked into can be rolled back. If the first cannot be made, nothing is applied.
 */
int cli_apply_into_before(const struct changed *call, uint32_t *ret, struct err *e) MUST_CHECK;
void cli_apply_into_after(const struct changed *call, uint32_t before);

#endif
