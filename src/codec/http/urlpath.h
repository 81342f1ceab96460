/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The canonical form of a URL's path: what comes out is both what rules are matched against and what is sent to the
 * server, so that the two cannot differ. Pure.
 *
 * Input is a request target in origin form ("/a/b?q"). Output:
 *  - percent-encoded unreserved characters (letters, digits, - . _ ~) are decoded, other encodings get upper-case hex;
 *  - "." and ".." segments are resolved (also when encoded); a ".." that leads above the root is refused;
 *  - the query is kept byte for byte.
 * Refused as ambiguous (servers disagree on what they mean): an encoded slash (%2F, but see below), backslash, NUL or
 * control byte (C1 too), and the same or an unreserved character encoded twice (%252F, %2573); "//"; a backslash; a segment that is
 * empty before its parameters ("/;/x"); one that some server takes for dots or for nothing: with parameters ("..;x"), with spaces
 * ("..%20", "%20"), of three dots and more, of dots in another script (%EF%BC%8E), also beside a slash in another script;
 * a percent sign without two hex digits; encoded bytes that are not UTF-8 (an overlong slash, %C0%AF).
 * Refused as malformed: bytes outside 0x21..0x7e, "#", more than URLPATH_MAX bytes, a first byte that is not "/".
 * An empty path is "/". Canonicalising the output gives the same again.
 *
 * In all this a character that is encoded twice (%253B) counts as what it stands for.
 *
 * What is left encoded may still be read in two ways: many servers take %40 for @, and some APIs use %2F inside a segment
 * (npm's scoped packages, GitLab's projects); some fold what is written in full width (%EF%BD%81 for a), and dots, spaces and semicolons of other scripts. `slash` says that there is such a second reading. It must be judged
 * twice then, by the path and by urlpath_slashed(), and the stricter answer holds. %2F itself is kept only with
 * URLPATH_KEEP_SLASH; what is between two slashes of whichever kind is then still no "." or ".." and not empty, and
 * no ".." follows it.
 *
 * Fewer servers go further: they decode a second time, or compare names after folding every character that Unicode calls a form
 * of an ASCII one (NFKC, no letter case, a dotless i). urlpath_folded() is that reading. Ordinary paths in other scripts have none
 * of it. What forbids must be asked about it too; what allows need not list it, or a path that was seen could not be named.
 */
#ifndef CODEC_URLPATH_H
#define CODEC_URLPATH_H

#include "base/buf.h"
#include "codec/slice.h"

#define URLPATH_MAX (32u << 10)

enum urlpath_flags { URLPATH_KEEP_SLASH = 1 };

struct urlpath {
	size_t path_len; /* of the output; the query, if any, begins behind it with its "?" */
	bool has_query;
	bool slash; /* urlpath_slashed() is another path */
};

/* Writes the canonical target to out, which is cleared first. -EINVAL with the reason, -ENOMEM. */
int urlpath_canon(const char *target, size_t len, unsigned flags, struct buf *out, struct urlpath *ret,
		  struct err *e) MUST_CHECK;

struct slice urlpath_path(const struct buf *out, const struct urlpath *p);
struct slice urlpath_query(const struct buf *out, const struct urlpath *p); /* without its "?" */

/* The path with each encoded character of 0x21..0x7e but "%" as itself, also one in full width; %2F and what looks like it
 * as "/", and so what looks like a dot, a space or a semicolon. Cleared first. 0 or -ENOMEM. */
int urlpath_slashed(struct slice path, struct buf *out) MUST_CHECK;

/* As that, with whatever is encoded twice decoded twice, and each character of asciifold.h as what it folds to. Cleared first. 1, 0 when
 * nothing but letter case makes it another path than urlpath_slashed(), -ENOMEM. */
int urlpath_folded(struct slice path, struct buf *out) MUST_CHECK;

#endif
