/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Searches a stream for many byte strings at once and overwrites them with others of the same length:
 * occurrences of a secret in the response to a request that carried it. Pure, no I/O.
 *
 * A set is made once per request; each stream (a body, a field) has a flow through it.
 *
 * Invariants
 *  R1  Lengths do not change: no framing has to change.
 *  R2  The output does not depend on how the stream was cut into pieces, except for the first scrub_lead()
 *      bytes of an occurrence: these may have been passed on before it is recognised.
 *  R3  Every byte that is part of an occurrence is overwritten, also where occurrences overlap: the first one
 *      by its `put`, the surplus of a later one by '*'. Line breaks within a loose one stay. %XX becomes %XX
 *      again and \u00XX becomes \u00XX; any other escape becomes '*'.
 *  R4  Only bytes that may be within an occurrence are held back, fewer than the longest one, and neither the
 *      first scrub_lead() bytes nor line breaks right after these: a message that happens to end as a secret
 *      begins is not delayed until the next one comes.
 *  R5  The strings in a set and a flow are zeroed when they are released; so are surplus bytes in the output
 *      buffer of a flow.
 */
#ifndef EGRESS_SCRUB_H
#define EGRESS_SCRUB_H

#include "base/buf.h"
#include "codec/slice.h"

#include <stdbool.h>
#include <stdint.h>

#define SCRUB_MIN 4 /* bytes: shorter strings would match everywhere, and are left out */
#define SCRUB_HASH 4096
#define SCRUB_INNER 64 /* a tag for scrub_seek(): these strings count only outside of occurrences of others */

struct scrub_pattern {
	uint32_t find, put; /* offsets in text; put UINT32_MAX: '*' */
	uint32_t len;
	uint16_t next; /* in the same slot of the table, + 1 */
	uint8_t tag;
};

/* Other notations in which a string may occur. */
enum scrub_kind {
	SCRUB_ESCAPED, /* any of its bytes escaped by itself: %XX, as in JSON, as in HTML (scrub_escape.h) */
	SCRUB_LINES, /* base64 in lines: between any two characters a line break, raw or as in JSON (\n), and blanks */
	SCRUB_KIND_COUNT
};

#define SCRUB_BREAK_MAX 8     /* bytes */
#define SCRUB_LOOSE_MAX 8192u /* bytes: longer strings are searched for in plain form only */

struct scrub_loose {
	uint32_t find, put, len;
	uint8_t kind, tag;
};

struct scrub_joint {
	uint32_t loose, k; /* between its bytes k - 1 and k */
	uint32_t next;	   /* + 1 */
};

struct scrub_set {
	struct buf text; /* zeroed */
	struct scrub_pattern *v;
	uint32_t n, cap;
	uint32_t min, max; /* lengths */
	struct scrub_loose *loose;
	uint32_t n_loose;
	uint32_t reach; /* length of the longest occurrence */
	uint8_t tag;	/* of strings added from now on; below 64, or SCRUB_INNER */
	uint8_t shift[SCRUB_HASH];
	uint16_t first[SCRUB_HASH]; /* of those whose shift is 0, + 1 */
	uint64_t begins[4];	    /* bytes that a string begins with */
	struct scrub_joint *joints; /* pairs of adjacent bytes of loose strings */
	uint32_t n_joints, cap_joints;
	uint32_t joint[SCRUB_HASH]; /* + 1 */
	uint64_t escaped_begins[4];
	bool has_lines;
	bool has_anchors;    /* one of these strings has %, &, a line break or a backslash */
	bool has_slash;	     /* one of SCRUB_ESCAPED has a slash, which JSON may escape */
	bool has_short;	     /* or another byte with a two-character escape in JSON */
	char letters[4];     /* first letters of HTML's names for their bytes */
	size_t n_letters;    /* one more than there is room for: any letter */
	uint64_t escaped[4]; /* bytes of the strings of SCRUB_ESCAPED */
};

/* put: NULL, or as long as find. A string that is too short or in the set already is left out. */
int scrub_set_add(struct scrub_set *s, struct slice find, const char *put) MUST_CHECK;
/* In plain form, and in the other notations. SCRUB_LINES: it is base64. */
int scrub_set_add_loose(struct scrub_set *s, struct slice find, const char *put,
			enum scrub_kind kind) MUST_CHECK;
/* Call after the last string was added. */
void scrub_set_ready(struct scrub_set *s);
void scrub_set_release(struct scrub_set *s);

/* Three bytes, or an eighth of the shortest string. */
static inline size_t scrub_lead(const struct scrub_set *s)
{
	return s->min / 8 < 3 ? s->min / 8 : 3;
}

struct scrub {
	const struct scrub_set *set;
	struct buf in, out; /* bytes held back: as received, and as they will be passed on */
	size_t cover;	    /* overwritten up to here */
	size_t gone;	    /* passed on up to here */
	uint64_t found;
	bool inner; /* a string of SCRUB_INNER has occurred by itself */
};

/* Adds the finished output to `to`. `last`: the stream ends here. -ENOMEM. */
int scrub_feed(struct scrub *s, const void *data, size_t len, bool last, struct buf *to) MUST_CHECK;
/* Only searches: sets the tags of the strings that occurred. Not to be mixed with scrub_feed(). -ENOMEM. */
int scrub_seek(struct scrub *s, const void *data, size_t len, bool last, uint64_t *tags) MUST_CHECK;
static inline size_t scrub_held(const struct scrub *s)
{
	return s->in.len - s->gone;
}
void scrub_release(struct scrub *s);

/* All at once: overwrites `data` itself. Number of occurrences, or -ENOMEM. */
long scrub_whole(const struct scrub_set *set, char *data, size_t len) MUST_CHECK;

#endif
