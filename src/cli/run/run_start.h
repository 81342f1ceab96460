/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a run was started, kept in its directory (0600) so that it can be started once more: its command line, the
 * directory it was typed in, and those variables of the caller's that it took over.
 */
#ifndef CLI_RUN_START_H
#define CLI_RUN_START_H

#include "base/buf.h"
#include "base/str.h"

struct run_start {
	struct strv argv, env;
	char *cwd;
	char *name, *home; /* over what the command line says; "" for none */
};

void run_start_release(struct run_start *s);

/* `env` are the -e options as typed: of those without a value, ours is kept. Name and home may be NULL. */
int run_start_format(struct buf *out, const struct strv *argv, const struct strv *env, const char *name,
		     const char *home, struct err *e) MUST_CHECK;

/* -ENOENT with what to do when the run cannot be started again. */
int run_start_read(int run_fd, struct run_start *ret, struct err *e) MUST_CHECK;

/* Takes the directory and the variables over into this process. */
int run_start_enter(const struct run_start *s, struct err *e) MUST_CHECK;

#endif
