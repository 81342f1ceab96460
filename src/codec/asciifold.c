/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lookup in the generated table of characters that fold to ASCII. The table is written by tools/gen-
 * asciifold. Pure: no I/O, no clock. The table must not be edited by hand.
 */
#include "codec/asciifold.h"

#include <stddef.h>
#include <string.h>

/*
 * Sorted by code point. A run whose text is one character maps its first code point to that character, the next one to
 * the next character, and so on: U+FF21 to U+FF3A are a to z in one entry.
 */
static const struct run {
	uint32_t first, last;
	char text[ASCIIFOLD_MAX];
} table[] = {
#include "codec/asciifold_table.inc"
};

bool asciifold(uint32_t c, char out[ASCIIFOLD_MAX])
{
	size_t from = 0, to = sizeof(table) / sizeof(table[0]);

	while (from < to) {
		size_t at = from + (to - from) / 2;
		const struct run *r = &table[at];

		if (c > r->last) {
			from = at + 1;
		} else if (c < r->first) {
			to = at;
		} else {
			memcpy(out, r->text, ASCIIFOLD_MAX);
			if (out[0] && !out[1])
				out[0] = (char)(out[0] + (int)(c - r->first));
			return true;
		}
	}
	return false;
}
