/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a request was judged by beside method and path, as the journal's `act`: the words are in policy/replay/replay.h. So that what
 * was decided can be decided again by another policy. Names and refs only, never a value of the sandbox's.
 *
 * Invariant: at most REPLAY_ACT_MAX bytes, and what does not fit is said to be missing.
 */
#ifndef EGRESS_HTTP_ACT_H
#define EGRESS_HTTP_ACT_H

#include "egress/exchange/http_exch.h"

/* What was found in the body. */
void http_act_body(struct exch *e, const struct policy_request *q);
/* A second path that a header names. */
void http_act_also(struct exch *e, const char *method, struct slice path);
/* Into the key of the request (ledger.h): what does not fit into a line makes a key of its own each time. */
void http_act_key(const struct exch *e, struct seen *key);
/* Into the line that is being built, as far as it has room. */
void http_act_log(const struct exch *e, const struct journal *j, struct json *l);

#endif
