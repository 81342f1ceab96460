/* SPDX-License-Identifier: Apache-2.0 */
/* The encoding half of punycode (RFC 3492), label by label; and a check for characters that readers of a file
 * cannot see. */
#include "config/unicode.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define LABEL_MAX 63
enum { BASE = 36, TMIN = 1, TMAX = 26, SKEW = 38, DAMP = 700, INITIAL_BIAS = 72, INITIAL_N = 128 };

static size_t utf8_length(unsigned char first)
{
	if (first < 0x80)
		return 1;
	if (first < 0xc2 || first > 0xf4)
		return 0;
	return first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

/* Decodes one UTF-8 character; returns its length, or 0. */
static size_t utf8_next(const unsigned char *s, size_t len, uint32_t *ret)
{
	size_t n = utf8_length(s[0]);
	uint32_t c = n == 1 ? s[0] : s[0] & (0x7fu >> n);

	if (n == 0 || n > len)
		return 0;
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (s[i] & 0x3f);
	}
	*ret = c;
	return n;
}

static uint32_t punycode_adapt(uint32_t delta, uint32_t points, bool first)
{
	uint32_t k = 0;

	delta = first ? delta / DAMP : delta / 2;
	delta += delta / points;
	for (; delta > ((BASE - TMIN) * TMAX) / 2; k += BASE)
		delta /= BASE - TMIN;
	return k + (BASE - TMIN + 1) * delta / (delta + SKEW);
}

static void punycode_add_number(struct buf *b, uint32_t q, uint32_t bias)
{
	static const char digits[] = "abcdefghijklmnopqrstuvwxyz0123456789";

	for (uint32_t k = BASE;; k += BASE) {
		uint32_t t = k <= bias ? TMIN : k >= bias + TMAX ? TMAX : k - bias;

		if (q < t)
			break;
		buf_addc(b, digits[t + (q - t) % (BASE - t)]);
		q = (q - t) / (BASE - t);
	}
	buf_addc(b, digits[q]);
}

/* RFC 3492, section 6.3. */
static void punycode_encode(const uint32_t *c, uint32_t n, struct buf *b)
{
	uint32_t at = INITIAL_N, delta = 0, bias = INITIAL_BIAS, basic = 0, done;

	for (uint32_t i = 0; i < n; i++) {
		if (c[i] < 0x80) {
			buf_addc(b, (char)c[i]);
			basic++;
		}
	}
	if (basic)
		buf_addc(b, '-');
	for (done = basic; done < n; delta++, at++) {
		uint32_t m = UINT32_MAX;

		for (uint32_t i = 0; i < n; i++)
			m = c[i] >= at && c[i] < m ? c[i] : m;
		delta += (m - at) * (done + 1);
		at = m;
		for (uint32_t i = 0; i < n; i++) {
			delta += c[i] < at;
			if (c[i] != at)
				continue;
			punycode_add_number(b, delta, bias);
			bias = punycode_adapt(delta, done + 1, done == basic);
			delta = 0;
			done++;
		}
	}
}

/* The characters of a label, ASCII letters in lower case. */
static int decode_label(const char *s, size_t len, uint32_t c[LABEL_MAX], uint32_t *ret_n)
{
	uint32_t n = 0;

	for (size_t at = 0, used; at < len; at += used, n++) {
		used = n < LABEL_MAX ? utf8_next((const unsigned char *)s + at, len - at, &c[n]) : 0;
		if (used == 0)
			return -EINVAL;
		if (c[n] >= 'A' && c[n] <= 'Z')
			c[n] += 'a' - 'A';
	}
	*ret_n = n;
	return 0;
}

/* One label: as it is if ASCII, otherwise "xn--" and punycode. */
static int encode_label(const char *s, size_t len, struct buf *b)
{
	uint32_t c[LABEL_MAX], n = 0;
	bool plain = true;

	if (decode_label(s, len, c, &n) < 0)
		return -EINVAL;
	for (uint32_t i = 0; i < n; i++)
		plain = plain && c[i] < 0x80;
	if (!plain) {
		buf_adds(b, "xn--");
		punycode_encode(c, n, b);
		return 0;
	}
	for (uint32_t i = 0; i < n; i++)
		buf_addc(b, (char)c[i]);
	return 0;
}

int unicode_to_ascii(const char *name, struct buf *ret)
{
	int r = 0;
	bool any = false;

	for (const char *p = name; *p; p++)
		any = any || (unsigned char)*p >= 0x80;
	while (r == 0 && any) {
		size_t n = strcspn(name, ".");

		r = encode_label(name, n, ret);
		if (!name[n])
			break;
		buf_addc(ret, '.');
		name += n + 1;
	}
	return any && !buf_error(ret) ? r : -EINVAL;
}

void unicode_hint(const char *name, struct err *e)
{
	autobuf struct buf b = BUF_INIT;

	if (unicode_to_ascii(name, &b) == 0 && b.len <= 253)
		err_hint(e, -EINVAL, "%s", buf_cstr(&b));
}

/* Characters that break a line only for YAML, change the direction of text, take no space, or control a
 * terminal. */
static const struct unseen {
	uint32_t first, last;
	const char *what;
} unseens[] = {
	{ 0x00, 0x08, "a control character" },
	{ 0x0b, 0x1f, "a control character" },
	{ 0x7f, 0x84, "a control character" },
	{ 0x85, 0x85, "a line break that few programs show" },
	{ 0x86, 0x9f, "a control character" },
	{ 0xad, 0xad, "an invisible character" },
	{ 0x034f, 0x034f, "an invisible character" },
	{ 0x061c, 0x061c, "a character that turns the direction of text" },
	{ 0x115f, 0x1160, "an invisible character" },
	{ 0x17b4, 0x17b5, "an invisible character" },
	{ 0x180b, 0x180f, "an invisible character" },
	{ 0x200b, 0x200d, "an invisible character" },
	{ 0x200e, 0x200f, "a character that turns the direction of text" },
	{ 0x2028, 0x2029, "a line break that few programs show" },
	{ 0x202a, 0x202e, "a character that turns the direction of text" },
	{ 0x2060, 0x2065, "an invisible character" },
	{ 0x2066, 0x2069, "a character that turns the direction of text" },
	{ 0x206a, 0x206f, "an invisible character" },
	{ 0x3164, 0x3164, "an invisible character" },
	{ 0xfeff, 0xfeff, "an invisible character" },
	{ 0xffa0, 0xffa0, "an invisible character" },
	{ 0xfff9, 0xfffb, "an invisible character" },
	{ 0x1d173, 0x1d17a, "an invisible character" },
	{ 0xe0000, 0xe0fff, "an invisible character" },
};

static const char *unseen_kind(uint32_t c)
{
	for (size_t i = 0; i < sizeof(unseens) / sizeof(unseens[0]); i++) {
		if (c >= unseens[i].first && c <= unseens[i].last)
			return unseens[i].what;
	}
	return NULL;
}

int unicode_check_visible(const char *name, const char *text, size_t len, struct err *e)
{
	const unsigned char *s = (const unsigned char *)text;
	size_t line = 1, column = 1;

	for (size_t at = 0, used; at < len; at += used, column++) {
		const char *what;
		uint32_t c = 0;

		used = utf8_next(s + at, len - at, &c);
		if (used == 0)
			return err_set(e, -EINVAL, "%s:%zu:%zu: not YAML: this is not UTF-8", name, line,
				       column);
		/* A carriage return belongs to a line feed; alone it ends a line for YAML but hides text from
		 * people. */
		what = c == '\r' && at + 1 < len && s[at + 1] == '\n' ? NULL : unseen_kind(c);
		if (what && !(c == 0xfeff && at == 0))
			return err_set(e, -EINVAL,
				       "%s:%zu:%zu: U+%04X, %s, can hide parts of the file; remove it", name,
				       line, column, (unsigned)c, what);
		if (c == '\n') {
			line++;
			column = 0;
		}
	}
	return 0;
}
