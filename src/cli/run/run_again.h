/* SPDX-License-Identifier: Apache-2.0 */
/* Starts a sandbox by a stored command line: the same sandbox again, or another one like it (fork). Always
 * detached. */
#ifndef CLI_RUN_AGAIN_H
#define CLI_RUN_AGAIN_H

#include "cli/run/run_start.h"
#include "run/run.h"

struct run_again {
	int resume_fd; /* the same sandbox again: its directory, with the lock; -1 for another one */
	const char *id;
	uint64_t started;      /* time of its first start, ns since the epoch; 0: another sandbox */
	uint64_t restarts;     /* how often it was restarted */
	const char *workspace; /* the directory that its workspace must still be; NULL: none */
	const char *
		engine; /* the engine that it had, so that "auto" does not choose a weaker one; NULL: unknown */
	const char *name; /* for another sandbox: its name */
	const char *home; /* for another sandbox: its home; NULL: as stored */
	int (*populate)(void *ctx, struct run *r, struct err *e);
	void (*forget)(void *ctx);
	void *ctx;
};

/* Returns 0 and the id once the sandbox is ready; otherwise an exit code, after printing the error. */
int run_again(const struct run_start *s, const struct run_again *how, char ret_id[RUN_ID_LEN + 1]);

#endif
