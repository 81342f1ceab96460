/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions of removed sandboxes, from the audit log, with their final state. A run's own list
 * (approval/list/asks.h) is removed with the run; the log has no query, preview or headers of a request.
 */
#ifndef CLI_ASK_PAST_H
#define CLI_ASK_PAST_H

#include "approval/wire/askproto.h"
#include "base/str.h"

#define ASK_PAST_MAX 1000      /* questions, newest first */
#define ASK_PAST_WITHIN 100000 /* events of the log searched, of all sandboxes */

/*
 * Calls fn for each past question, those of the newest sandbox first. The object has the members of
 * ask_json() that the log knows. *ret_more: there may be older questions.
 */
int cli_ask_past(const struct state *st, askc_fn *fn, void *ctx, bool *ret_more, struct err *e) MUST_CHECK;

#endif
