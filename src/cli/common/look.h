/* SPDX-License-Identifier: Apache-2.0 */
/* The state directory and the audit log for verbs that only read: they work on a disk that is full or
 * read-only. */
#ifndef CLI_LOOK_H
#define CLI_LOOK_H

#include "base/buf.h"
#include "base/err.h"
#include "sandbox/state/state.h"

#include <stdbool.h>

/*
 * Opens the state directory. Runs that a crash left unfinished are ended first, so that their state is shown
 * correctly. If that cannot be written, it is left for later, and such a run is shown as broken off.
 */
int cli_look_open(struct state *st, struct err *e) MUST_CHECK;

/* Is there room to write a few records? This is checked before crashed runs are ended: on an almost full disk
 * the log might still accept a line where the run's own record cannot be written, and every later look would
 * log the same end again. */
bool cli_look_has_room(const struct state *st);

/* Finds the newest event of a type ("run.end") about a run in the log, as JSON members without braces;
 * -ENOENT if there is none. The log also has the runs that left no directory. */
int cli_look_event(struct state *st, const char *id, const char *type, struct buf *ret,
		   struct err *e) MUST_CHECK;

/* The end of a run according to the log. */
struct look_end {
	int exit_code;
	uint64_t changes; /* number of changed files in the workspace */
};

int cli_look_end(struct state *st, const char *id, struct look_end *ret, struct err *e) MUST_CHECK;

#endif
