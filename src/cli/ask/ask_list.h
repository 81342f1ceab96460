/* SPDX-License-Identifier: Apache-2.0 */
/* Questions of all sandboxes, for a terminal or as JSON lines: `coffer ask ls`. */
#ifndef CLI_ASK_LIST_H
#define CLI_ASK_LIST_H

#include "approval/wire/askproto.h"

struct ask_list_opts {
	bool json, all; /* all: also those that are over */
};

/*
 * All runs are asked at once and read one after the other, newest first. Who does not answer within LIST_WAIT is named and left out:
 * one sandbox does not hide the questions of others. JSON goes out as it comes; of a table a row is kept for each question.
 */
int ask_list(struct state *st, const struct ask_list_opts *o, struct err *e) MUST_CHECK;

/* One line when it is new or has changed: when, which, what became of it (`state`) and by whom, what it is; cut to so many columns,
 * not at all for 0. */
void ask_line(const json_t *ask, const char *state, bool color, unsigned cols, struct buf *out);
void ask_add_json(const json_t *ask, struct buf *out);

#endif
