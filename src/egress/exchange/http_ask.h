/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that a person is asked about (asking.h). The request is held whole, body and all; what is sent once it is allowed is
 * what was shown and digested.
 *
 * Invariants
 *  Q1  A request goes on only with the guard's "allow" to its own ticket, and is judged again from there: limits, secrets.
 *  Q2  A body longer than EXCH_HOLD_MAX is not asked about but refused: nobody could say what was allowed.
 *  Q3  Where a digest cannot bind what the server will do, the request itself must: a merge names the commit that it merges.
 *  Q5  Where a rule says so of its secret, nothing is rendered before a person has allowed that it is used: the vault is asked only
 *      behind exch_send(), and that goes on behind exch_ask_secret().
 *  Q6  An answer of a person's is for one sending: once a back has begun with it, it is never sent again, whatever the server did with
 *      it. So it goes over a connection of its own from the beginning, for an idle one may be gone.
 *  Q4  A policy that changes while somebody is asked has the request decided anew.
 */
#ifndef EGRESS_HTTP_ASK_H
#define EGRESS_HTTP_ASK_H

#include "egress/exchange/http_exch.h"

/* By e->verdict, which asks: gathers the body, then asks. */
void exch_ask(struct exch *e);
/* Its secrets are planned: asks first where the rule wants that of one of them. True: go on. */
bool exch_ask_secret(struct exch *e);
void exch_ask_body(struct exch *e); /* more of the body, or its end */
/* What a body was found to do, for the person: kept until it is asked. */
void exch_ask_note(struct exch *e, const struct policy_request *q);
void exch_ask_forget(struct exch *e); /* it is given up, or decided anew */
void exch_ask_sent(struct exch *e);   /* a back has begun with it */

#endif
