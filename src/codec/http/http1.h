/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1.1 heads (RFC 9110, 9112), strict: a head that two implementations might read differently is refused. Pure;
 * nothing is copied, slices point into the buffer that was parsed.
 *
 *	struct http1_head h = HTTP1_HEAD_INIT;
 *	each time bytes came:  n = http1_parse_request(&h, all bytes so far, how many);
 *	n > 0: the head is the first n bytes;  n == 0: more are needed;  n < 0: h.why, and h.fail_status for the client
 *
 * Invariants
 *  P1  A line ends with CR LF, and neither byte occurs anywhere else; no line is folded; no space is before a colon or
 *      before the first header; names are tokens; values contain no control byte but tab.
 *  P2  A head has at most HTTP1_HEAD_MAX bytes, HTTP1_FIELDS_MAX headers and HTTP1_TOKENS_MAX names in Connection. A
 *      bare LF, and bytes that cannot begin a request line, are refused as soon as they are read, before the head is
 *      complete.
 *  P3  Framing is decided here and only here. One Content-Length, digits, at most 2^53 (two are refused even when
 *      equal); or Transfer-Encoding exactly "chunked", once, in HTTP/1.1; both together are refused.
 *  P4  A request has one host, in canonical form: `host` and `port` (0: not given). HTTP/1.1 needs exactly one Host; in
 *      absolute and authority form the target must name the same host and port as Host does.
 *  P5  A header that decides the framing, the host, the content or the credentials of the message is never dropped
 *      because Connection names it. A request in which Connection names one is refused.
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
	struct slice path;   /* origin form of the target, for urlpath_canon(); empty for CONNECT and * */
	struct slice scheme; /* of HTTP1_ABSOLUTE, as sent: http or https in any case */
	bool has_host;	     /* always in HTTP/1.1 */
	struct host host;
	uint16_t port; /* 0: not given, which cannot be in absolute and authority form */
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
	bool keep_alive; /* the connection may be used again; false for HTTP1_BODY_CLOSE and _TUNNEL */
	bool upgrade;	 /* Connection: upgrade, and an Upgrade header */
	struct slice upgrade_to; /* "websocket" */

	/* When it failed. */
	const char *why; /* static text */
	unsigned
		fail_status; /* status for the client: 400, 414, 417, 431, 501, 505; 502 when a response failed */

	/* Private to http1*.c. */
	size_t scanned; /* bytes that were searched for the end */
	size_t line;	/* where the current line begins */
	bool has_encoding;
	unsigned n_tokens; /* in Connection headers */
	struct slice host_field;

	struct http1_field fields[HTTP1_FIELDS_MAX];
};

#define HTTP1_HEAD_INIT ((struct http1_head){ 0 })

/* To be called before the next head is parsed into it. Cheaper than = HTTP1_HEAD_INIT, which clears `fields` too. */
void http1_head_reset(struct http1_head *h);

/*
 * Returns the length of the head, 0 when it needs more bytes, or -EBADMSG. `data` begins with the head's first byte,
 * and may be at another address in each call.
 */
long http1_parse_request(struct http1_head *h, const char *data, size_t len) MUST_CHECK;

/* The same. `method` is the request's, which decides whether the response has a body. */
long http1_parse_response(struct http1_head *h, const char *data, size_t len, struct slice method) MUST_CHECK;

/*
 * The value of the first header of this name, or NULL; the number of headers of this name; is `token` an element of
 * one of their comma lists?
 */
const struct slice *http1_get(const struct http1_head *h, const char *name);
unsigned http1_count(const struct http1_head *h, const char *name);
bool http1_has_token(const struct http1_head *h, const char *name, const char *token);

/*
 * Is this header for one connection only, by its name or because Connection names it? Such a header is not forwarded.
 */
bool http1_is_hop(const struct http1_head *h, struct slice name);

/* Writers. -EINVAL, and nothing is added, when a part could end its line or is malformed otherwise; -ENOMEM. */
int http1_add_request_line(struct buf *out, struct slice method, struct slice target) MUST_CHECK;
int http1_add_status_line(struct buf *out, unsigned status,
			  struct slice reason) MUST_CHECK; /* empty: http1_reason() */
int http1_add_field(struct buf *out, struct slice name, struct slice value) MUST_CHECK;
int http1_add_end(struct buf *out) MUST_CHECK;
const char *http1_reason(unsigned status);

bool http1_is_token(struct slice s);
bool http1_is_value(struct slice s); /* no control byte but tab, no space at either end */

#endif
