/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests whose body decides: GraphQL documents and the list of refs of a push. The body waits in the exchange's pipe,
 * bounded, until it is known what it asks for; then it is sent as it came.
 *
 * Invariants
 *  B1  What is read here is what the server reads: a body with a Content-Encoding, a JSON object with a name twice, a
 *      document both in the query and in the body, a type that is not known are refused with words.
 *  B2  A push is judged by all of its refs at once. Whether an update is a fast-forward is not visible in them: policy takes
 *      an update for a forced one unless told otherwise (policy.h).
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

/* NULL and *ret_why when the body's form is one that cannot be judged. */
struct http_hold *http_hold_new(const struct exch *e, const char **ret_why);
void http_hold_free(struct http_hold *h);

/* Once it was fed: does one of its documents merge a pull request without naming the commit (http_merge.h)? NULL: no. */
bool http_hold_is_unbound(const struct http_hold *h);

/*
 * A request that a rule asks about by its path alone, whose body is whole: may it be asked, as to merges by GraphQL? It is looked at where
 * the path ends in /graphql, and elsewhere where a JSON body's `query` names such a mutation. False, and `why`: it merges without naming
 * the commit, or what it does cannot be seen (a stored document, a batch, what cannot be read).
 */
bool http_hold_may_ask(const struct exch *e, char why[HTTP_HOLD_WHY_MAX]);

/* 1: q has what was found, until http_hold_free(); 0: more is needed; negative: `why`, -E2BIG when it is too long. */
int http_hold_feed(struct http_hold *h, const struct exch *e, struct policy_request *q,
		   char why[POLICY_WHY_MAX]) MUST_CHECK;

#endif
