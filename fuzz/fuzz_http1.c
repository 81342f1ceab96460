/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heads of requests and responses (the first byte says which), at once and in pieces; what was accepted is written
 * again, and must then be read as the same.
 */
#include "codec/http/http1.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static long parse(struct http1_head *h, const char *data, size_t len, unsigned kind)
{
	static const char *const methods[] = { "GET", "HEAD", "CONNECT" };

	return kind % 4 ? http1_parse_response(h, data, len, slice_of(methods[kind % 4 - 1]))
			: http1_parse_request(h, data, len);
}

static long parse_pieces(struct http1_head *h, const char *data, size_t len, unsigned kind)
{
	size_t step = kind % 31 + 1;
	long r = 0;

	for (size_t n = step; r == 0 && n < len + step; n += step)
		r = parse(h, data, n < len ? n : len, kind);
	return r;
}

static void check_framing(const struct http1_head *h)
{
	unsigned lengths = http1_count(h, "content-length"), encodings = http1_count(h, "transfer-encoding");

	BUG_ON(lengths + encodings > 1);
	BUG_ON(h->body == HTTP1_BODY_LENGTH && (!lengths || h->content_length == 0));
	BUG_ON(h->body == HTTP1_BODY_CHUNKED && !encodings);
	for (unsigned i = 0; i < h->n_fields; i++)
		BUG_ON(!http1_is_token(h->fields[i].name) || !http1_is_value(h->fields[i].value));
}

static void check_again(const struct http1_head *h, unsigned kind)
{
	static struct http1_head again;
	autobuf struct buf b = BUF_INIT;
	int r = kind % 4 ? http1_add_status_line(&b, h->status, h->reason)
			 : http1_add_request_line(&b, h->method, h->target);

	for (unsigned i = 0; r == 0 && i < h->n_fields; i++)
		r = http1_add_field(&b, h->fields[i].name, h->fields[i].value);
	BUG_ON(r < 0 || http1_add_end(&b) < 0);
	if (h->minor == 0 || b.len > HTTP1_HEAD_MAX)
		return;
	http1_head_reset(&again);
	BUG_ON(parse(&again, b.data, b.len, kind) != (long)b.len);
	BUG_ON(again.body != h->body || again.content_length != h->content_length ||
	       again.n_fields != h->n_fields);
	BUG_ON(again.keep_alive != h->keep_alive || again.upgrade != h->upgrade);
	BUG_ON(h->has_host && (!host_eq(&again.host, &h->host) || again.port != h->port) && kind % 4 == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct http1_head h, pieces;
	const char *s = (const char *)data + 1;
	long n;

	if (size < 1)
		return 0;
	http1_head_reset(&h);
	http1_head_reset(&pieces);
	n = parse(&h, s, size - 1, data[0]);
	BUG_ON(size < HTTP1_TARGET_MAX && n != parse_pieces(&pieces, s, size - 1, data[0]));
	BUG_ON(n > (long)size - 1 || (n < 0) != (h.why != NULL) || (n < 0 && !h.fail_status));
	if (n <= 0)
		return 0;
	check_framing(&h);
	check_again(&h, data[0]);
	return 0;
}
