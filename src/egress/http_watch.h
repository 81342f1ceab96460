/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Placeholders where nobody would render them: in the bodies of requests, piece by piece, and in some encoding in their heads
 * (inject.h has those that stand there as they are). As they are, percent-encoded in part or whole, and in base64.
 *
 * Where the secret is bound, its placeholder in a body is no news: an agent sends a model what it has seen. Where only another
 * secret is bound it is worth nothing, and breaking the conversation would harm more than it helps: one alert for the
 * host, and it goes on. Anywhere else the request is refused, or broken off before the placeholder has left whole.
 *
 * Invariants
 *  P1  A byte of a body is looked at before it may be sent.
 *  P2  Of what was seen only what may begin a placeholder is kept.
 */
#ifndef EGRESS_HTTP_WATCH_H
#define EGRESS_HTTP_WATCH_H

#include "egress/http_exch.h"
#include "egress/inject.h"

struct exch_watch;
struct watch_set;
struct http_secrets;

#define WATCH_PEEK_MAX \
	HTTP_PIPE_CAP /* a body that is known to be no longer is looked through before anything is sent */

bool watch_wants_body(const struct exch *e);
int watch_put(struct exch *e, const void *data, size_t len) MUST_CHECK; /* -ENOMEM */
/* Whose placeholder is to refuse the request, of what was seen so far; NULL: nobody's. */
const struct vault_grant *watch_found(const struct exch *e);
/* The same of its head. -ENOMEM. */
int watch_head(const struct exch *e, const struct vault_grant **ret) MUST_CHECK;
void watch_free(struct exch *e);

void watch_close(struct http_secrets *s);

#endif
