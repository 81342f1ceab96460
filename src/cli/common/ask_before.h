/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last events of a sandbox before it asked a question. They are found by the question's position in the
 * audit log, so that later events cannot push them out. The texts are those of the log and contain bytes that
 * an agent chose.
 */
#ifndef CLI_ASK_BEFORE_H
#define CLI_ASK_BEFORE_H

#include "base/err.h"
#include "sandbox/state/state.h"

#include <jansson.h>

#define ASK_BEFORE_MAX 5
#define ASK_BEFORE_WITHIN 100000 /* events of the log, of all sandboxes, that are searched */

struct ask_before {
	char *line[ASK_BEFORE_MAX]; /* oldest first */
	size_t n;
	bool is_all;	 /* the log has no older event of this sandbox */
	bool is_unknown; /* the question has no position in the log */
};

void cli_ask_before_release(struct ask_before *b);
/* Reads the last `max` events. Routine events, which accompany every connection, lookup and command, are left
 * out. */
int cli_ask_before_read(const json_t *ask, const struct state *st, size_t max, struct ask_before *ret,
			struct err *e) MUST_CHECK;

#endif
