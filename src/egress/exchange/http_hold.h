/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that are judged by their body: GraphQL documents and the list of refs of a push. The body waits in
 * the exchange's pipe, bounded, until its meaning is known; then it is sent as received.
 *
 * Invariants
 *  B1  The server reads what is read here: a body with a Content-Encoding, a JSON object with a duplicate
 *      name, a document both in the query and in the body, and an unknown type are refused with a reason.
 *  B2  A push is judged by all of its refs at once. Whether an update is a fast-forward is not visible in
 *      them: the policy treats an update as forced unless told otherwise (policy.h).
 */
#ifndef EGRESS_HTTP_HOLD_H
#define EGRESS_HTTP_HOLD_H

#include "egress/exchange/http_exch.h"

struct http_hold;

#define HTTP_HOLD_UNBOUND                                                                           \
	"a person has to allow a merge, and this does not say which one commit it merges: send a "  \
	"single one with expectedHeadOid (mergeBranch: a commit's id as head; mergeRequestAccept: " \
	"sha), so that nothing else can be merged"

#define HTTP_HOLD_WHY_MAX (POLICY_WHY_MAX + 96)

/* NULL and *ret_why when a body of this form cannot be judged. */
struct http_hold *http_hold_new(const struct exch *e, const char **ret_why);
void http_hold_free(struct http_hold *h);

/*
 * After http_hold_feed(): does one of its documents merge a pull request without naming the commit
 * (http_merge.h)? NULL: no.
 */
bool http_hold_is_unbound(const struct http_hold *h);

/*
 * For a request that a rule asks about by its path alone, with a complete body: may a person be asked, with
 * regard to merges by GraphQL? Checked where the path ends in /graphql, and elsewhere where a JSON body's
 * `query` names such a mutation. False, and `why`: it merges without naming the commit, or its effect is not
 * visible (a stored document, a batch, an unreadable body).
 */
bool http_hold_may_ask(const struct exch *e, char why[HTTP_HOLD_WHY_MAX]);

/*
 * 1: q has the findings, valid until http_hold_free(); 0: more is needed; negative: `why`, -E2BIG when it is
 * too long.
 */
int http_hold_feed(struct http_hold *h, const struct exch *e, struct policy_request *q,
		   char why[POLICY_WHY_MAX]) MUST_CHECK;

#endif
