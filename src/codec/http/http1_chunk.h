/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The chunked coding of HTTP/1.1 (RFC 9112, 7.1), both ways. Pure, incremental.
 *
 * Invariants
 *  C1  The result does not depend on how the bytes are divided among calls.
 *  C2  A size is 1 to 16 hex digits and below 2^53, directly followed by CR LF or ";". Extensions are skipped and never
 *      forwarded: at most HTTP1_EXT_MAX bytes a line, without control bytes but tab.
 *  C3  Each line ends with CR LF, each chunk's data too; a bare CR or LF is refused.
 *  C4  Trailers have at most HTTP1_TRAILER_MAX bytes and HTTP1_TRAILERS_MAX fields, by the rules for headers. A
 *      trailer that would change the framing, the host or the credentials of the message is refused.
 */
#ifndef CODEC_HTTP1_CHUNK_H
#define CODEC_HTTP1_CHUNK_H

#include "codec/http/http1.h"

#define HTTP1_EXT_MAX 256
#define HTTP1_TRAILER_MAX (8u << 10)
#define HTTP1_TRAILERS_MAX 32

enum http1_chunk_event {
	HTTP1_CHUNK_MORE, /* all bytes are used up */
	HTTP1_CHUNK_DATA, /* *ret, into the bytes that were given; at least one byte */
	HTTP1_CHUNK_END,  /* the body is complete, trailers are set; returned again by each later call */
};

struct http1_chunks {
	struct http1_field
		trailers[HTTP1_TRAILERS_MAX]; /* after HTTP1_CHUNK_END; into this struct's own copy */
	unsigned n_trailers;
	const char *why; /* static text */

	/* Private to http1_chunk.c. */
	int state;
	uint64_t left; /* bytes of the chunk to come */
	unsigned digits, ext;
	struct buf trailer;
};

#define HTTP1_CHUNKS_INIT ((struct http1_chunks){ 0 })

void http1_chunks_release(struct http1_chunks *c);

/* Takes the bytes of one event (*ret_used) and returns it; -EBADMSG (c->why), -ENOMEM. */
int http1_chunks_next(struct http1_chunks *c, const char *data, size_t len, size_t *ret_used,
		      struct slice *ret) MUST_CHECK;

/*
 * Writers. A chunk is its head (len > 0), its data, and its tail. The end of the body is http1_add_last_chunk(),
 * trailers by http1_add_field(), and http1_add_end().
 */
void http1_add_chunk_head(struct buf *out, uint64_t len);
void http1_add_chunk_tail(struct buf *out);
void http1_add_last_chunk(struct buf *out);

#endif
