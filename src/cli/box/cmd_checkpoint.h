/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints that are made automatically, around each command of a sandbox (run --checkpoint each) and
 * around an apply. */
#ifndef CLI_CMD_CHECKPOINT_H
#define CLI_CMD_CHECKPOINT_H

#include "cli/core/ref.h"

/*
 * For a run with --checkpoint each, and for no other: cli_checkpoint_before() makes the first checkpoint, so that
 * there is one to go back to, and cli_checkpoint_after() one after each command. An error is printed as a warning
 * and has no other effect.
 */
void cli_checkpoint_before(const struct ref *ref);
void cli_checkpoint_after(const struct ref *ref, char *const *argv);

/* The number of automatic checkpoints that are kept, unless --keep names another. */
#define CHECKPOINT_KEEP 100

/*
 * Makes a checkpoint whether or not the run was started with --checkpoint each. *ret is the number of the
 * checkpoint to go back to; if nothing has changed since the last one, that of the last one.
 */
int cli_checkpoint_make_now(const struct ref *ref, const char *label, uint32_t *ret,
			    struct err *e) MUST_CHECK;

/* Removes content that no checkpoint uses any more. Errors are ignored: the next cleanup removes it. */
void cli_checkpoint_tidy(void);

#endif
