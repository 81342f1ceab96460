/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking for many byte strings in a stream at once and writing something else of the same length in their place: what a
 * server's answer has of a secret that its request carried. Pure, no I/O.
 *
 * A set is made once for a request; each stream (a body, a field) has a flow through it.
 *
 * Invariants
 *  R1  Lengths stay as they are: no framing has to change.
 *  R2  What comes out does not depend on how the stream was cut into pieces, but for the first scrub_lead() bytes of an occurrence:
 *      these may be gone before it is one.
 *  R3  Whatever byte is part of an occurrence is written over, where occurrences overlap too: the first one by its `put`,
 *      what a later one has beyond it by '*'. Line breaks within a loose one stay. %XX is %XX again and \u00XX is \u00XX; any
 *      other escape is '*'.
 *  R4  Only bytes that may be within an occurrence are held back, fewer than the longest one and none of the first
 *      scrub_lead(), nor line breaks right behind these: a message that happens to end as a secret begins is not kept until
 *      the next one comes.
 *  R5  What a set and a flow hold of the strings is zeroed when they are released; so is what the buffer behind a flow was
 *      given too much of.
 */
#ifndef EGRESS_SCRUB_H
#define EGRESS_SCRUB_H

#include "base/buf.h"
#include "codec/slice.h"

#include <stdbool.h>
#include <stdint.h>

#define SCRUB_MIN 4 /* bytes: shorter strings would be found everywhere, and are left out */
#define SCRUB_HASH 4096
#define SCRUB_INNER \
	64 /* a tag for scrub_seek(): these count only where they are not within an occurrence of another */

struct scrub_pattern {
	uint32_t find, put; /* in text; put UINT32_MAX: '*' */
	uint32_t len;
	uint16_t next; /* of the same place in the table, + 1 */
	uint8_t tag;
};

/* In what other ways a string may stand there. */
enum scrub_kind {
	SCRUB_ESCAPED, /* any of its bytes escaped by itself: %XX, as JSON does, as HTML does (scrub_escape.h) */
	SCRUB_LINES, /* base64 in lines: between any two of its characters a break, raw or as JSON has it (\n), and blanks */
	SCRUB_KIND_COUNT
};

#define SCRUB_BREAK_MAX 8     /* bytes */
#define SCRUB_LOOSE_MAX 8192u /* bytes: longer strings are looked for as they are only */

struct scrub_loose {
	uint32_t find, put, len;
	uint8_t kind, tag;
};

struct scrub_joint {
	uint32_t loose, k; /* of its bytes k - 1 and k */
	uint32_t next;	   /* + 1 */
};

struct scrub_set {
	struct buf text; /* wiped */
	struct scrub_pattern *v;
	uint32_t n, cap;
	uint32_t min, max; /* lengths */
	struct scrub_loose *loose;
	uint32_t n_loose;
	uint32_t reach; /* the longest occurrence */
	uint8_t tag;	/* of strings that are added from now on; below 64, or SCRUB_INNER */
	uint8_t shift[SCRUB_HASH];
	uint16_t first[SCRUB_HASH]; /* of those whose shift is 0, + 1 */
	uint64_t begins[4];	    /* bytes that a string begins with */
	struct scrub_joint *joints; /* two bytes that stand together in a loose one */
	uint32_t n_joints, cap_joints;
	uint32_t joint[SCRUB_HASH]; /* + 1 */
	uint64_t escaped_begins[4];
	bool has_lines;
	bool has_anchors;    /* of these strings one has %, &, a line break or a backslash */
	bool has_slash;	     /* one of SCRUB_ESCAPED has a slash, which JSON may escape */
	bool has_short;	     /* or another byte for which JSON has an escape of two */
	char letters[4];     /* with which HTML's names for one of their bytes begin */
	size_t n_letters;    /* one more than there is room for: with any */
	uint64_t escaped[4]; /* bytes of the strings of SCRUB_ESCAPED */
};

/* put: NULL, or as long as find. What is too short or there already is left out. */
int scrub_set_add(struct scrub_set *s, struct slice find, const char *put) MUST_CHECK;
/* As it is, and in other ways too. SCRUB_LINES: it is base64. */
int scrub_set_add_loose(struct scrub_set *s, struct slice find, const char *put,
			enum scrub_kind kind) MUST_CHECK;
/* When all are there. */
void scrub_set_ready(struct scrub_set *s);
void scrub_set_release(struct scrub_set *s);

/* Three bytes, or an eighth of the shortest string. */
static inline size_t scrub_lead(const struct scrub_set *s)
{
	return s->min / 8 < 3 ? s->min / 8 : 3;
}

struct scrub {
	const struct scrub_set *set;
	struct buf in, out; /* what is held back: as it came, and as it will go */
	size_t cover;	    /* so much of it is written over already */
	size_t gone;	    /* so much of it was given out already */
	uint64_t found;
	bool inner; /* one of SCRUB_INNER has occurred by itself */
};

/* Adds to `to` what can be said of the stream so far. `last`: it ends here. -ENOMEM. */
int scrub_feed(struct scrub *s, const void *data, size_t len, bool last, struct buf *to) MUST_CHECK;
/* Only looks: whose strings have occurred, by their tags. Not to be mixed with scrub_feed(). -ENOMEM. */
int scrub_seek(struct scrub *s, const void *data, size_t len, bool last, uint64_t *tags) MUST_CHECK;
static inline size_t scrub_held(const struct scrub *s)
{
	return s->in.len - s->gone;
}
void scrub_release(struct scrub *s);

/* All at once: `data` itself is written over. Number of occurrences, or -ENOMEM. */
long scrub_whole(const struct scrub_set *set, char *data, size_t len) MUST_CHECK;

#endif
