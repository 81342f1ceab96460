/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Patterns of paths, repositories, refs and field names: "*" stands for any number of bytes but "/", "**" for any
 * number of bytes. Everything else stands for itself.
 *
 * Invariants
 *  M1  Matching takes time in proportion to the length of the text, whatever text and pattern are: all states of the
 *      pattern are kept as bits and moved together; nothing is tried twice.
 *  M2  PATHPAT_LOOSE only ever matches more: letters of either case are one, percent-encodings mean what they encode,
 *      ";parameters" of a segment, dots and spaces at its end, and one slash behind are dropped. For patterns that
 *      forbid: servers differ in what they take for the same path.
 *  M3  pathpat_covers(a, b) is never true unless a matches all that b matches.
 */
#ifndef POLICY_PATHPAT_H
#define POLICY_PATHPAT_H

#include "base/buf.h"
#include "base/err.h"
#include "codec/slice.h"

#include <stdint.h>

#define PATHPAT_MAX 255

enum pathpat_flags { PATHPAT_LOOSE = 1 };

/* A path as a rule writes it: begins with "/", canonical (codec/http/urlpath.h), no query. -EINVAL names the right form. */
int pathpat_check(const char *s, size_t len, struct err *e) MUST_CHECK;

/* Of any text: only that it has a length in bounds, and no three stars in a row. */
int pathpat_check_stars(const char *s, size_t len, struct err *e) MUST_CHECK;

bool pathpat_match(const char *pattern, struct slice text, unsigned flags);

/* Does `outer` match whatever `inner` matches? Letter case and encodings are not told apart. */
bool pathpat_covers(const char *outer, const char *inner);

bool pathpat_has_star(const char *pattern);

/* One text that the pattern matches, with `fill` for each star: for questions about a pattern. */
void pathpat_sample(const char *pattern, const char *fill, struct buf *out);

#endif
