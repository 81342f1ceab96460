/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Characters that some programs take for ASCII: those that Unicode's compatibility form (NFKC) and a comparison without letter case
 * make ASCII of (full width, mathematical letters, ligatures, superscripts, a dotless i), and those that such a comparison drops.
 * Pure. The table is made by tools/gen-asciifold.
 */
#ifndef CODEC_ASCIIFOLD_H
#define CODEC_ASCIIFOLD_H

#include <stdbool.h>
#include <stdint.h>

#define ASCIIFOLD_MAX 8 /* with its NUL */

/* What it becomes, letters in lower case; "" when it is dropped. False, and out untouched: it stays what it is. */
bool asciifold(uint32_t c, char out[ASCIIFOLD_MAX]);

#endif
