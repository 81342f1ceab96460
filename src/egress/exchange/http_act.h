/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The facts that a request was judged by besides method and path, as the journal's `act` in the terms of
 * policy/replay/replay.h, so that another policy can judge it again. Names and refs only, never a value from
 * the sandbox.
 *
 * Invariant: at most REPLAY_ACT_MAX bytes; where facts do not fit, the text says that some are missing.
 */
#ifndef EGRESS_HTTP_ACT_H
#define EGRESS_HTTP_ACT_H

#include "egress/exchange/http_exch.h"

/* Adds what was found in the body. */
void http_act_body(struct exch *e, const struct policy_request *q);
/* Adds a second path that a header names. */
void http_act_also(struct exch *e, const char *method, struct slice path);
/*
 * Adds the facts to the key of the request (ledger.h); facts that do not fit into a line make each key
 * unique.
 */
void http_act_key(const struct exch *e, struct seen *key);
/* Writes the facts into the line under construction, as far as it has room. */
void http_act_log(const struct exch *e, const struct journal *j, struct json *l);

#endif
