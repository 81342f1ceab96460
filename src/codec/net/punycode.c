/* SPDX-License-Identifier: Apache-2.0 */
/* A validator for punycode labels: decodes without keeping the result. */
#include "codec/net/punycode.h"

#include <stdint.h>

/* The parameters of RFC 3492, section 5. */
enum { BASE = 36, TMIN = 1, TMAX = 26, SKEW = 38, DAMP = 700, INITIAL_BIAS = 72, INITIAL_N = 0x80 };

static int digit_of(char c)
{
	if (c >= 'a' && c <= 'z')
		return c - 'a';
	return c >= '0' && c <= '9' ? c - '0' + 26 : -1;
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

/*
 * Decodes one number of variable length at *at and adds it to *i. False when it is malformed or the sum would not
 * fit.
 */
static bool add_variable_number(const char *s, size_t len, size_t *at, uint32_t bias, uint32_t *i)
{
	uint64_t value = *i, weight = 1;

	for (uint32_t k = BASE;; k += BASE) {
		uint32_t t = k <= bias ? TMIN : k >= bias + TMAX ? TMAX : k - bias;
		int digit = *at < len ? digit_of(s[(*at)++]) : -1;

		if (digit < 0)
			return false;
		value += (uint64_t)digit * weight;
		if (value > INT32_MAX)
			return false;
		if ((uint32_t)digit < t)
			break;
		weight *= BASE - t;
		if (weight > INT32_MAX)
			return false;
	}
	*i = (uint32_t)value;
	return true;
}

bool punycode_is_valid(const char *s, size_t len)
{
	uint32_t n = INITIAL_N, i = 0, bias = INITIAL_BIAS, points = 0;
	size_t at = 0;

	for (size_t k = len; k > 1 && points == 0; k--) {
		if (s[k - 1] == '-') {
			points = (uint32_t)k - 1;
			at = k;
		}
	}
	if (at == len)
		return false;
	for (bool first = true; at < len; first = false) {
		uint32_t before = i;

		if (!add_variable_number(s, len, &at, bias, &i))
			return false;
		points++;
		bias = adapt(i - before, points, first);
		n += i / points;
		i = i % points + 1;
		if (n > 0x10ffff || (n >= 0xd800 && n <= 0xdfff))
			return false;
	}
	return true;
}
