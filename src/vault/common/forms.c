/* SPDX-License-Identifier: Apache-2.0 */
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

/* Where a form is written: no more than fits, and then it is none. */
struct out {
	uint8_t *p;
	size_t len, cap;
	bool full;
};

static void put(struct out *o, uint8_t c)
{
	if (o->len < o->cap)
		o->p[o->len++] = c;
	else
		o->full = true;
}

static void put_all(struct out *o, const char *s)
{
	while (*s)
		put(o, (uint8_t)*s++);
}

static void put_hex(struct out *o, uint8_t c, const char *digits)
{
	put(o, (uint8_t)digits[c >> 4]);
	put(o, (uint8_t)digits[c & 15]);
}

static bool is_alnum(uint8_t c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* Which six bits stand at place i of the bytes, with `before` bytes of zeros in front. */
static unsigned sextet(const uint8_t *s, size_t len, size_t before, size_t i)
{
	unsigned v = 0;

	for (unsigned k = 0; k < 6; k++) {
		size_t bit = i * 6 + k, at = bit / 8;
		unsigned b = at < before || at - before >= len ? 0 : s[at - before] >> (7 - bit % 8) & 1u;

		v = v << 1 | b;
	}
	return v;
}

static void put_base64(struct out *o, const uint8_t *s, size_t len, size_t before, bool url)
{
	/* Characters that share bits with what stands before or behind are not the secret's alone. */
	size_t from = (before * 8 + 5) / 6, to = (before + len) * 8 / 6;

	for (size_t i = from; i < to; i++)
		put(o, (uint8_t)base64_digit(sextet(s, len, before, i), url));
}

static void put_percent(struct out *o, const uint8_t *s, size_t len, const char *kept, bool all,
			const char *digits)
{
	for (size_t i = 0; i < len; i++) {
		uint8_t c = s[i];

		if (!all && (is_alnum(c) || (c && strchr(kept, c)))) {
			put(o, c);
		} else {
			put(o, '%');
			put_hex(o, c, digits);
		}
	}
}

static void put_form(struct out *o, const uint8_t *s, size_t len, const char *digits)
{
	for (size_t i = 0; i < len; i++) {
		if (s[i] == ' ')
			put(o, '+');
		else
			put_percent(o, s + i, 1, "*-._", false, digits);
	}
}

static void put_u(struct out *o, unsigned unit, const char *digits)
{
	put_all(o, "\\u");
	put_hex(o, (uint8_t)(unit >> 8), digits);
	put_hex(o, (uint8_t)unit, digits);
}

/* One character of UTF-8: its length, 0 when it is none. */
static size_t utf8_at(const uint8_t *s, size_t len, uint32_t *ret)
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

static bool is_utf8(const uint8_t *s, size_t len)
{
	uint32_t c;
	size_t n;

	for (size_t i = 0; i < len; i += n) {
		n = utf8_at(s + i, len - i, &c);
		if (n == 0)
			return false;
	}
	return true;
}

static void put_code(struct out *o, uint32_t c, const char *digits)
{
	if (c >= 0x10000) {
		put_u(o, 0xd800 + ((c - 0x10000) >> 10), digits);
		put_u(o, 0xdc00 + ((c - 0x10000) & 0x3ff), digits);
	} else {
		put_u(o, c, digits);
	}
}

static void put_json_byte(struct out *o, uint8_t c, enum form_kind kind)
{
	static const char from[] = "\b\f\n\r\t\"\\", to[] = "bfnrt\"\\";
	const char *at = c ? strchr(from, c) : NULL;

	if (at) {
		put(o, '\\');
		put(o, (uint8_t)to[at - from]);
	} else if (c == '/' && kind == FORM_JSON_SLASH) {
		put_all(o, "\\/");
	} else if (c < 0x20 || (kind == FORM_JSON_HTML && strchr("<>&", c))) {
		put_u(o, c, lower_hex);
	} else {
		put(o, c);
	}
}

static void put_json(struct out *o, const uint8_t *s, size_t len, enum form_kind kind)
{
	uint32_t c = 0;
	size_t n;

	for (size_t i = 0; i < len; i += n) {
		n = kind == FORM_JSON_ASCII ? utf8_at(s + i, len - i, &c) : 1;
		if (n > 1)
			put_code(o, c, lower_hex);
		else
			put_json_byte(o, s[i], kind);
	}
}

/* Every character; of what is no UTF-8, every byte. */
static void put_json_u(struct out *o, const uint8_t *s, size_t len, const char *digits)
{
	bool utf8 = is_utf8(s, len);
	uint32_t c = 0;
	size_t n;

	for (size_t i = 0; i < len; i += n) {
		n = utf8 ? utf8_at(s + i, len - i, &c) : 1;
		put_code(o, utf8 ? c : s[i], digits);
	}
}

static void put_kind(struct out *o, enum form_kind kind, const uint8_t *s, size_t len)
{
	/* Pairs of a kind stand with upper-case hex first; JSON and plain hex the other way round. */
	const char *digits = kind == FORM_PERCENT || kind == FORM_COMPONENT || kind == FORM_PATH ||
					     kind == FORM_FORM || kind == FORM_PERCENT_ALL ||
					     kind == FORM_JSON_U_UPPER || kind == FORM_HEX_UPPER
				     ? upper_hex
				     : lower_hex;

	switch (kind) {
	case FORM_RAW:
		for (size_t i = 0; i < len; i++)
			put(o, s[i]);
		return;
	case FORM_BASE64_0:
	case FORM_BASE64_1:
	case FORM_BASE64_2:
		put_base64(o, s, len, kind - FORM_BASE64_0, false);
		return;
	case FORM_BASE64URL_0:
	case FORM_BASE64URL_1:
	case FORM_BASE64URL_2:
		put_base64(o, s, len, kind - FORM_BASE64URL_0, true);
		return;
	case FORM_PERCENT:
	case FORM_PERCENT_LOWER:
		put_percent(o, s, len, "-._~", false, digits);
		return;
	case FORM_COMPONENT:
	case FORM_COMPONENT_LOWER:
		put_percent(o, s, len, "-._~!*'()", false, digits);
		return;
	case FORM_PATH:
	case FORM_PATH_LOWER:
		put_percent(o, s, len, "-._~/", false, digits);
		return;
	case FORM_FORM:
	case FORM_FORM_LOWER:
		put_form(o, s, len, digits);
		return;
	case FORM_PERCENT_ALL:
	case FORM_PERCENT_ALL_LOWER:
		put_percent(o, s, len, "", true, digits);
		return;
	case FORM_JSON_ASCII:
		if (!is_utf8(s, len))
			return;
		put_json(o, s, len, kind);
		return;
	case FORM_JSON:
	case FORM_JSON_SLASH:
	case FORM_JSON_HTML:
		put_json(o, s, len, kind);
		return;
	case FORM_JSON_U:
	case FORM_JSON_U_UPPER:
		put_json_u(o, s, len, digits);
		return;
	case FORM_HEX:
	case FORM_HEX_UPPER:
		for (size_t i = 0; i < len; i++)
			put_hex(o, s[i], digits);
		return;
	case FORM_COUNT:
		break;
	}
	BUG("no such form");
}

long forms_render(enum form_kind kind, const void *secret, size_t len, void *out, size_t cap)
{
	struct out o = { .p = out, .cap = cap };

	put_kind(&o, kind, secret, len);
	return o.full ? -ENOSPC : (long)o.len;
}

size_t forms_size(size_t secret_len)
{
	/* raw 1, base64 6 times 4/3, percent 10 times 3, JSON 6 times 6, hex 2 times 2 */
	return secret_len * (1 + 8 + 30 + 36 + 4) + 64;
}

static bool is_known(const struct forms *f, const uint8_t *p, size_t len)
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
		if (n < FORMS_SHORTEST || is_known(&f, at, (size_t)n))
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
