/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sorts the headers of a request into shown, named and inert ones (askheaders.H1 to H4) and writes them as
 * one line. A header of unknown meaning is never inert.
 */
#include "egress/message/askheaders.h"

#include "base/cleanup.h"
#include "crypto/hash.h"

#include <errno.h>
#include <string.h>

#define INERT_ONE 256 /* bytes of one inert value */
#define INERT_ALL 1024

enum header_part { INERT, SHOWN, NAMED };

static bool header_in_list(struct slice name, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (slice_eq_nocase(name, list[i]))
			return true;
	}
	return false;
}

/* HTTP/1.1 sends names in any case, HTTP/2 in lower case: the same request must yield the same ask. */
static void add_header_name(struct buf *out, struct slice name)
{
	for (size_t i = 0; i < name.len; i++) {
		char c = name.p[i];

		buf_addc(out, (char)(c >= 'A' && c <= 'Z' ? c + 32 : c));
	}
}

/*
 * Headers that change with each retry, or do not affect what the request does. An unknown header is not among
 * them.
 */
static bool is_inert(struct slice name)
{
	static const char *const list[] = { "accept",
					    "accept-charset",
					    "accept-encoding",
					    "accept-language",
					    "connection",
					    "content-length",
					    "content-type",
					    "date",
					    "expect",
					    "host",
					    "keep-alive",
					    "traceparent",
					    "tracestate",
					    "transfer-encoding",
					    "user-agent",
					    "x-request-id",
					    "x-stainless-retry-count" };

	return header_in_list(name, list, ARRAY_SIZE(list));
}

static bool is_credential_header(struct slice name)
{
	static const char *const parts[] = { "auth", "cookie", "key", "token", "secret", "signature" };
	autobuf struct buf lower = BUF_INIT;

	add_header_name(&lower, name);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		if (buf_error(&lower) || strstr(buf_cstr(&lower), parts[i]))
			return true;
	}
	return false;
}

static bool slice_has(struct slice s, char c)
{
	return s.len && memchr(s.p, c, s.len);
}

static void add_line_part(struct buf *out, const char *text)
{
	buf_adds(out, out->len ? "; " : "");
	buf_adds(out, text);
}

static void add_shown_header(const struct http_fields *f, unsigned i, struct buf *out)
{
	struct slice name = http_fields_name(f, i), value = http_fields_value(f, i);
	const char *quote = slice_has(value, ';') ? "\"" : "";

	add_line_part(out, "");
	add_header_name(out, name);
	buf_addf(out, ": %s", quote);
	buf_add(out, value.p, value.len);
	buf_adds(out, quote);
}

static void add_hidden_names(const struct http_fields *f, const unsigned char *header_part, struct buf *out)
{
	unsigned n = 0;

	for (unsigned i = 0; i < f->n; i++)
		n += header_part[i] == NAMED;
	if (!n)
		return;
	add_line_part(out, "");
	buf_addf(out, "headers hidden (%u):", n);
	for (unsigned i = 0; i < f->n; i++) {
		struct slice name = http_fields_name(f, i);

		if (header_part[i] != NAMED)
			continue;
		buf_adds(out, n ? " " : ", ");
		add_header_name(out, name);
		n = 0;
	}
}

/* False: out of memory. "" when no header is to be bound. */
static bool digest_headers(const struct http_fields *f, const unsigned char *header_part,
			   char hex[HASH_HEX_LEN + 1])
{
	autobuf struct buf all = BUF_INIT;

	hex[0] = '\0';
	for (unsigned i = 0; i < f->n; i++) {
		struct slice name = http_fields_name(f, i), value = http_fields_value(f, i);

		if (header_part[i] == INERT)
			continue;
		add_header_name(&all, name);
		buf_addc(&all, '\0');
		buf_add(&all, value.p, value.len);
		buf_addc(&all, '\0');
	}
	if (all.len)
		hash_sha256_hex(all.data, all.len, hex);
	return !buf_error(&all);
}

/*
 * Hides the longest shown value, so that junk cannot displace a short value. False: none is shown any more.
 */
static bool hide_longest(const struct http_fields *f, unsigned char *header_part)
{
	unsigned longest = f->n;

	for (unsigned i = 0; i < f->n; i++) {
		if (header_part[i] == SHOWN &&
		    (longest == f->n || http_fields_value(f, i).len > http_fields_value(f, longest).len))
			longest = i;
	}
	if (longest == f->n)
		return false;
	header_part[longest] = NAMED;
	return true;
}

/* askheaders.H4; *room: bytes that may still leave unseen. */
static enum header_part classify_header(struct slice name, struct slice value, size_t max, size_t *room)
{
	if (is_inert(name) && value.len <= INERT_ONE && value.len <= *room) {
		*room -= value.len;
		return INERT;
	}
	return is_credential_header(name) || slice_has(value, '"') || slice_has(value, '\0') ||
			       value.len > max
		       ? NAMED
		       : SHOWN;
}

int askheaders_add(const struct http_fields *f, size_t max, struct buf *what)
{
	unsigned char header_part[HTTP_FIELDS_MAX] = { INERT };
	autobuf struct buf all = BUF_INIT;
	size_t before = what->len, room = INERT_ALL;
	char hex[HASH_HEX_LEN + 1];

	for (unsigned i = 0; i < f->n; i++)
		header_part[i] = (unsigned char)classify_header(http_fields_name(f, i),
								http_fields_value(f, i), max, &room);
	if (!digest_headers(f, header_part, hex))
		return -ENOMEM;
	do {
		buf_clear(&all);
		buf_add(&all, what->data, before);
		for (unsigned i = 0; i < f->n; i++) {
			if (header_part[i] == SHOWN)
				add_shown_header(f, i, &all);
		}
		add_hidden_names(f, header_part, &all);
		if (hex[0]) {
			add_line_part(&all, "headers ");
			buf_adds(&all, hex);
		}
	} while (all.len > max && hide_longest(f, header_part));
	if (all.len > max)
		return -E2BIG;
	buf_add(what, all.data ? all.data + before : "", all.len - before);
	return buf_error(&all) ? -ENOMEM : buf_error(what);
}
