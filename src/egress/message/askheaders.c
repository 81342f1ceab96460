/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/message/askheaders.h"

#include "base/cleanup.h"
#include "crypto/hash.h"

#include <errno.h>
#include <string.h>

#define INERT_ONE 256 /* bytes of a value */
#define INERT_ALL 1024

enum part { INERT, SHOWN, NAMED };

static bool is_one_of(struct slice name, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (slice_eq_nocase(name, list[i]))
			return true;
	}
	return false;
}

/* HTTP/1.1 has names in any case, HTTP/2 in lower case: the same request is to be the same question. */
static void add_name(struct buf *out, struct slice name)
{
	for (size_t i = 0; i < name.len; i++) {
		char c = name.p[i];

		buf_addc(out, (char)(c >= 'A' && c <= 'Z' ? c + 32 : c));
	}
}

/* These change with each try, or say nothing of what is done; unknown ones are bound to the answer. */
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

	return is_one_of(name, list, ARRAY_SIZE(list));
}

static bool is_credential(struct slice name)
{
	static const char *const parts[] = { "auth", "cookie", "key", "token", "secret", "signature" };
	autobuf struct buf lower = BUF_INIT;

	add_name(&lower, name);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		if (buf_error(&lower) || strstr(buf_cstr(&lower), parts[i]))
			return true;
	}
	return false;
}

static bool has(struct slice s, char c)
{
	return s.len && memchr(s.p, c, s.len);
}

static void add_part(struct buf *out, const char *text)
{
	buf_adds(out, out->len ? "; " : "");
	buf_adds(out, text);
}

static void add_shown(const struct http_fields *f, unsigned i, struct buf *out)
{
	struct slice name = http_fields_name(f, i), value = http_fields_value(f, i);
	const char *quote = has(value, ';') ? "\"" : "";

	add_part(out, "");
	add_name(out, name);
	buf_addf(out, ": %s", quote);
	buf_add(out, value.p, value.len);
	buf_adds(out, quote);
}

static void add_named(const struct http_fields *f, const unsigned char *part, struct buf *out)
{
	unsigned n = 0;

	for (unsigned i = 0; i < f->n; i++)
		n += part[i] == NAMED;
	if (!n)
		return;
	add_part(out, "");
	buf_addf(out, "headers hidden (%u):", n);
	for (unsigned i = 0; i < f->n; i++) {
		struct slice name = http_fields_name(f, i);

		if (part[i] != NAMED)
			continue;
		buf_adds(out, n ? " " : ", ");
		add_name(out, name);
		n = 0;
	}
}

/* False: out of memory. "" where there is nothing. */
static bool digest(const struct http_fields *f, const unsigned char *part, char hex[HASH_HEX_LEN + 1])
{
	autobuf struct buf all = BUF_INIT;

	hex[0] = '\0';
	for (unsigned i = 0; i < f->n; i++) {
		struct slice name = http_fields_name(f, i), value = http_fields_value(f, i);

		if (part[i] == INERT)
			continue;
		add_name(&all, name);
		buf_addc(&all, '\0');
		buf_add(&all, value.p, value.len);
		buf_addc(&all, '\0');
	}
	if (all.len)
		hash_sha256_hex(all.data, all.len, hex);
	return !buf_error(&all);
}

/* The longest value that is shown gives way, so that no junk can push out a short one before itself. False: there is none. */
static bool name_longest(const struct http_fields *f, unsigned char *part)
{
	unsigned longest = f->n;

	for (unsigned i = 0; i < f->n; i++) {
		if (part[i] == SHOWN &&
		    (longest == f->n || http_fields_value(f, i).len > http_fields_value(f, longest).len))
			longest = i;
	}
	if (longest == f->n)
		return false;
	part[longest] = NAMED;
	return true;
}

/* H4; *room: what may still go unseen. */
static enum part part_of(struct slice name, struct slice value, size_t max, size_t *room)
{
	if (is_inert(name) && value.len <= INERT_ONE && value.len <= *room) {
		*room -= value.len;
		return INERT;
	}
	return is_credential(name) || has(value, '"') || has(value, '\0') || value.len > max ? NAMED : SHOWN;
}

int askheaders_add(const struct http_fields *f, size_t max, struct buf *what)
{
	unsigned char part[HTTP_FIELDS_MAX] = { INERT };
	autobuf struct buf all = BUF_INIT;
	size_t before = what->len, room = INERT_ALL;
	char hex[HASH_HEX_LEN + 1];

	for (unsigned i = 0; i < f->n; i++)
		part[i] = (unsigned char)part_of(http_fields_name(f, i), http_fields_value(f, i), max, &room);
	if (!digest(f, part, hex))
		return -ENOMEM;
	do {
		buf_clear(&all);
		buf_add(&all, what->data, before);
		for (unsigned i = 0; i < f->n; i++) {
			if (part[i] == SHOWN)
				add_shown(f, i, &all);
		}
		add_named(f, part, &all);
		if (hex[0]) {
			add_part(&all, "headers ");
			buf_adds(&all, hex);
		}
	} while (all.len > max && name_longest(f, part));
	if (all.len > max)
		return -E2BIG;
	buf_add(what, all.data ? all.data + before : "", all.len - before);
	return buf_error(&all) ? -ENOMEM : buf_error(what);
}
