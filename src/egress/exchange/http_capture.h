/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Responses in which a server issues credentials (OAuth token endpoints and the like): held whole, the
 * credentials handed to the vault, and the response rewritten (capture.h) with placeholders.
 *
 *	head ─▶ held ─▶ complete ─▶ JSON ─▶ the vault, member by member ─▶ journal ─▶ head, body
 *
 * Invariants
 *  A1  No byte of a response from such an endpoint is passed on before every credential in it is in the vault
 *      and in the journal. Every failure (too long, encoded, not JSON, a vault that refuses or is gone) is a
 *      502 with a reason. Of interim heads only a 100 is passed on, without any field.
 *  A2  The request demanded an unencoded response, over TLS, from a verified server (http_secret.S1).
 *  A3  Issued credentials are zeroed here when the response is sent; the vault has them.
 */
#ifndef EGRESS_HTTP_CAPTURE_H
#define EGRESS_HTTP_CAPTURE_H

#include "egress/exchange/http_secret.h"

/* An allowed request: does it go to such an endpoint? False: it was refused. */
bool capture_check(struct exch *e);

/* The response. */
bool capture_head(struct exch *e);	       /* false: it cannot be held (e->over_why) */
bool capture_drops_head(const struct exch *e); /* an interim head, which the client need not see */
bool capture_holds(const struct exch *e);      /* the response is being held */
size_t capture_held(const struct exch *e);     /* number of bytes held */
int capture_put_down(struct exch *e, const void *data, size_t len) MUST_CHECK;
void capture_end_down(struct exch *e);

void capture_reset(struct exch *e); /* before a retry */
void capture_free(struct exch *e);

#endif
