/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The canonical form of a URL's path. Rules are matched against the output, and the same output is sent to the
 * server, so that the two cannot differ. Pure.
 *
 * Input is a request target in origin form ("/a/b?q"). Output:
 *  - percent-encoded unreserved characters (letters, digits, - . _ ~) are decoded, other encodings get upper-case hex;
 *  - "." and ".." segments are resolved (also when encoded); a ".." that leads above the root is refused;
 *  - the query is kept byte for byte.
 * Refused as ambiguous, because servers disagree on the meaning:
 *  - an encoded slash (%2F, but see below), backslash, NUL or control byte (C1 too), and these, a percent sign or an
 *    unreserved character encoded twice (%252F, %2573);
 *  - "//"; a backslash;
 *  - a segment that is empty before its parameters ("/;/x");
 *  - a segment that some server reads as dots or as empty: with parameters ("..;x"), with spaces ("..%20", "%20"), of
 *    three or more dots, of dots of another script (%EF%BC%8E); the same for a part of a segment beside an encoded
 *    slash;
 *  - a percent sign without two hex digits; encoded bytes that are not UTF-8 (an overlong slash, %C0%AF).
 * In these checks a character that is encoded twice (%253B) counts as the character itself.
 * Refused as malformed: bytes outside 0x21..0x7e, "#", more than URLPATH_MAX bytes, a first byte that is not "/".
 * An empty path is "/". The canonical form of the output is the output.
 *
 * The second reading. Characters that stay encoded still mean different things to different servers: many read %40 as
 * @; some APIs use %2F inside a segment (npm's scoped packages, GitLab's projects); some servers read full-width
 * letters (%EF%BD%81 for a), and dots, spaces and semicolons of other scripts, as ASCII. `slash` is set when there is
 * such a second reading. The caller must then judge both the path and urlpath_slashed(), and apply the stricter
 * verdict. %2F itself is kept only with URLPATH_KEEP_SLASH; even then no part between two slashes, plain or encoded,
 * is ".", ".." or empty, and no ".." follows a segment with an encoded slash.
 *
 * The third reading. A few servers decode a second time, or compare names after folding every character that Unicode
 * relates to an ASCII one (asciifold.h). urlpath_folded() is that reading; ordinary paths in other scripts have none.
 * A rule that denies must be matched against it too. A rule that allows need not match it: otherwise a path that was
 * seen in the log could not be allowed by its name.
 */
#ifndef CODEC_URLPATH_H
#define CODEC_URLPATH_H

#include "base/buf.h"
#include "codec/slice.h"

#define URLPATH_MAX (32u << 10)

enum urlpath_flags { URLPATH_KEEP_SLASH = 1 };

struct urlpath {
	size_t path_len; /* of the path in the output; the query, if any, follows with its "?" */
	bool has_query;
	bool slash; /* there is a second reading: urlpath_slashed() differs from the path */
};

/* Writes the canonical target to out, which is cleared first. -EINVAL with the reason, -ENOMEM. */
int urlpath_canon(const char *target, size_t len, unsigned flags, struct buf *out, struct urlpath *ret,
		  struct err *e) MUST_CHECK;

struct slice urlpath_path(const struct buf *out, const struct urlpath *p);
struct slice urlpath_query(const struct buf *out, const struct urlpath *p); /* without its "?" */

/*
 * The second reading: decodes each encoded character of 0x21..0x7e but "%", full-width forms included, and writes
 * characters that look like a slash, a dot, a space or a semicolon as that. Clears out first. 0 or -ENOMEM.
 */
int urlpath_slashed(struct slice path, struct buf *out) MUST_CHECK;

/*
 * The third reading: urlpath_slashed(), but decodes characters that are encoded twice, and writes each character of
 * asciifold.h as the text that it folds to. Clears out first. Returns 1, 0 when it differs from urlpath_slashed() in
 * nothing but letter case, or -ENOMEM.
 */
int urlpath_folded(struct slice path, struct buf *out) MUST_CHECK;

#endif
