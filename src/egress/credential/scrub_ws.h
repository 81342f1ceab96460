/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Searches what a websocket's server sends (RFC 6455) as scrub.h does: the payloads of its frames are one
 * stream, the heads between them are no part of it. So a string is found wherever the server splits its
 * messages into fragments, also across control frames. Pure, no I/O.
 *
 * Invariants
 *  W1  Frames come out as they came in: heads unchanged and in their places, payloads of the same length.
 *  W2  The search continues from fragment to fragment and into the next message. The payload of a control
 *      frame is searched separately, since it may come between any two fragments.
 *  W3  Frames that cannot be searched end the stream: a masked frame, one with a reserved bit (which
 *      indicates compression), an unknown opcode, a control frame that is long or fragmented, a length that
 *      is not in its shortest form.
 *  W4  Heads and control frames that wait for payload before them take at most SCRUB_WS_LATE_MAX bytes; more
 *      ends the stream.
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

/* Adds the finished output to `to`. -ENOMEM; -EBADMSG (W3) and -EMSGSIZE (W4), and *ret_why says why. */
int scrub_ws_feed(struct scrub_ws *w, const void *data, size_t len, struct buf *to,
		  const char **ret_why) MUST_CHECK;
/*
 * The stream ends: adds all payload that was held back. An incomplete head or control frame is dropped.
 * -ENOMEM.
 */
int scrub_ws_end(struct scrub_ws *w, struct buf *to) MUST_CHECK;
size_t scrub_ws_held(const struct scrub_ws *w);

#endif
