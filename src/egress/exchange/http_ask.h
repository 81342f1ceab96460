/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that a person is asked about (asking.h). The request is held with its whole body; after approval
 * exactly the bytes that were shown and digested are sent.
 *
 * Invariants
 *  Q1  A request continues only with the guard's "allow" to its own ticket, and then passes the later checks:
 *      limits, secrets.
 *  Q2  A request with a body longer than EXCH_HOLD_MAX is refused, not asked about: nobody could tell what
 *      was allowed.
 *  Q3  Where a digest cannot bind the effect on the server, the request itself must: a merge names the commit
 *      that it merges.
 *  Q4  When the policy changes while an ask is pending, the request is judged again.
 *  Q5  Where a rule asks before a secret is used, nothing is rendered before a person has allowed it: the
 *      vault is contacted only after exch_send(), which continues only after exch_ask_secret().
 *  Q6  An approval is for one sending: once a back has begun with the request, it is never sent again,
 *      whatever the server did with it. So it is sent over a new connection from the beginning, since an idle
 *      one may be closed.
 */
#ifndef EGRESS_HTTP_ASK_H
#define EGRESS_HTTP_ASK_H

#include "egress/exchange/http_exch.h"

/* The verdict e->verdict says ask: gathers the body, then asks. */
void exch_ask(struct exch *e);
/* Its secrets are planned: asks first where the rule requires that for one of them. True: continue. */
bool exch_ask_secret(struct exch *e);
void exch_ask_body(struct exch *e); /* more of the body, or its end, has arrived */
/* Records what the body does, for the person who is asked later. */
void exch_ask_note(struct exch *e, const struct policy_request *q);
void exch_ask_forget(struct exch *e); /* it is given up, or judged again */
void exch_ask_sent(struct exch *e);   /* a back has begun to send it */

#endif
