/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Placeholders where they would not be rendered: in the bodies of requests, piece by piece, and encoded in
 * their heads (inject.h finds unencoded ones there). Found unencoded, percent-encoded in part or whole, and
 * in base64.
 *
 * Where the secret is bound, its placeholder in a body is expected: an agent sends a model what it has seen.
 * Where only another secret is bound the placeholder is worthless, and breaking the conversation would do
 * more harm than good: it causes one alert for the host, and passes. Anywhere else the request is refused, or
 * aborted before the placeholder has left whole.
 *
 * A word with the mark of the state directory (vault/common/mark.h) that is none of these placeholders
 * belongs to an earlier run, to another home or to a secret that this sandbox was not given: a program has
 * saved it. It has no meaning here, and a server would only reject it. In a head it refuses the request,
 * whatever its destination; in a body it counts like one whose secret is bound nowhere.
 *
 * Invariants
 *  P1  A byte of a body is searched before it may be sent.
 *  P2  Of the searched bytes only those that may begin a placeholder are kept.
 */
#ifndef EGRESS_HTTP_WATCH_H
#define EGRESS_HTTP_WATCH_H

#include "egress/credential/inject.h"
#include "egress/exchange/http_exch.h"

struct exch_watch;
struct watch_set;

#define WATCH_PEEK_MAX HTTP_PIPE_CAP /* a body known to be no longer is searched before anything is sent */

bool watch_wants_body(const struct exch *e);
int watch_put(struct exch *e, const void *data, size_t len) MUST_CHECK; /* -ENOMEM */
/* The reason to refuse the request: a placeholder of one of its secrets, or of another sandbox (stale). */
struct watch_hit {
	const struct vault_grant *grant; /* NULL: none */
	bool is_stale;
};
/* The hit in the body as far as it was searched; ret may be NULL. False: none. */
bool watch_found(const struct exch *e, struct watch_hit *ret);
/* Was a stale placeholder found, in a body that may have it? */
bool watch_is_stale(const struct exch *e);
/* The same for its head. -ENOMEM. */
int watch_head(const struct exch *e, struct watch_hit *ret) MUST_CHECK;
void watch_free(struct exch *e);
/* Explains why a stale placeholder in such a place ("the body") refuses the request, and what to do. */
void watch_say_stale(const struct exch *e, const char *where, char why[INJECT_WHY_MAX]);

void watch_close(struct inspect *in);

#endif
