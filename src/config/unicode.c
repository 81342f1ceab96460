/* SPDX-License-Identifier: Apache-2.0 */
/* Punycode (RFC 3492), the encoding half, label by label. */
#include "config/unicode.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define LABEL_MAX 63
enum { BASE = 36, TMIN = 1, TMAX = 26, SKEW = 38, DAMP = 700, INITIAL_BIAS = 72, INITIAL_N = 128 };

static size_t length_of(unsigned char first)
{
	if (first < 0x80)
		return 1;
	if (first < 0xc2 || first > 0xf4)
		return 0;
	return first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

/* One character of UTF-8; its length, or 0. */
static size_t decode(const unsigned char *s, size_t len, uint32_t *ret)
{
	size_t n = length_of(s[0]);
	uint32_t c = n == 1 ? s[0] : s[0] & (0x7fu >> n);

	if (n == 0 || n > len)
		return 0;
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (s[i] & 0x3f);
	}
	*ret = c < 0x80 ? (uint32_t)tolower((int)c) : c;
	return n;
}

static uint32_t adapt(uint32_t delta, uint32_t points, bool first)
{
	uint32_t k = 0;

	delta = first ? delta / DAMP : delta / 2;
	delta += delta / points;
	for (; delta > ((BASE - TMIN) * TMAX) / 2; k += BASE)
		delta /= BASE - TMIN;
	return k + (BASE - TMIN + 1) * delta / (delta + SKEW);
}

static void add_number(struct buf *b, uint32_t q, uint32_t bias)
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

static void encode(const uint32_t *c, uint32_t n, struct buf *b)
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
			add_number(b, delta, bias);
			bias = adapt(delta, done + 1, done == basic);
			delta = 0;
			done++;
		}
	}
}

static int encode_label(const char *s, size_t len, struct buf *b)
{
	uint32_t c[LABEL_MAX], n = 0;
	bool plain = true;

	for (size_t at = 0; at < len; n++) {
		size_t used;

		if (n == LABEL_MAX)
			return -EINVAL;
		used = decode((const unsigned char *)s + at, len - at, &c[n]);
		if (used == 0)
			return -EINVAL;
		plain = plain && c[n] < 0x80;
		at += used;
	}
	if (!plain)
		buf_adds(b, "xn--");
	for (uint32_t i = 0; plain && i < n; i++)
		buf_addc(b, (char)c[i]);
	if (!plain)
		encode(c, n, b);
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
