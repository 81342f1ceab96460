/* SPDX-License-Identifier: Apache-2.0 */
/* Resolves the text that a person types for a sandbox (id, prefix of an id, name, @last) to its directory in
 * the state, and connects to the launcher of one that runs. */
#ifndef CLI_REF_H
#define CLI_REF_H

#include "base/err.h"
#include "run/supervise/run_link.h"
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

/* Resolves `text` to an id, for queries of the audit log. The log remembers removed sandboxes, so hex digits
 * that match no sandbox of the state are accepted as an id, or the prefix of one. */
int ref_resolve_logged(struct state *st, const char *text, char ret[RUN_ID_LEN + 1],
		       struct err *e) MUST_CHECK;

/* Connects to the launcher of a running sandbox, after ref_open() if that was not called yet. -ESRCH if it
 * does not run. */
int ref_link(struct ref *r, const char *text, struct run_link *l, struct err *e) MUST_CHECK;

#endif
