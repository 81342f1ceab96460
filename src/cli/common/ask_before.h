/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a sandbox did just before it asked: by the place of the question in the log, so that nothing that comes after it can push it
 * out. Texts are the log's, with what an agent wrote in them.
 */
#ifndef CLI_ASK_BEFORE_H
#define CLI_ASK_BEFORE_H

#include "base/err.h"
#include "sandbox/state/state.h"

#include <jansson.h>

#define ASK_BEFORE_MAX 5
#define ASK_BEFORE_WITHIN 100000 /* events of the log, all sandboxes', that are looked at */

struct ask_before {
	char *line[ASK_BEFORE_MAX]; /* oldest first */
	size_t n;
	bool is_all;	 /* there is nothing older that the log still has */
	bool is_unknown; /* where the question stands in the log is not known */
};

void ask_before_release(struct ask_before *b);
/* The last `max` of them. What goes with each connection, lookup and command as a matter of course is left out. */
int ask_before_read(const json_t *ask, const struct state *st, size_t max, struct ask_before *ret,
		    struct err *e) MUST_CHECK;

#endif
