/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Header fields that pass between the two sides: hop-by-hop fields stay on their side, fields by which a
 * client could make the server act on another host, method or path than was judged are left out, and framing
 * is written anew. No I/O.
 *
 * Invariants
 *  H1  Host and :authority equal the name that was looked up, with or without its port: 421 otherwise.
 *  H2  The target is canonical (codec/urlpath): rules see what is sent.
 *  H3  A field that is left out is named in the request's journal line.
 */
#ifndef EGRESS_HTTP_HEAD_H
#define EGRESS_HTTP_HEAD_H

#include "codec/http/http1.h"
#include "egress/exchange/http_exch.h"

/* Fills e->req, or sets req.why and req.refusal. */
void http_head_from_h1(struct exch *e, const struct http1_head *h);

/* The same in parts for HTTP/2: the values of the pseudo-headers, then the fields one by one. */
void http_head_target(struct exch *e, struct slice target);
void http_head_authority(struct exch *e, const struct host *host, uint16_t port);
void http_head_field(struct exch *e, struct slice name, struct slice value);
/* After the last field. */
void http_head_finish(struct exch *e);

/* The value of Host and :authority towards the server. */
#define HTTP_HOST_MAX (HOST_MAX + 16)
void http_head_host(const struct inspect_conn *c, char out[HTTP_HOST_MAX]);

/* resp as HTTP/1.1. keep: the connection stays open. */
int http_head_to_h1(struct buf *out, const struct exch *e, bool chunked, bool keep) MUST_CHECK;
/* req as HTTP/1.1. */
int http_head_request_h1(struct buf *out, const struct exch *e) MUST_CHECK;

/* Fills e->resp from a parsed head. -E2BIG, -ENOMEM. */
int http_head_resp_from_h1(struct exch *e, const struct http1_head *h) MUST_CHECK;

/* Adds one field of a response or of its trailers, unless it is hop-by-hop or of no use here. */
int http_head_resp_field(struct http_fields *f, struct slice name, struct slice value) MUST_CHECK;

/*
 * A path for the log. In a path of more than `max` bytes, long parameters of segments (";x=aaaa…"), which
 * many servers ignore, are cut to their beginning, "...#" and 8 digits of a digest. If it is still too long,
 * its beginning and its end are kept, with a digest of all of it between "..." and "...". No path contains a
 * '#' otherwise.
 */
#define HTTP_PATH_LOGGED 700
void http_path_log(struct buf *out, struct slice path, size_t max);
/*
 * "?a=#1f2e…&b=#…": the names, and a short digest of each value; one digest for everything beyond
 * HTTP_QUERY_LOGGED bytes.
 */
#define HTTP_QUERY_LOGGED 260
void http_query_digest(struct buf *out, struct slice query);

#endif
