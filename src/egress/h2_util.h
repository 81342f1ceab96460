/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What both sides of HTTP/2 share: a list of fields as nghttp2 wants it, feeding and draining a session over a stream,
 * and a measure of how much a peer may bother us without asking for anything.
 */
#ifndef EGRESS_H2_UTIL_H
#define EGRESS_H2_UTIL_H

#include "egress/http_msg.h"
#include "egress/tls_io.h"

#include <nghttp2/nghttp2.h>

#define H2_STREAMS_MAX 100
#define H2_STREAM_WINDOW (256 << 10)
#define H2_CONN_WINDOW (2 << 20)
#define H2_NV_MAX (HTTP_FIELDS_MAX + 8)

struct h2_nva {
	nghttp2_nv v[H2_NV_MAX];
	size_t n;
	struct buf text; /* names in lower case */
};

/* Names and values must outlive the list; names of fields are copied in lower case. -E2BIG, -ENOMEM. */
void h2_nva_add(struct h2_nva *a, const char *name, const char *value, size_t len);
int h2_nva_fields(struct h2_nva *a, const struct http_fields *f) MUST_CHECK;
void h2_nva_release(struct h2_nva *a);

/* Frames that ask for nothing (resets, settings, pings, empty data): a bucket of them, refilled slowly. */
struct h2_calm {
	uint64_t at; /* ns */
	unsigned tokens;
};

#define H2_CALM_BURST 1000
#define H2_CALM_PER_SECOND 100

/* False: the peer is to be told to calm down, and left. */
bool h2_calm_take(struct h2_calm *c, const nghttp2_frame *f, uint64_t now);

/* Reads what is there into the session; negative when it is over, with io->why. */
int h2_feed(struct io *io, nghttp2_session *s) MUST_CHECK;
/* Sends frames as long as the peer takes them; negative when it is broken. */
int h2_drain(struct io *io, nghttp2_session *s) MUST_CHECK;

#endif
