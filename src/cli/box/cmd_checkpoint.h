/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints that are made without being asked for each time (run --checkpoint each). */
#ifndef CLI_CMD_CHECKPOINT_H
#define CLI_CMD_CHECKPOINT_H

#include "cli/core/ref.h"

/*
 * Before the first command there is nothing to go back to: makes the first one. Nothing when the run does not
 * want any; what goes wrong is said and does no more harm.
 */
void checkpoint_before(const struct ref *ref);
void checkpoint_after(const struct ref *ref, char *const *argv);

/* So many are kept of those that were not asked for one by one, unless --keep says otherwise. */
#define CHECKPOINT_KEEP 100

/*
 * Of a sandbox that a call's changes are put into, whether it wants checkpoints or not: *ret is the number of
 * the one to go back to, also when nothing had changed since.
 */
int checkpoint_of(const struct ref *ref, const char *label, uint32_t *ret, struct err *e) MUST_CHECK;

/* Removes what no checkpoint needs any more, now and then; quietly. */
void checkpoint_tidy(void);

#endif
