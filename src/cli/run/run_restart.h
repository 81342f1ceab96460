/* SPDX-License-Identifier: Apache-2.0 */
/* coffer run --restart: registers a sandbox with cofferd, and starts it again when cofferd asks for it. */
#ifndef CLI_RUN_RESTART_H
#define CLI_RUN_RESTART_H

#include "sandbox/state/state.h"

#include <stdbool.h>

bool cli_run_restart_is_wanted(const char *policy); /* as typed; may be NULL */

/* Registers a newly started sandbox for restarts; stops it if that fails. Returns an exit code; errors have
 * been printed. */
int cli_run_restart_keep(const char *id);

/* Starts a kept sandbox that has ended, in the background, whatever its restart policy. ret_id is its id.
 * Returns an exit code; errors have been printed. */
int cli_run_restart_start(const char *ref, char ret_id[RUN_ID_LEN + 1]);

/* coffer run --again=ID, which only cofferd executes: restarts the sandbox. Returns 0 if it runs, or if it is
 * not to be started any more. */
int cli_run_restart_again(const char *id);

#endif
