/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by both sides of HTTP/2: creation of a session, a list of fields for nghttp2, feeding and draining a
 * session over a stream, and a budget for frames that serve no purpose.
 */
#ifndef EGRESS_H2_UTIL_H
#define EGRESS_H2_UTIL_H

#include "egress/message/http_msg.h"
#include "egress/tls/tls_io.h"

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
void h2_nva_hide(struct h2_nva *a); /* none of them is ever put into a compression table */
void h2_nva_release(struct h2_nva *a);

/* Digits only, at most 16. */
int h2_length(struct slice v, uint64_t *ret) MUST_CHECK;

/*
 * A token bucket for frames that request nothing (resets, settings, pings, empty data) and for invalid ones,
 * whose streams we reset.
 */
struct h2_calm {
	uint64_t at; /* ns */
	unsigned tokens;
	size_t block; /* bytes since the last known frame that is no CONTINUATION */
};

#define H2_CALM_BURST 1000
#define H2_CALM_PER_SECOND 100

#define H2_BLOCK_MAX (256u << 10)

/* A frame begins; frames of unknown type are not reported. */
void h2_calm_begin(struct h2_calm *c, const nghttp2_frame_hd *hd);

/* False: send the peer ENHANCE_YOUR_CALM, and close the connection. */
bool h2_calm_take(struct h2_calm *c, const nghttp2_frame *f, uint64_t now);
bool h2_calm_wrong(struct h2_calm *c, uint64_t now);

/* The callbacks of one side; on_sent may be NULL. */
struct h2_side {
	nghttp2_on_begin_frame_callback on_begin_frame;
	nghttp2_on_begin_headers_callback on_begin;
	nghttp2_on_header_callback on_header;
	nghttp2_on_frame_recv_callback on_frame;
	nghttp2_on_invalid_frame_recv_callback on_wrong;
	nghttp2_on_data_chunk_recv_callback on_data;
	nghttp2_on_frame_send_callback on_sent;
	nghttp2_on_stream_close_callback on_close;
	bool is_server;
};

/*
 * Creates a session and submits its settings; NULL when there is no memory. wipe: secrets pass through it;
 * all its memory is zeroed.
 */
nghttp2_session *h2_session_new(const struct h2_side *side, void *ctx, bool wipe);

/* Reads available input into the session; negative when it is over, with io->why. */
int h2_feed(struct io *io, nghttp2_session *s, struct h2_calm *c) MUST_CHECK;
/* Sends frames while the peer accepts them; negative when it is broken. */
int h2_drain(struct io *io, nghttp2_session *s) MUST_CHECK;

#endif
