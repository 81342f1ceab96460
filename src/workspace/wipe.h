/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removes layers, and verifies that nothing of them is left.
 */
#ifndef WORKSPACE_WIPE_H
#define WORKSPACE_WIPE_H

#include "base/err.h"

#include <stdint.h>

/* Removes an ephemeral or discarded layer and verifies that nothing is left; *ret_n gets the number of entries removed.
 * Files of an ordinary user's subordinate ids are removed in `userns`, the user namespace that the sandbox had; -1: in a
 * new one, which needs newuidmap. */
int workspace_wipe(int run_fd, const char *name, int userns, uint64_t *ret_n, struct err *e) MUST_CHECK;

#endif
