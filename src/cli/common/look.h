/* SPDX-License-Identifier: Apache-2.0 */
/* The state directory for verbs that only look: they work on one that is full or read-only. */
#ifndef CLI_LOOK_H
#define CLI_LOOK_H

#include "base/buf.h"
#include "base/err.h"
#include "sandbox/state/state.h"

#include <stdbool.h>

/*
 * Opens the state directory. What a crash left of a run is ended first, so that it is shown as what it is; where that
 * cannot be written, it is left for later and the run is shown as broken off.
 */
int look_open(struct state *st, struct err *e) MUST_CHECK;

/* Can a few things be written there? Asked first: on a full disk the log may still take a line where a run's own record
 * cannot be written, and each look would then log the same end again. */
bool look_has_room(const struct state *st);

/* The newest event of a type ("run.end") that the log has about a run, as JSON members without braces; -ENOENT when it has
 * none. The log knows of runs that left nothing. */
int look_event(struct state *st, const char *id, const char *type, struct buf *ret, struct err *e) MUST_CHECK;

/* How a run ended, by the log. */
struct look_end {
	int exit_code;
	uint64_t changes; /* files of the workspace */
};

int look_end(struct state *st, const char *id, struct look_end *ret, struct err *e) MUST_CHECK;

#endif
