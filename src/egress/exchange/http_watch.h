/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Placeholders where nobody would render them: in the bodies of requests, piece by piece, and in some encoding in their heads
 * (inject.h has those that stand there as they are). As they are, percent-encoded in part or whole, and in base64.
 *
 * Where the secret is bound, its placeholder in a body is no news: an agent sends a model what it has seen. Where only another
 * secret is bound it is worth nothing, and breaking the conversation would harm more than it helps: one alert for the
 * host, and it goes on. Anywhere else the request is refused, or broken off before the placeholder has left whole.
 *
 * A word with the mark of the state directory (vault/common/mark.h) outside of these is a placeholder of an earlier run, of another home or of
 * a secret that this sandbox was not given: a program has saved it. It stands for nothing here, and a server would only say that it
 * is wrong. In a head it refuses the request, wherever that goes; in a body it is as one whose secret is bound nowhere.
 *
 * Invariants
 *  P1  A byte of a body is looked at before it may be sent.
 *  P2  Of what was seen only what may begin a placeholder is kept.
 */
#ifndef EGRESS_HTTP_WATCH_H
#define EGRESS_HTTP_WATCH_H

#include "egress/credential/inject.h"
#include "egress/exchange/http_exch.h"

struct exch_watch;
struct watch_set;

#define WATCH_PEEK_MAX \
	HTTP_PIPE_CAP /* a body that is known to be no longer is looked through before anything is sent */

bool watch_wants_body(const struct exch *e);
int watch_put(struct exch *e, const void *data, size_t len) MUST_CHECK; /* -ENOMEM */
/* What is to refuse the request: a placeholder of a secret's, or one that is not this sandbox's. */
struct watch_hit {
	const struct vault_grant *grant; /* NULL: none */
	bool is_stale;
};
/* Of the body, as far as it was seen; ret may be NULL. False: nothing. */
bool watch_found(const struct exch *e, struct watch_hit *ret);
/* Was one seen that is not this sandbox's, in a body that may have it? */
bool watch_is_stale(const struct exch *e);
/* The same of its head. -ENOMEM. */
int watch_head(const struct exch *e, struct watch_hit *ret) MUST_CHECK;
void watch_free(struct exch *e);
/* Why one that is not this sandbox's refuses a request that has it in such a place ("the body"), and what to do. */
void watch_say_stale(const struct exch *e, const char *where, char why[INJECT_WHY_MAX]);

void watch_close(struct inspect *in);

#endif
