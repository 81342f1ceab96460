/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Patterns of paths, repositories, refs and field names: "*" matches any number of bytes except "/", "**" any number of
 * bytes. Everything else matches itself.
 *
 * Invariants
 *  M1  Matching takes time proportional to the length of the text, whatever text and pattern are: all states of the
 *      pattern are kept as bits and advanced together; there is no backtracking.
 *  M2  PATHPAT_LOOSE only ever matches more: letter case is ignored, percent-encodings are decoded, and ";parameters" of a
 *      segment, dots and spaces at its end, and one trailing slash are dropped. For denying patterns: servers differ in which
 *      paths they treat as equal.
 *  M3  pathpat_covers(a, b) is true only if a matches everything that b matches.
 */
#ifndef POLICY_PATHPAT_H
#define POLICY_PATHPAT_H

#include "base/buf.h"
#include "base/err.h"
#include "codec/slice.h"

#include <stdint.h>

#define PATHPAT_MAX 255

enum pathpat_flags { PATHPAT_LOOSE = 1 };

/* Is it a path as a rule may have it: begins with "/", canonical (codec/http/urlpath.h), no query? -EINVAL
 * names the right form. */
int pathpat_check(const char *s, size_t len, struct err *e) MUST_CHECK;

/* For any text: checks only the length, and that there are no three stars in a row. */
int pathpat_check_stars(const char *s, size_t len, struct err *e) MUST_CHECK;

bool pathpat_match(const char *pattern, struct slice text, unsigned flags);

/* Does `outer` match everything that `inner` matches? Ignores letter case and encodings. */
bool pathpat_covers(const char *outer, const char *inner);

bool pathpat_has_star(const char *pattern);

/* A text that the pattern matches, with `fill` for each star: to query a policy about a pattern. */
void pathpat_sample(const char *pattern, const char *fill, struct buf *out);

#endif
