/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints that are made without being asked for each time (run --checkpoint each). */
#ifndef CLI_CHECKPOINT_H
#define CLI_CHECKPOINT_H

#include "cli/ref.h"

/* Before the first command there is nothing to go back to: makes the first one. Nothing when the run does not want any;
 * what goes wrong is said and does no more harm. */
void checkpoint_before(const struct ref *ref);
void checkpoint_after(const struct ref *ref, char *const *argv);

/* Removes what no checkpoint needs any more, now and then; quietly. */
void checkpoint_tidy(void);

#endif
