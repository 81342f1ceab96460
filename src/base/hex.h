/* SPDX-License-Identifier: Apache-2.0 */
/* Hexadecimal digits. Pure. Whole digests are written and read by crypto/hash.h, which takes lower case only. */
#ifndef BASE_HEX_H
#define BASE_HEX_H

#define HEX_LOWER "0123456789abcdef"
#define HEX_UPPER "0123456789ABCDEF"

/* The value of a digit in either case; -1 for any other character. */
static inline int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte that two digits encode, or -1. The second is not read when the first is no digit, so a string may end there. */
static inline int hex_byte(const char *two)
{
	int hi = hex_digit(two[0]), lo = hi < 0 ? -1 : hex_digit(two[1]);

	return lo < 0 ? -1 : hi << 4 | lo;
}

#endif
