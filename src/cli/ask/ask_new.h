/* SPDX-License-Identifier: Apache-2.0 */
/* coffer ask new: a question of a person's own, or of a script's. */
#ifndef CLI_ASK_NEW_H
#define CLI_ASK_NEW_H

#include "sandbox/state/state.h"

struct ask_new {
	const char *sandbox, *what, *reason, *detail; /* as typed */
	uint64_t timeout_s;
	bool named; /* one of its options was */
};

/* Asks, waits; the exit code. */
int ask_new(struct state *st, const struct ask_new *n);

#endif
