/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the courier's request, and reads the server's hostile response with the strict parser of
 * codec/http1. The text that is kept of it is shown to people only after str_add_safe().
 */
#include "courier/courier_http.h"

#include "base/str.h"
#include "crypto/hash.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

static int add_courier_field(struct buf *out, const char *name, const char *value)
{
	return http1_add_field(out, slice_of(name), slice_of(value));
}

/* A replay has an old time; another time or body would need another digest. */
static int add_signature_field(const struct courier_job *j, struct slice key, uint64_t now, struct buf *out)
{
	unsigned char sum[crypto_auth_hmacsha256_BYTES];
	crypto_auth_hmacsha256_state st;
	char time[24], hex[2 * sizeof(sum) + 1], value[sizeof(time) + sizeof(hex) + 8];
	int n = snprintf(time, sizeof(time), "%llu", (unsigned long long)now);

	crypto_auth_hmacsha256_init(&st, (const unsigned char *)key.p, key.len);
	crypto_auth_hmacsha256_update(&st, (const unsigned char *)time, (unsigned long long)n);
	crypto_auth_hmacsha256_update(&st, (const unsigned char *)".", 1);
	crypto_auth_hmacsha256_update(&st, (const unsigned char *)j->body.p, j->body.len);
	crypto_auth_hmacsha256_final(&st, sum);
	sodium_memzero(&st, sizeof(st));
	hash_hex(sum, sizeof(sum), hex);
	snprintf(value, sizeof(value), "t=%s,v1=%s", time, hex);
	return add_courier_field(out, "coffer-signature", value);
}

static int add_bearer_field(struct slice secret, struct buf *out)
{
	struct buf value = { .wipe = true };
	int r;

	buf_adds(&value, "Bearer ");
	buf_add(&value, secret.p, secret.len);
	r = buf_error(&value) ? -ENOMEM
			      : http1_add_field(out, slice_of("authorization"),
						(struct slice){ value.data, value.len });
	buf_release(&value);
	return r;
}

static int add_host_field(const struct courier_job *j, struct buf *out)
{
	autobuf struct buf host = BUF_INIT;

	host_add(&host, &j->host, j->port == 443 ? 0 : j->port);
	return buf_error(&host) ? -ENOMEM : add_courier_field(out, "host", buf_cstr(&host));
}

static int add_job_fields(struct slice f, struct buf *out)
{
	int r = 0;

	while (r == 0 && f.len) {
		const char *end = memchr(f.p, '\n', f.len), *colon = memchr(f.p, ':', f.len);

		if (!end || !colon || colon + 2 > end)
			return -EINVAL;
		r = http1_add_field(out, (struct slice){ f.p, (size_t)(colon - f.p) },
				    (struct slice){ colon + 2, (size_t)(end - colon) - 2 });
		f.len -= (size_t)(end - f.p) + 1;
		f.p = end + 1;
	}
	return r;
}

int courier_request(const struct courier_job *j, struct slice secret, uint64_t now, struct buf *out)
{
	char length[24];
	int r = http1_add_request_line(out, slice_of(j->method), j->target);

	snprintf(length, sizeof(length), "%zu", j->body.len);
	r = r < 0 ? r : add_host_field(j, out);
	r = r < 0 ? r : add_courier_field(out, "user-agent", "cofferdam");
	r = r < 0 ? r : add_courier_field(out, "accept", "application/json, */*;q=0.1");
	r = r < 0 ? r : add_courier_field(out, "accept-encoding", "identity");
	r = r < 0 ? r : add_courier_field(out, "connection", "close");
	r = r < 0 ? r : add_job_fields(j->fields, out);
	if (r == 0 && j->auth == COURIER_BEARER)
		r = add_bearer_field(secret, out);
	if (r == 0 && j->auth == COURIER_SIGN)
		r = add_signature_field(j, secret, now, out);
	if (r == 0 && (j->body.len || str_eq(j->method, "POST") || str_eq(j->method, "PUT")))
		r = add_courier_field(out, "content-length", length);
	r = r < 0 ? r : http1_add_end(out);
	if (r == 0)
		buf_add(out, j->body.p, j->body.len);
	return r < 0 ? r : buf_error(out);
}

/* ---- The response. ---- */

void courier_response_init(struct courier_response *a, const char *method)
{
	memset(a, 0, sizeof(*a));
	a->method = slice_of(method);
}

void courier_response_release(struct courier_response *a)
{
	http1_chunks_release(&a->chunks);
	buf_release(&a->in);
	buf_release(&a->text);
}

static int response_bad(struct courier_response *a, const char *why)
{
	a->why = why ? why : "it is not HTTP";
	return -EBADMSG;
}

/* Seconds; a date is not worth parsing here. */
static uint32_t read_retry_after(const struct http1_head *h)
{
	const struct slice *v = http1_get(h, "retry-after");
	uint32_t n = 0;

	for (size_t i = 0; v && i < v->len; i++) {
		if (v->p[i] < '0' || v->p[i] > '9')
			return 0;
		n = n * 10 + (uint32_t)(v->p[i] - '0');
		if (n >= RESPONSE_RETRY_MAX)
			return RESPONSE_RETRY_MAX;
	}
	return n;
}

static int keep_response_text(struct courier_response *a, const char *data, size_t len)
{
	size_t room = RESPONSE_TEXT_MAX - a->text.len;

	buf_add(&a->text, data, len < room ? len : room);
	return buf_error(&a->text) || a->text.len == RESPONSE_TEXT_MAX;
}

/* The status is known whatever becomes of the body: an unreadable body ends it. */
static int take_response_body(struct courier_response *a, const char *data, size_t len)
{
	struct slice piece;
	size_t used;

	if (a->head.body == HTTP1_BODY_LENGTH) {
		len = len < a->left ? len : (size_t)a->left;
		a->left -= len;
		return keep_response_text(a, data, len) || a->left == 0;
	}
	if (a->head.body == HTTP1_BODY_CLOSE)
		return keep_response_text(a, data, len);
	while (len) {
		int ev = http1_chunks_next(&a->chunks, data, len, &used, &piece);

		if (ev != HTTP1_CHUNK_DATA)
			return ev != HTTP1_CHUNK_MORE;
		if (keep_response_text(a, piece.p, piece.len))
			return 1;
		data += used;
		len -= used;
	}
	return 0;
}

static int take_response_head(struct courier_response *a, size_t len)
{
	autobuf struct buf rest = BUF_INIT;

	if (a->head.status == 101 || a->head.body == HTTP1_BODY_TUNNEL)
		return response_bad(a, "it switched to another protocol than HTTP");
	if (a->head.status < 200) {
		if (++a->interim > RESPONSE_INTERIM_MAX)
			return response_bad(a, "it sends too many interim responses");
		buf_consume(&a->in, len);
		http1_head_reset(&a->head);
		return 0;
	}
	a->has_head = true;
	a->status = a->head.status;
	a->retry_after = read_retry_after(&a->head);
	a->left = a->head.content_length;
	if (a->status / 100 == 2 || a->head.body == HTTP1_BODY_NONE)
		return 1;
	buf_add(&rest, a->in.data + len, a->in.len - len);
	return rest.len ? take_response_body(a, rest.data, rest.len) : 0;
}

int courier_response_feed(struct courier_response *a, const char *data, size_t len)
{
	if (a->has_head)
		return len ? take_response_body(a, data, len) : 0;
	buf_add(&a->in, data, len);
	if (buf_error(&a->in))
		return response_bad(a, "out of memory");
	while (a->in.len) {
		long n = http1_parse_response(&a->head, a->in.data, a->in.len, a->method);
		int r;

		if (n < 0)
			return response_bad(a, a->head.why);
		if (n == 0)
			return a->in.len > HTTP1_HEAD_MAX ? response_bad(a, "its head is too long") : 0;
		r = take_response_head(a, (size_t)n);
		if (r != 0 || a->has_head)
			return r;
	}
	return 0;
}

int courier_response_end(const struct courier_response *a)
{
	return a->has_head ? 1 : -EPIPE;
}
