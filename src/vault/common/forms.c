/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Renders a secret in each of its encodings (forms.h), and searches text for all of them. Pure: writes only
 * to the caller's memory, which may be locked.
 */

#include "vault/common/forms.h"

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/hex.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

static const char *const names[] = {
	[FORM_RAW] = "as it is",
	[FORM_BASE64_0] = "base64",
	[FORM_BASE64_1] = "base64",
	[FORM_BASE64_2] = "base64",
	[FORM_BASE64URL_0] = "base64 for URLs",
	[FORM_BASE64URL_1] = "base64 for URLs",
	[FORM_BASE64URL_2] = "base64 for URLs",
	[FORM_PERCENT] = "percent-encoded",
	[FORM_PERCENT_LOWER] = "percent-encoded",
	[FORM_COMPONENT] = "percent-encoded",
	[FORM_COMPONENT_LOWER] = "percent-encoded",
	[FORM_PATH] = "percent-encoded",
	[FORM_PATH_LOWER] = "percent-encoded",
	[FORM_FORM] = "form-encoded",
	[FORM_FORM_LOWER] = "form-encoded",
	[FORM_PERCENT_ALL] = "percent-encoded",
	[FORM_PERCENT_ALL_LOWER] = "percent-encoded",
	[FORM_JSON] = "escaped for JSON",
	[FORM_JSON_SLASH] = "escaped for JSON",
	[FORM_JSON_HTML] = "escaped for JSON",
	[FORM_JSON_ASCII] = "escaped for JSON",
	[FORM_JSON_U] = "escaped for JSON",
	[FORM_JSON_U_UPPER] = "escaped for JSON",
	[FORM_HEX] = "hex",
	[FORM_HEX_UPPER] = "hex",
};
static_assert(ARRAY_SIZE(names) == FORM_COUNT, "a name for each form");

static const char lower_hex[] = HEX_LOWER, upper_hex[] = HEX_UPPER;

const char *form_name(enum form_kind k)
{
	return names[k];
}

/* The buffer that a form is written to. When it is full, there is no such form. */
struct out {
	uint8_t *p;
	size_t len, cap;
	bool full;
};

static void out_byte(struct out *o, uint8_t c)
{
	if (o->len < o->cap)
		o->p[o->len++] = c;
	else
		o->full = true;
}

static void out_text(struct out *o, const char *s)
{
	while (*s)
		out_byte(o, (uint8_t)*s++);
}

static void out_hex(struct out *o, uint8_t c, const char *digits)
{
	out_byte(o, (uint8_t)digits[c >> 4]);
	out_byte(o, (uint8_t)digits[c & 15]);
}

static bool is_ascii_alnum(uint8_t c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* A byte of the secret, with `before` zero bytes before it and any number after it. */
static unsigned padded_byte(const uint8_t *s, size_t len, size_t before, size_t at)
{
	return at < before || at - before >= len ? 0 : s[at - before];
}

/* The six bits at position i of the same bytes: they are in two neighbours. */
static unsigned sextet_at(const uint8_t *s, size_t len, size_t before, size_t i)
{
	size_t bit = i * 6, at = bit / 8;
	unsigned two = padded_byte(s, len, before, at) << 8 | padded_byte(s, len, before, at + 1);

	return two >> (10 - bit % 8) & 63;
}

static void out_base64(struct out *o, const uint8_t *s, size_t len, size_t before, bool url)
{
	/* A character that shares bits with the bytes before or after the secret does not depend on the
	 * secret alone. */
	size_t from = (before * 8 + 5) / 6, to = (before + len) * 8 / 6;

	for (size_t i = from; i < to; i++)
		out_byte(o, (uint8_t)base64_digit(sextet_at(s, len, before, i), url));
}

static void out_percent(struct out *o, const uint8_t *s, size_t len, const char *kept, bool all,
			const char *digits)
{
	for (size_t i = 0; i < len; i++) {
		uint8_t c = s[i];

		if (!all && (is_ascii_alnum(c) || (c && strchr(kept, c)))) {
			out_byte(o, c);
		} else {
			out_byte(o, '%');
			out_hex(o, c, digits);
		}
	}
}

static void out_form_encoded(struct out *o, const uint8_t *s, size_t len, const char *digits)
{
	for (size_t i = 0; i < len; i++) {
		if (s[i] == ' ')
			out_byte(o, '+');
		else
			out_percent(o, s + i, 1, "*-._", false, digits);
	}
}

static void out_utf16_escape(struct out *o, unsigned unit, const char *digits)
{
	out_text(o, "\\u");
	out_hex(o, (uint8_t)(unit >> 8), digits);
	out_hex(o, (uint8_t)unit, digits);
}

/* Decodes one UTF-8 character; returns its length, 0 if invalid. */
static size_t decode_utf8(const uint8_t *s, size_t len, uint32_t *ret)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t n = s[0] < 0x80 ? 1 : s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
	uint32_t c = n == 1 ? s[0] : s[0] & (0xffu >> (n + 1));

	if (n > len || (n > 1 && s[0] < 0xc2) || s[0] > 0xf4)
		return 0;
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (s[i] & 0x3fu);
	}
	if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		return 0;
	*ret = c;
	return n;
}

static bool is_valid_utf8(const uint8_t *s, size_t len)
{
	uint32_t c;
	size_t n;

	for (size_t i = 0; i < len; i += n) {
		n = decode_utf8(s + i, len - i, &c);
		if (n == 0)
			return false;
	}
	return true;
}

static void out_code_point(struct out *o, uint32_t c, const char *digits)
{
	if (c >= 0x10000) {
		out_utf16_escape(o, 0xd800 + ((c - 0x10000) >> 10), digits);
		out_utf16_escape(o, 0xdc00 + ((c - 0x10000) & 0x3ff), digits);
	} else {
		out_utf16_escape(o, c, digits);
	}
}

/* One byte of a JSON string in the escaping style of `kind`. */
static void out_json_byte(struct out *o, uint8_t c, enum form_kind kind)
{
	static const char from[] = "\b\f\n\r\t\"\\", to[] = "bfnrt\"\\";
	const char *at = c ? strchr(from, c) : NULL;

	if (at) {
		out_byte(o, '\\');
		out_byte(o, (uint8_t)to[at - from]);
	} else if (c == '/' && kind == FORM_JSON_SLASH) {
		out_text(o, "\\/");
	} else if (c < 0x20 || (kind == FORM_JSON_HTML && strchr("<>&", c))) {
		out_utf16_escape(o, c, lower_hex);
	} else {
		out_byte(o, c);
	}
}

static void out_json(struct out *o, const uint8_t *s, size_t len, enum form_kind kind)
{
	uint32_t c = 0;
	size_t n;

	for (size_t i = 0; i < len; i += n) {
		n = kind == FORM_JSON_ASCII ? decode_utf8(s + i, len - i, &c) : 1;
		if (n > 1)
			out_code_point(o, c, lower_hex);
		else
			out_json_byte(o, s[i], kind);
	}
}

/* Escapes every character; if the text is not UTF-8, every byte. */
static void out_json_escaped(struct out *o, const uint8_t *s, size_t len, const char *digits)
{
	bool utf8 = is_valid_utf8(s, len);
	uint32_t c = 0;
	size_t n;

	for (size_t i = 0; i < len; i += n) {
		n = utf8 ? decode_utf8(s + i, len - i, &c) : 1;
		out_code_point(o, utf8 ? c : s[i], digits);
	}
}

/* Writes the secret in one form. */
static void out_form(struct out *o, enum form_kind kind, const uint8_t *s, size_t len)
{
	/* Percent forms come in pairs with upper-case hex first; JSON and plain hex have lower case first. */
	const char *digits = kind == FORM_PERCENT || kind == FORM_COMPONENT || kind == FORM_PATH ||
					     kind == FORM_FORM || kind == FORM_PERCENT_ALL ||
					     kind == FORM_JSON_U_UPPER || kind == FORM_HEX_UPPER
				     ? upper_hex
				     : lower_hex;

	switch (kind) {
	case FORM_RAW:
		for (size_t i = 0; i < len; i++)
			out_byte(o, s[i]);
		return;
	case FORM_BASE64_0:
	case FORM_BASE64_1:
	case FORM_BASE64_2:
		out_base64(o, s, len, kind - FORM_BASE64_0, false);
		return;
	case FORM_BASE64URL_0:
	case FORM_BASE64URL_1:
	case FORM_BASE64URL_2:
		out_base64(o, s, len, kind - FORM_BASE64URL_0, true);
		return;
	case FORM_PERCENT:
	case FORM_PERCENT_LOWER:
		out_percent(o, s, len, "-._~", false, digits);
		return;
	case FORM_COMPONENT:
	case FORM_COMPONENT_LOWER:
		out_percent(o, s, len, "-._~!*'()", false, digits);
		return;
	case FORM_PATH:
	case FORM_PATH_LOWER:
		out_percent(o, s, len, "-._~/", false, digits);
		return;
	case FORM_FORM:
	case FORM_FORM_LOWER:
		out_form_encoded(o, s, len, digits);
		return;
	case FORM_PERCENT_ALL:
	case FORM_PERCENT_ALL_LOWER:
		out_percent(o, s, len, "", true, digits);
		return;
	case FORM_JSON_ASCII:
		if (!is_valid_utf8(s, len))
			return;
		out_json(o, s, len, kind);
		return;
	case FORM_JSON:
	case FORM_JSON_SLASH:
	case FORM_JSON_HTML:
		out_json(o, s, len, kind);
		return;
	case FORM_JSON_U:
	case FORM_JSON_U_UPPER:
		out_json_escaped(o, s, len, digits);
		return;
	case FORM_HEX:
	case FORM_HEX_UPPER:
		for (size_t i = 0; i < len; i++)
			out_hex(o, s[i], digits);
		return;
	case FORM_COUNT:
		break;
	}
	BUG("no such form");
}

long forms_render(enum form_kind kind, const void *secret, size_t len, void *out, size_t cap)
{
	struct out o = { .p = out, .cap = cap };

	out_form(&o, kind, secret, len);
	return o.full ? -ENOSPC : (long)o.len;
}

size_t forms_size(size_t secret_len)
{
	/* raw 1, base64 6 times 4/3, percent 10 times 3, JSON 6 times 6, hex 2 times 2 */
	return secret_len * (1 + 8 + 30 + 36 + 4) + 64;
}

static bool has_same_form(const struct forms *f, const uint8_t *p, size_t len)
{
	for (size_t i = 0; i < f->n; i++) {
		if (f->v[i].len == len && memcmp(f->v[i].bytes, p, len) == 0)
			return true;
	}
	return false;
}

int forms_make(struct forms *ret, const void *secret, size_t len, void *mem, size_t cap)
{
	uint8_t *at = mem, *end = at + cap;
	struct forms f = { 0 };

	if (len == 0 || len > FORMS_SECRET_MAX)
		return -EINVAL;
	for (unsigned k = 0; k < FORM_COUNT; k++) {
		long n = forms_render(k, secret, len, at, (size_t)(end - at));

		if (n < 0)
			return -ENOSPC;
		if (n < FORMS_SHORTEST || has_same_form(&f, at, (size_t)n))
			continue;
		f.v[f.n++] = (struct form){ .kind = k, .bytes = at, .len = (size_t)n };
		f.longest = (size_t)n > f.longest ? (size_t)n : f.longest;
		at += n;
	}
	*ret = f;
	return 0;
}

long forms_find(const struct forms *f, const void *text, size_t len, const struct form **ret)
{
	const struct form *found = NULL;
	const uint8_t *first = NULL;

	for (size_t i = 0; i < f->n; i++) {
		const struct form *v = &f->v[i];
		const uint8_t *p = memmem(text, len, v->bytes, v->len);

		if (!p || (first && (p > first || (p == first && v->len <= found->len))))
			continue;
		first = p;
		found = v;
	}
	if (!found)
		return -1;
	if (ret)
		*ret = found;
	return first - (const uint8_t *)text;
}
