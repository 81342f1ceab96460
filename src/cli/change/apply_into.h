/* SPDX-License-Identifier: Apache-2.0 */
/* coffer apply of a call over another sandbox's workspace: into that one. */
#ifndef CLI_APPLY_INTO_H
#define CLI_APPLY_INTO_H

#include "checkpoint/into.h"
#include "cli/common/changed.h"

/* As workspace_apply(); into_begin() is the last thing that o->before does. */
int apply_into(struct into *i, uint64_t since, const struct apply_opts *o, struct apply_result *res,
	       struct err *e) MUST_CHECK;

/* What is left is then what is different from the sandbox's workspace as it is now. */
int apply_into_copy_again(struct into *i, struct changed *call, struct err *e) MUST_CHECK;

/*
 * A checkpoint of the sandbox before and after, while it is not held: what an agent was talked into can be
 * taken back. Without the first nothing is applied.
 */
int apply_into_before(const struct changed *call, uint32_t *ret, struct err *e) MUST_CHECK;
void apply_into_after(const struct changed *call, uint32_t before);

#endif
