/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Characters that some programs treat as ASCII. Unicode's compatibility form (NFKC), together with a comparison that
 * ignores letter case, turns some characters into ASCII (full-width and mathematical letters, ligatures,
 * superscripts, a dotless i) and drops others. Pure. The table is made by tools/gen-asciifold.
 */
#ifndef CODEC_ASCIIFOLD_H
#define CODEC_ASCIIFOLD_H

#include <stdbool.h>
#include <stdint.h>

#define ASCIIFOLD_MAX 8 /* with its NUL */

/*
 * Writes the ASCII text that c folds to, letters in lower case; "" when such a comparison drops c. Returns false, and
 * leaves out as it is, when c folds to nothing else.
 */
bool asciifold(uint32_t c, char out[ASCIIFOLD_MAX]);

#endif
