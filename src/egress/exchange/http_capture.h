/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers in which a server issues credentials (OAuth's token endpoints and the like): held whole, what is issued handed to
 * the vault, and the answer written anew (capture.h) with placeholders.
 *
 *	head ─▶ held ─▶ whole ─▶ JSON ─▶ the vault, member by member ─▶ journal ─▶ head, body
 *
 * Invariants
 *  A1  Of an answer from such an endpoint not a byte is handed on before every credential in it is in the vault and in the
 *      journal. Whatever goes wrong (too long, encoded, no JSON, a vault that refuses or is gone) is a 502 with words. Of
 *      interim heads only a 100 is handed on, without any field.
 *  A2  The request asked for an answer without an encoding, over TLS, of a server that was verified (http_secret.h, S1).
 *  A3  What was issued is zeroed here when the answer goes; the vault has it.
 */
#ifndef EGRESS_HTTP_CAPTURE_H
#define EGRESS_HTTP_CAPTURE_H

#include "egress/exchange/http_secret.h"

/* A request that is allowed: is it one to such an endpoint? False: it was refused. */
bool capture_check(struct exch *e);

/* The answer. */
bool capture_head(struct exch *e); /* false: it cannot be held (e->over_why) */
bool capture_drops_head(
	const struct exch *e);		  /* an interim one, which says nothing that has to be known before */
bool capture_holds(const struct exch *e); /* what comes is held */
size_t capture_held(const struct exch *e); /* so many bytes */
int capture_put_down(struct exch *e, const void *data, size_t len) MUST_CHECK;
void capture_end_down(struct exch *e);

void capture_reset(struct exch *e); /* the server is asked once more */
void capture_free(struct exch *e);

#endif
