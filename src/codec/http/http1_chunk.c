/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The chunked coding as a state machine over single bytes, with data passed through as slices. Refuses trailers that
 * would change the framing, the direction or the credentials of the message (http1_chunk.C4).
 */
#include "codec/http/http1_chunk.h"

#include "base/hex.h"
#include "codec/http/http1_int.h"

#include <errno.h>

enum {
	AT_SIZE,
	AT_EXT,
	AT_SIZE_LF,
	AT_DATA,
	AT_DATA_CR,
	AT_DATA_LF,
	AT_TRAILER,
	AT_DONE,
	AT_FAILED,
};

#define CHUNK_MAX ((uint64_t)1 << 53)
#define DIGITS_MAX 16

static int chunks_are_malformed(struct http1_chunks *c, const char *why)
{
	c->why = why;
	c->state = AT_FAILED;
	return -EBADMSG;
}

void http1_chunks_release(struct http1_chunks *c)
{
	buf_release(&c->trailer);
}

static int step_size(struct http1_chunks *c, char ch)
{
	int digit = hex_digit(ch);

	if (digit >= 0) {
		if (++c->digits > DIGITS_MAX || c->left >= CHUNK_MAX >> 4)
			return chunks_are_malformed(c, "a chunk's size is too large");
		c->left = c->left << 4 | (uint64_t)digit;
		return 0;
	}
	if (c->digits == 0 || (ch != '\r' && ch != ';'))
		return chunks_are_malformed(c, "a chunk's size is not a hexadecimal number");
	c->state = ch == ';' ? AT_EXT : AT_SIZE_LF;
	return 0;
}

static int step_ext(struct http1_chunks *c, char ch)
{
	unsigned char u = (unsigned char)ch;

	if (ch == '\r') {
		c->state = AT_SIZE_LF;
		return 0;
	}
	if ((u < 0x20 && u != '\t') || u == 0x7f)
		return chunks_are_malformed(c, "a chunk's extension has a control byte in it");
	return ++c->ext > HTTP1_EXT_MAX ? chunks_are_malformed(c, "a chunk's extension is too long") : 0;
}

/* Takes one byte of a line between two chunks' data. */
static int step_line(struct http1_chunks *c, char ch)
{
	switch (c->state) {
	case AT_SIZE:
		return step_size(c, ch);
	case AT_EXT:
		return step_ext(c, ch);
	case AT_SIZE_LF:
		if (ch != '\n')
			return chunks_are_malformed(c, "a chunk's size does not end with CR LF");
		c->state = c->left ? AT_DATA : AT_TRAILER;
		c->digits = c->ext = 0;
		return 0;
	case AT_DATA_CR:
		if (ch != '\r')
			return chunks_are_malformed(c, "a chunk's data does not end with CR LF");
		c->state = AT_DATA_LF;
		return 0;
	default:
		if (ch != '\n')
			return chunks_are_malformed(c, "a chunk's data does not end with CR LF");
		c->state = AT_SIZE;
		return 0;
	}
}

/* Would this trailer change the framing, the destination or the credentials after they were judged? */
static bool is_forbidden(struct slice name)
{
	static const char *const no[] = { "host",
					  "content-length",
					  "transfer-encoding",
					  "content-encoding",
					  "content-type",
					  "content-range",
					  "authorization",
					  "proxy-authorization",
					  "cookie",
					  "set-cookie",
					  "connection",
					  "expect",
					  "trailer",
					  "te",
					  "upgrade",
					  "www-authenticate",
					  "proxy-connection",
					  "keep-alive",
					  "cache-control" };

	for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++) {
		if (slice_eq_nocase(name, no[i]))
			return true;
	}
	return false;
}

static int parse_trailers(struct http1_chunks *c)
{
	const char *p = c->trailer.data, *end = p + c->trailer.len;

	for (;;) {
		const char *lf = memchr(p, '\n', (size_t)(end - p));
		struct slice line = { p, (size_t)(lf - p) - 1 };
		struct http1_field *f = &c->trailers[c->n_trailers];
		const char *why;

		if (line.len == 0)
			break;
		if (c->n_trailers == HTTP1_TRAILERS_MAX)
			return chunks_are_malformed(c, "there are too many trailers");
		why = http1_split_field(line, f);
		if (why)
			return chunks_are_malformed(c, why);
		if (is_forbidden(f->name))
			return chunks_are_malformed(c, "a trailer has a name that only a header may have");
		c->n_trailers++;
		p = lf + 1;
	}
	c->state = AT_DONE;
	return HTTP1_CHUNK_END;
}

/* Takes bytes up to the end of a line. An empty line ends the trailers, and the body. */
static int step_trailer(struct http1_chunks *c, const char *data, size_t len, size_t *used)
{
	const char *lf = memchr(data, '\n', len);
	size_t n = lf ? (size_t)(lf - data) + 1 : len;
	const struct buf *t = &c->trailer;

	if (t->len + n > HTTP1_TRAILER_MAX)
		return chunks_are_malformed(c, "the trailers are too large");
	buf_add(&c->trailer, data, n);
	*used += n;
	if (buf_error(t))
		return buf_error(t);
	if (!lf)
		return HTTP1_CHUNK_MORE;
	if (t->len < 2 || t->data[t->len - 2] != '\r')
		return chunks_are_malformed(c, "a trailer ends with LF alone");
	if (t->len == 2 || t->data[t->len - 3] == '\n')
		return parse_trailers(c);
	return HTTP1_CHUNK_MORE;
}

static int step_data(struct http1_chunks *c, const char *data, size_t len, size_t *used, struct slice *ret)
{
	size_t n = len < c->left ? len : (size_t)c->left;

	*ret = (struct slice){ data, n };
	*used += n;
	c->left -= n;
	if (c->left == 0)
		c->state = AT_DATA_CR;
	return HTTP1_CHUNK_DATA;
}

int http1_chunks_next(struct http1_chunks *c, const char *data, size_t len, size_t *ret_used,
		      struct slice *ret)
{
	size_t used = 0;
	int r = HTTP1_CHUNK_MORE;

	*ret = SLICE_NONE;
	*ret_used = 0;
	if (c->state == AT_FAILED)
		return -EBADMSG;
	if (c->state == AT_DONE)
		return HTTP1_CHUNK_END;
	while (r == HTTP1_CHUNK_MORE && used < len) {
		if (c->state == AT_DATA)
			r = step_data(c, data + used, len - used, &used, ret);
		else if (c->state == AT_TRAILER)
			r = step_trailer(c, data + used, len - used, &used);
		else
			r = step_line(c, data[used++]);
	}
	*ret_used = used;
	return r;
}

void http1_add_chunk_head(struct buf *out, uint64_t len)
{
	BUG_ON(len == 0);
	buf_addf(out, "%llx\r\n", (unsigned long long)len);
}

void http1_add_chunk_tail(struct buf *out)
{
	buf_adds(out, "\r\n");
}

void http1_add_last_chunk(struct buf *out)
{
	buf_adds(out, "0\r\n");
}
