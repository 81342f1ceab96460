/* SPDX-License-Identifier: Apache-2.0 */
/* Strings: comparison, numbers with units as people type them, the nearest known word, text safe to show. */
#ifndef BASE_STR_H
#define BASE_STR_H

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline bool str_eq(const char *a, const char *b)
{
	return strcmp(a, b) == 0;
}

static inline bool str_starts(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool str_ends(const char *s, const char *suffix);

/* Whole-string decimal. -EINVAL when it is not a number, -ERANGE when it does not fit. */
int str_to_u64(const char *s, uint64_t *ret) MUST_CHECK;

/* Bytes as docker and systemd users type them: 512, 64k, 1.5g, 2GiB; powers of 1024. */
int str_to_size(const char *s, uint64_t *ret) MUST_CHECK;

/* A span of time: 90, 90s, 1.5m, 2h, 1d, 250ms; in nanoseconds. A bare number is seconds. */
int str_to_nsec(const char *s, uint64_t *ret) MUST_CHECK;

/* "3.0 GiB", "512 B"; `out` holds at least 16 bytes. Returns out. */
char *str_from_size(uint64_t bytes, char out[16]);

/* The known word nearest to `word` when it is near enough to be a typing error, else NULL. */
const char *str_nearest(const char *word, const char *const *known, size_t n);

/*
 * Text from inside a sandbox, made harmless for a terminal: control bytes (C0, DEL, C1 in UTF-8) and invalid
 * UTF-8 are written as \xNN, a backslash as it is; bidirectional overrides as \u{NNNN}. Newline and tab are
 * kept when `keep_lines`.
 */
void str_add_safe(struct buf *b, const char *s, size_t len, bool keep_lines);
/* Control characters, characters that change the direction of text, and the line separators U+2028 and U+2029. */
bool str_steers_terminal(uint32_t cp);

/* str_add_safe() into a fixed buffer of at least 8 bytes, cut with "..." when too long: for a name in an error message. */
char *str_safe(const char *s, char *out, size_t size);

/* For sandbox, home and other names that people choose: [A-Za-z0-9][A-Za-z0-9_.-]{0,63}. */
bool str_is_name(const char *s);

/* A list of strings, NULL-terminated for exec; owns its strings. */
struct strv {
	char **v; /* NULL while empty */
	size_t n;
};

#define STRV_INIT ((struct strv){ 0 })

int strv_add(struct strv *l, const char *s) MUST_CHECK;
int strv_addf(struct strv *l, const char *fmt, ...) PRINTF_LIKE(2, 3) MUST_CHECK;
int strv_take(struct strv *l,
	      char *s) MUST_CHECK; /* takes ownership of s, also on failure; NULL is -ENOMEM */
void strv_release(struct strv *l);

#define autostrv CLEANUP(strv_release)

#endif
