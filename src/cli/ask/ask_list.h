/* SPDX-License-Identifier: Apache-2.0 */
/* Questions of all sandboxes, for a terminal or as JSON lines: `coffer ask ls`. */
#ifndef CLI_ASK_LIST_H
#define CLI_ASK_LIST_H

#include "approval/wire/askproto.h"

struct ask_list_opts {
	bool json, all; /* all: also questions that are over */
};

/*
 * Lists the questions of all runs, newest run first. All runs are queried at once and read one after the
 * other. A run that does not respond within LIST_WAIT is named in a warning and left out, so that one
 * sandbox cannot hide the questions of others. JSON is written as it arrives; a table keeps one row for
 * each question.
 */
int cli_ask_list(struct state *st, const struct ask_list_opts *o, struct err *e) MUST_CHECK;

/*
 * Formats one line about a question that is new or has changed: time, id, `state`, who answered, kind, act.
 * The line is cut to `cols` columns; 0: not cut.
 */
void cli_ask_line(const json_t *ask, const char *state, bool color, unsigned cols, struct buf *out);
void cli_ask_add_json(const json_t *ask, struct buf *out);

#endif
