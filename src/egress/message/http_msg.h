/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of a message that HTTP/1.1 and HTTP/2 share: header fields, and a body that flows through a pipe
 * of bounded size. No I/O.
 *
 * Invariants
 *  M1  A field list holds at most HTTP_FIELDS_MAX fields and HTTP_FIELDS_BYTES bytes; more is refused, never
 *      cut.
 *  M2  Its names are tokens and its values have no byte that could end a line: checked by the parser
 *      (codec/http1, nghttp2) and again by the HTTP/1.1 writer.
 *  M3  Names keep their letter case; they compare in any case, and are written in lower case to HTTP/2.
 */
#ifndef EGRESS_HTTP_MSG_H
#define EGRESS_HTTP_MSG_H

#include "base/buf.h"
#include "codec/http/urlpath.h"
#include "codec/slice.h"

#include <stdint.h>

#define HTTP_FIELDS_MAX 128
#define HTTP_FIELDS_BYTES (64u << 10)
#define HTTP_PIPE_CAP (64u << 10) /* a producer that can wait stops at this size */

struct http_field {
	uint32_t name, name_len, value, value_len; /* in text */
};

struct http_fields {
	struct buf text;
	struct http_field v[HTTP_FIELDS_MAX];
	unsigned n;
};

/* -E2BIG over a limit, -ENOMEM. */
int http_fields_add(struct http_fields *f, struct slice name, struct slice value) MUST_CHECK;
void http_fields_clear(struct http_fields *f);
void http_fields_release(struct http_fields *f);
struct slice http_fields_name(const struct http_fields *f, unsigned i);
struct slice http_fields_value(const struct http_fields *f, unsigned i);
/* The first field of this name, or an empty slice with p NULL. */
struct slice http_fields_get(const struct http_fields *f, const char *name);
bool http_fields_has(const struct http_fields *f, const char *name);

#define EXCH_HOLD_MAX (1u << 20)
#define EXCH_METHOD_MAX 32

struct http_req {
	char method[EXCH_METHOD_MAX + 1];
	struct buf target; /* canonical; "*" of OPTIONS */
	struct urlpath url;
	struct http_fields fields; /* without hop-by-hop fields, Host and framing */
	bool has_length;	   /* else the length of a body is unknown */
	uint64_t length;
	bool has_body;
	bool expect;	  /* 100-continue */
	bool te_trailers; /* the client accepts trailers */
	bool websocket; /* requests the upgrade; rules and people see it as method WEBSOCKET (exch_method()) */
	const char *why; /* the server side refuses it: static text; status is `refusal` */
	unsigned refusal;
};

struct http_resp {
	unsigned status;
	struct http_fields fields;
	bool has_length;
	uint64_t length;
	bool no_body; /* by method or status */
	bool tunnel;  /* 101 */
};

struct http_pipe {
	struct buf b;
	size_t at;	/* consumed up to here */
	bool eof;	/* the producer has ended */
	uint64_t total; /* put in so far */
};

/* 0 or -ENOMEM. */
int http_pipe_put(struct http_pipe *p, const void *data, size_t len) MUST_CHECK;
/* Moves unread bytes to the front, to make room. */
void http_pipe_compact(struct http_pipe *p);
struct slice http_pipe_peek(const struct http_pipe *p);
void http_pipe_take(struct http_pipe *p, size_t len);
void http_pipe_clear(struct http_pipe *p);
void http_pipe_release(struct http_pipe *p);

static inline size_t http_pipe_len(const struct http_pipe *p)
{
	return p->b.len - p->at;
}

static inline size_t http_pipe_room(const struct http_pipe *p)
{
	return http_pipe_len(p) >= HTTP_PIPE_CAP ? 0 : HTTP_PIPE_CAP - http_pipe_len(p);
}

static inline bool http_pipe_done(const struct http_pipe *p)
{
	return p->eof && http_pipe_len(p) == 0;
}

#endif
