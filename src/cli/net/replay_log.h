/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the log has of recorded runs, given to policy/replay/replay.h one by one: lines of the network, calls of tools, apply, and
 * questions that ended before there was a line of what they were about.
 */
#ifndef CLI_REPLAY_LOG_H
#define CLI_REPLAY_LOG_H

#include "policy/replay/replay.h"
#include "sandbox/state/state.h"

#define REPLAY_RUNS_MAX 64

/* Which part of the log. */
struct replay_range {
	uint64_t since; /* 0: all */
	const char *runs[REPLAY_RUNS_MAX];
	size_t n_runs; /* 0: all */
};

int replay_log(struct replay *re, struct state *st, const struct replay_range *range,
	       struct err *e) MUST_CHECK;

#endif
