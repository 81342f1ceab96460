/* SPDX-License-Identifier: Apache-2.0 */
/* Starting a sandbox in the way that another one was started, or the same once more. Always detached. */
#ifndef CLI_RUN_AGAIN_H
#define CLI_RUN_AGAIN_H

#include "cli/run/run_start.h"
#include "run/run.h"

struct run_again {
	struct run_origin
		origin; /* RUN_RESUMED: the same once more; RUN_COPIED: a fork; RUN_NEW: another one */
	const char *id;
	uint64_t restarts;     /* how often it was started again */
	const char *workspace; /* which it must be again; NULL: none */
	const char *engine;    /* which it had: "auto" does not mean a weaker one now; NULL: not known */
	const char *name;      /* of another one */
	const char *home;      /* of another one; NULL: as it was */
};

/* Returns when the sandbox is there: 0 and its id. Otherwise an exit code; what went wrong has been said. */
int run_again(const struct run_start *s, const struct run_again *how, char ret_id[RUN_ID_LEN + 1]);

#endif
