/* SPDX-License-Identifier: Apache-2.0 */
/* A borrowed piece of a buffer: valid as long as the buffer, not NUL-terminated, may hold any byte. */
#ifndef CODEC_SLICE_H
#define CODEC_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

struct slice {
	const char *p; /* may be NULL when len is 0 */
	size_t len;
};

#define SLICE_NONE ((struct slice){ 0 })

#define SLICE_QUOTE_LEN 96
/* Quotes a text for a message: made harmless for a terminal, cut with "..." when long. Returns out. */
char *slice_quote(const char *s, size_t len, char out[SLICE_QUOTE_LEN]);

static inline struct slice slice_of(const char *s)
{
	return (struct slice){ s, strlen(s) };
}

static inline bool slice_eq(struct slice s, const char *text)
{
	return s.len == strlen(text) && (s.len == 0 || memcmp(s.p, text, s.len) == 0);
}

/* Compares without regard to the case of ASCII letters. */
static inline bool slice_eq_nocase(struct slice s, const char *text)
{
	return s.len == strlen(text) && (s.len == 0 || strncasecmp(s.p, text, s.len) == 0);
}

static inline bool slice_same(struct slice a, struct slice b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.p, b.p, a.len) == 0);
}

static inline bool slice_starts(struct slice s, const char *text)
{
	size_t n = strlen(text);

	return s.len >= n && (n == 0 || memcmp(s.p, text, n) == 0);
}

#endif
