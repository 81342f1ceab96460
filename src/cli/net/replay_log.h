/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorded runs in the log, passed to policy/replay/replay.h one act at a time: network events, tool
 * calls, apply, and questions that ended before the act they were about was logged.
 */
#ifndef CLI_REPLAY_LOG_H
#define CLI_REPLAY_LOG_H

#include "policy/replay/replay.h"
#include "sandbox/state/state.h"

#define REPLAY_RUNS_MAX 64

/* The part of the log to read. */
struct replay_range {
	uint64_t since; /* 0: all */
	const char *runs[REPLAY_RUNS_MAX];
	size_t n_runs; /* 0: all */
};

int cli_replay_log(struct replay *re, struct state *st, const struct replay_range *range,
		   struct err *e) MUST_CHECK;

#endif
