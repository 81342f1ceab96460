/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys that were met before, in bounded memory. Pure but for the random key of the hash.
 *
 * Invariants
 *  S1  A key that is not in the set is never said to be, but for a collision of 64 bits of SipHash under a key that nobody
 *      outside this process knows: who floods cannot look for one.
 *  S2  Two generations of at most SEEN_MAX keys: when the younger is full, the older is dropped. A key that was dropped is
 *      new when it comes again, which costs its owner a line and hides nothing.
 */
#ifndef EGRESS_SEEN_H
#define EGRESS_SEEN_H

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

#define SEEN_MAX 32768u
#define SEEN_KINDS 8u
#define SEEN_LAST_MAX 512u

struct seen_set {
	uint64_t *slots; /* 0: free */
	uint32_t n, size;
};

struct seen {
	unsigned char secret[16];
	struct seen_set young, old;
	struct buf text; /* of the key that is being made */
	/* The last key of each kind: of those that come again and again nothing is hashed. */
	struct seen_last {
		uint64_t key;
		size_t len;
		char text[SEEN_LAST_MAX];
	} last[SEEN_KINDS];
};

int seen_init(struct seen *s, struct err *e) MUST_CHECK; /* before confinement */
void seen_release(struct seen *s);
void seen_forget(struct seen *s); /* all keys */

/* A key, part by part; each counts with its length. `kind`, below SEEN_KINDS, tells apart keys of the same parts. */
void seen_begin(struct seen *s, unsigned char kind);
void seen_add(struct seen *s, const void *part, size_t len);
void seen_adds(struct seen *s, const char *part); /* NULL: an empty one */
/* The key; 0: out of memory, which no key is. */
uint64_t seen_key(struct seen *s);

bool seen_has(struct seen *s, uint64_t key);
/* Makes sure that one more can be put. -ENOMEM. */
int seen_reserve(struct seen *s) MUST_CHECK;
/* After seen_reserve(). */
void seen_put(struct seen *s, uint64_t key);

#endif
