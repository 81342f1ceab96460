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

/*
 * The digit for six bits; `url` selects the alphabet that is safe in a URL. Begins with 'A' + v and corrects it where
 * v has passed the end of a range: then the difference has wrapped, and its upper bits are set.
 */
static inline char base64_digit(unsigned v, bool url)
{
	unsigned c62 = url ? '-' : '+', c63 = url ? '_' : '/', c = v + 'A';

	c += (25 - v) >> 8 & ('a' - 'Z' - 1);
	c -= (51 - v) >> 8 & ('z' + 1 - '0');
	c -= (61 - v) >> 8 & ('9' + 1 - c62);
	c += (62 - v) >> 8 & (c63 - c62 - 1);
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
