/* SPDX-License-Identifier: Apache-2.0 */
/* Starts a sandbox by a stored command line: the same sandbox again, or another one like it (fork). Always
 * detached. */
#ifndef CLI_RUN_AGAIN_H
#define CLI_RUN_AGAIN_H

#include "cli/run/run_start.h"
#include "run/run.h"

struct run_again {
	struct run_origin
		origin; /* RUN_RESUMED: the same sandbox again; RUN_COPIED: a fork; RUN_NEW: another one */
	const char *id;
	uint64_t restarts;     /* how often it was restarted */
	const char *workspace; /* the directory that its workspace must still be; NULL: none */
	const char *
		engine; /* the engine that it had, so that "auto" does not choose a weaker one; NULL: unknown */
	const char *name; /* for another sandbox: its name */
	const char *home; /* for another sandbox: its home; NULL: as stored */
};

/* Returns 0 and the id once the sandbox is ready; otherwise an exit code, after printing the error. */
int cli_run_again(const struct run_start *s, const struct run_again *how, char ret_id[RUN_ID_LEN + 1]);

#endif
