/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The most frequent of many texts, in bounded memory (Misra and Gries): a text that makes up more than one in TOP_MAX + 1 of
 * all is among them. A count may be too low, never too high.
 */
#ifndef BASE_TOP_H
#define BASE_TOP_H

#include "base/buf.h"

#include <stddef.h>
#include <stdint.h>

#define TOP_MAX 8
#define TOP_TEXT_MAX 95
#define TOP_FORMAT_MAX 950 /* bytes that top_format() adds at most */

struct top {
	struct {
		uint64_t count; /* 0: free */
		char text[TOP_TEXT_MAX + 1];
	} v[TOP_MAX];
};

/* Counts a text `count` times; a text longer than TOP_TEXT_MAX is cut. */
void top_add(struct top *t, const char *text, size_t len, uint64_t count);

/* Adds "COUNT TEXT, COUNT TEXT", the most frequent first; nothing when no text was counted. A comma in a text, and any byte
 * that is not printable ASCII, becomes "?". */
void top_format(const struct top *t, struct buf *out);

#endif
