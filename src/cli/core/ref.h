/* SPDX-License-Identifier: Apache-2.0 */
/* From what a person types for a sandbox (id, prefix, name, @last) to its directory, and to a running one's launcher. */
#ifndef CLI_REF_H
#define CLI_REF_H

#include "base/err.h"
#include "run/supervise/link.h"
#include "sandbox/state/state.h"

#include <stdbool.h>

struct ref {
	struct state st;
	char id[RUN_ID_LEN + 1];
	int run_fd;
	bool alive;
};

#define REF_INIT ((struct ref){ .st = STATE_INIT, .run_fd = -1 })

int ref_open(struct ref *r, const char *text, struct err *e) MUST_CHECK;
void ref_release(struct ref *r);

#define autoref CLEANUP(ref_release)

/* The id that is meant. The log remembers sandboxes that are gone, so it need not belong to one that is still there. */
int ref_resolve_logged(struct state *st, const char *text, char ret[RUN_ID_LEN + 1],
		       struct err *e) MUST_CHECK;

/* Connects to the launcher of a sandbox that runs; says what is wrong when it does not. */
int ref_link(struct ref *r, const char *text, struct link *l, struct err *e) MUST_CHECK;

#endif
