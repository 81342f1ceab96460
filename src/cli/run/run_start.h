/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line of a run, stored in its directory (mode 0600) so that it can be started again, with the
 * directory in which it was typed and the variables of the caller that it used.
 */
#ifndef CLI_RUN_START_H
#define CLI_RUN_START_H

#include "base/buf.h"
#include "base/str.h"

struct run_start {
	struct strv argv, env;
	char *cwd;
	char *name, *home; /* replace those of the command line; "" for none */
};

void cli_run_start_release(struct run_start *s);

/* `env` has the -e options as typed; for one without a value, our own value is stored. Name and home may be
 * NULL. */
int cli_run_start_format(struct buf *out, const struct strv *argv, const struct strv *env, const char *name,
			 const char *home, struct err *e) MUST_CHECK;

/* -ENOENT, with a hint, if the run was started in a way that stores no command line. */
int cli_run_start_read(int run_fd, struct run_start *ret, struct err *e) MUST_CHECK;

/* Enters the stored directory and sets the stored variables in this process. */
int cli_run_start_enter(const struct run_start *s, struct err *e) MUST_CHECK;

#endif
