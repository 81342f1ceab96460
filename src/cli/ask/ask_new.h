/* SPDX-License-Identifier: Apache-2.0 */
/* coffer ask new: a question that a person or a script submits, not a sandbox. */
#ifndef CLI_ASK_NEW_H
#define CLI_ASK_NEW_H

#include "sandbox/state/state.h"

struct ask_new {
	const char *sandbox, *what, *reason, *detail; /* as typed */
	uint64_t timeout_s;
	bool named; /* an option of `ask new` was given */
};

/*
 * Submits the question and waits for the answer. Returns the exit code: 0 allowed, 1 denied or timed out.
 */
int cli_ask_new(struct state *st, const struct ask_new *n);

#endif
