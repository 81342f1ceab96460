/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Base64 for the rooms that have no libsodium. Pure.
 *
 * The bytes may be a secret, so the encoder runs in constant time: no branch and no memory address depends on them.
 */
#ifndef BASE_BASE64_H
#define BASE_BASE64_H

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All ones where a < b, for numbers below 256. */
static inline unsigned base64_less(unsigned a, unsigned b)
{
	return (a - b) >> 8 & 0xff;
}

/* The digit for six bits; `url` selects the alphabet that is safe in a URL. */
static inline char base64_digit(unsigned v, bool url)
{
	unsigned c62 = url ? '-' : '+', c63 = url ? '_' : '/';
	unsigned upper = base64_less(v, 26), lower = base64_less(v, 52) & ~upper;
	unsigned digit = base64_less(v, 62) & ~upper & ~lower, last = ~base64_less(v, 63) & 0xff;
	unsigned c = (upper & (v + 'A')) | (lower & (v + 'a' - 26)) | (digit & (v + '0' - 52)) |
		     (last & c63) | (~(upper | lower | digit | last) & 0xff & c62);

	return (char)c;
}

/* Appends `len` bytes in the standard alphabet, with padding. */
static inline void base64_add(struct buf *out, const void *data, size_t len)
{
	const uint8_t *s = data;

	for (size_t i = 0; i < len; i += 3) {
		size_t n = len - i < 3 ? len - i : 3;
		uint32_t v = 0;

		for (size_t k = 0; k < 3; k++)
			v = v << 8 | (k < n ? s[i + k] : 0u);
		for (size_t k = 0; k <= n; k++)
			buf_addc(out, base64_digit(v >> (18 - 6 * k) & 63, false));
		buf_add(out, "==", 3 - n);
	}
}

#endif
