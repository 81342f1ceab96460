/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The most frequent of many texts, in bounded memory (Misra and Gries): whatever is more than one in TOP_MAX + 1 of all is
 * among them. A number is at most what it was in truth.
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

/* A text that is longer is cut. */
void top_add(struct top *t, const char *text, size_t len, uint64_t count);

/* "COUNT TEXT, COUNT TEXT", the most frequent first; nothing when there is none. What could be read as a part of that in a
 * text, and what is not printable ASCII, is "?". */
void top_format(const struct top *t, struct buf *out);

#endif
