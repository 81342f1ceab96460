/* SPDX-License-Identifier: Apache-2.0 */
/* The list of files that coffer obeys, over all runs of a state directory and the user's configuration, for
 * diff and apply. */
#ifndef CLI_OBEYED_FILES_H
#define CLI_OBEYED_FILES_H

#include "sandbox/state/state.h"
#include "workspace/change/obeyed.h"

/* On an error the list is incomplete, and the caller must not apply anything. */
int cli_obeyed_collect(struct obeyed *ret, struct state *st, struct err *e) MUST_CHECK;

#endif
