/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1.1 heads (RFC 9110, 9112), strict: whatever two implementations might read in two ways is refused. Pure;
 * nothing is copied, slices point into the buffer that was parsed.
 *
 *	struct http1_head h = HTTP1_HEAD_INIT;
 *	each time bytes came:  n = http1_parse_request(&h, all bytes so far, how many);
 *	n > 0: the head is the first n bytes;  n == 0: more are needed;  n < 0: h.why, and h.answer for the client
 *
 * Invariants
 *  P1  A line ends with CR LF and neither byte stands anywhere else; no line is folded; no space stands before a
 *      colon or the first header; names are tokens; values have no control byte but tab.
 *  P2  Head at most HTTP1_HEAD_MAX bytes and HTTP1_FIELDS_MAX headers, HTTP1_TOKENS_MAX names in
 *      Connection. A bare LF, and what cannot be a request line, is refused as soon as it is seen, not at the end.
 *  P3  Framing is decided here and only here. One Content-Length, digits, at most 2^53 (two are refused even when
 *      equal); or Transfer-Encoding exactly "chunked", once, in HTTP/1.1; both together are refused.
 *  P4  A request has one host, in canonical form: `host` and `port` (0: not said). HTTP/1.1 needs exactly one Host; in
 *      absolute and authority form the target must name the same host and port as Host does.
 *  P5  No header that frames or directs the message is dropped because Connection names it; a request that tries is
 *      refused.
 */
#ifndef CODEC_HTTP1_H
#define CODEC_HTTP1_H

#include "base/buf.h"
#include "codec/net/host.h"
#include "codec/slice.h"

#define HTTP1_HEAD_MAX (64u << 10)
#define HTTP1_FIELDS_MAX 128
#define HTTP1_METHOD_MAX 32
#define HTTP1_TOKENS_MAX 32
#define HTTP1_TARGET_MAX (32u << 10)

struct http1_field {
	struct slice name, value; /* as sent; value without space around it */
};

enum http1_form {
	HTTP1_ORIGIN,	 /* /path?query */
	HTTP1_ABSOLUTE,	 /* http://host/path, as to a proxy */
	HTTP1_AUTHORITY, /* host:port, with CONNECT only */
	HTTP1_ASTERISK,	 /* *, with OPTIONS only */
};

enum http1_body {
	HTTP1_BODY_NONE,
	HTTP1_BODY_LENGTH,  /* content_length bytes, at least 1 */
	HTTP1_BODY_CHUNKED, /* http1_chunks_next() */
	HTTP1_BODY_CLOSE,   /* of a response: until the connection ends */
	HTTP1_BODY_TUNNEL,  /* 101, or 2xx to CONNECT: from here on it is not HTTP */
};

struct http1_head {
	/* Of a request. */
	struct slice method;
	struct slice target; /* as sent */
	enum http1_form form;
	struct slice
		path; /* origin form of the target, for urlpath_canon(); "/" where it has none; empty for CONNECT, * */
	struct slice scheme; /* of HTTP1_ABSOLUTE, as sent: http or https in any case */
	bool has_host;	     /* always in HTTP/1.1 */
	struct host host;
	uint16_t port; /* 0: not said; never in absolute and authority form */
	bool expect_continue;

	/* Of a response. */
	unsigned status;
	struct slice reason;

	/* Of both. */
	unsigned minor; /* HTTP/1.minor: 0 or 1 */
	unsigned n_fields;
	enum http1_body body;
	bool has_content_length;
	uint64_t content_length;
	bool keep_alive;	 /* the sender would go on; false for HTTP1_BODY_CLOSE */
	bool upgrade;		 /* Connection: upgrade, and an Upgrade header */
	struct slice upgrade_to; /* "websocket" */

	/* When it failed. */
	const char *why; /* static text */
	unsigned answer; /* for the client: 400, 414, 417, 431, 501, 505; 502 for a response */

	/* Its own. */
	size_t scanned; /* bytes that were looked at */
	size_t line;	/* where the current line begins */
	bool has_encoding;
	unsigned n_tokens; /* in Connection headers */
	struct slice host_field;

	struct http1_field fields[HTTP1_FIELDS_MAX];
};

#define HTTP1_HEAD_INIT ((struct http1_head){ 0 })

/* Before the next head is parsed into it; cheaper than = HTTP1_HEAD_INIT. */
void http1_head_reset(struct http1_head *h);

/* Length of the head, 0, or -EBADMSG. `data` begins with the head's first byte and may have moved between calls. */
long http1_parse_request(struct http1_head *h, const char *data, size_t len) MUST_CHECK;

/* The same; what was asked decides whether the answer has a body. */
long http1_parse_response(struct http1_head *h, const char *data, size_t len, struct slice method) MUST_CHECK;

/* The value of the first header of this name, or NULL; how many there are; is `token` in one of these comma lists? */
const struct slice *http1_get(const struct http1_head *h, const char *name);
unsigned http1_count(const struct http1_head *h, const char *name);
bool http1_has_token(const struct http1_head *h, const char *name, const char *token);

/* Belongs to this connection and is not forwarded: by its name, or because Connection names it. */
bool http1_is_hop(const struct http1_head *h, struct slice name);

/* Writers. -EINVAL, and nothing added, when a part could end its line or is no token; -ENOMEM. */
int http1_add_request_line(struct buf *out, struct slice method, struct slice target) MUST_CHECK;
int http1_add_status_line(struct buf *out, unsigned status,
			  struct slice reason) MUST_CHECK; /* empty: the usual one */
int http1_add_field(struct buf *out, struct slice name, struct slice value) MUST_CHECK;
int http1_add_end(struct buf *out) MUST_CHECK;
const char *http1_reason(unsigned status);

bool http1_is_token(struct slice s);
bool http1_is_value(struct slice s); /* no control byte but tab, no space at either end */

#endif
