/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a websocket's server sends (RFC 6455), searched as scrub.h does: the payload of its frames is one stream, and the heads
 * between them are no part of it. So a string is found wherever the server breaks its messages into fragments, with control
 * frames between them too. Pure, no I/O.
 *
 * Invariants
 *  W1  Frames come out as they came in: heads unchanged and in their places, payloads as long as they were.
 *  W2  A message is searched from fragment to fragment and on into the next message. The payload of a control frame is searched
 *      by itself, for it may stand anywhere between fragments.
 *  W3  What could not be searched ends the stream: a masked frame, one with a reserved bit (which is how compression is said), an
 *      unknown opcode, a control frame that is long or a fragment, a length that is not written in the shortest way.
 *  W4  Heads and control frames that wait for payload before them take SCRUB_WS_LATE_MAX bytes at most; more ends the stream.
 */
#ifndef EGRESS_SCRUB_WS_H
#define EGRESS_SCRUB_WS_H

#include "egress/credential/scrub.h"

#define SCRUB_WS_HEAD_MAX 10
#define SCRUB_WS_CONTROL_MAX 125
#define SCRUB_WS_LATE_MAX (256u << 10)

struct scrub_ws;

/* The set must outlive it. NULL without memory. */
struct scrub_ws *scrub_ws_new(const struct scrub_set *set);
void scrub_ws_free(struct scrub_ws *w);

/* Adds to `to` what can be said so far. -ENOMEM; -EBADMSG (W3) and -EMSGSIZE (W4), and *ret_why says why. */
int scrub_ws_feed(struct scrub_ws *w, const void *data, size_t len, struct buf *to,
		  const char **ret_why) MUST_CHECK;
/* The stream ends: all payload that was held back. A head or control frame that is not whole is left out. -ENOMEM. */
int scrub_ws_end(struct scrub_ws *w, struct buf *to) MUST_CHECK;
size_t scrub_ws_held(const struct scrub_ws *w);

#endif
