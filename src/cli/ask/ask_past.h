/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions of sandboxes that are not there any more, from the log: what was asked, and what became of it. The list that a run keeps
 * (approval/list/asks.h) goes with the run; the log has no query, no preview and no headers of what was asked.
 */
#ifndef CLI_ASK_PAST_H
#define CLI_ASK_PAST_H

#include "approval/wire/askproto.h"
#include "base/str.h"

#define ASK_PAST_MAX 1000      /* questions, the newest */
#define ASK_PAST_WITHIN 100000 /* events of the log, of all sandboxes, that are looked at */

/*
 * Each of them, members as ask_json() has them as far as the log does, those of the newest sandbox first. *ret_more: there
 * may be older ones.
 */
int ask_past(const struct state *st, askc_fn *fn, void *ctx, bool *ret_more, struct err *e) MUST_CHECK;

#endif
