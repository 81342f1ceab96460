/* SPDX-License-Identifier: Apache-2.0 */
/* coffer run --restart: handing a sandbox to cofferd, and what cofferd executes to start one again. */
#ifndef CLI_RUN_RESTART_H
#define CLI_RUN_RESTART_H

#include "sandbox/state/state.h"

#include <stdbool.h>

bool run_restart_is_wanted(const char *policy); /* as typed; may be NULL */

/* Has one that was just started kept; one that cannot be is ended again. An exit code; what went wrong has been said. */
int run_restart_keep(const char *id);

/* Starts one that has ended and was kept, in the background, whatever its restart policy says. ret_id is its id. Returns
 * an exit code; what went wrong has been said. */
int run_restart_start(const char *ref, char ret_id[RUN_ID_LEN + 1]);

/* coffer run --again=ID: the same once more. 0 when it runs, or is not to be started any more. */
int run_restart_again(const char *id);

#endif
