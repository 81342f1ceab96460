/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One byte that was escaped by itself, as encoders do that may escape any byte: %XX; JSON's \u00XX and its
 * two-character escapes, JavaScript's \xXX; HTML's &#43; and &#x2B; with leading zeros, and its names for
 * ASCII characters. Pure.
 */
#ifndef EGRESS_SCRUB_ESCAPE_H
#define EGRESS_SCRUB_ESCAPE_H

#include <stddef.h>

#define SCRUB_ESCAPE_MAX 10u /* bytes */
#define SCRUB_ESCAPE_CUT (-2)

/*
 * The byte that is escaped here, and the length of the escape; -1: none. SCRUB_ESCAPE_CUT: more bytes are
 * needed to tell.
 */
int scrub_escape_at(const unsigned char *p, size_t left, size_t *ret_len);
/*
 * Adds to `out`, which has n of at most `max`, the first letters of HTML's names for this byte. Returns their
 * number afterwards; max + 1 when they do not fit.
 */
size_t scrub_escape_letters(unsigned char c, char *out, size_t n, size_t max);

#endif
