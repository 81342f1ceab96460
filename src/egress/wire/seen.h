/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A set of the keys met before, in bounded memory. Pure but for the random key of the hash.
 *
 * Invariants
 *  S1  A key that is not in the set is never reported as known, except by a collision of 64 bits of SipHash
 *      under a key that nobody outside this process knows: an attacker who floods it cannot search for one.
 *  S2  Two generations of at most SEEN_MAX keys: when the younger is full, the older is dropped. A dropped
 *      key counts as new when it comes again: that costs its owner a journal line and hides nothing.
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
	struct buf text; /* of the key under construction */
	/* The last key of each kind: repetitions of it need no hash. */
	struct seen_last {
		uint64_t key;
		size_t len;
		char text[SEEN_LAST_MAX];
	} last[SEEN_KINDS];
};

int seen_init(struct seen *s, struct err *e) MUST_CHECK; /* call before confinement */
void seen_release(struct seen *s);
void seen_forget(struct seen *s); /* all keys */

/*
 * A key is built part by part; each part counts with its length. `kind` < SEEN_KINDS separates keys that have
 * the same parts.
 */
void seen_begin(struct seen *s, unsigned char kind);
void seen_add(struct seen *s, const void *part, size_t len);
void seen_adds(struct seen *s, const char *part); /* NULL: an empty part */
/* The finished key; 0, which is never a valid key: out of memory. */
uint64_t seen_key(struct seen *s);

bool seen_has(struct seen *s, uint64_t key);
/* Reserves room for one seen_put(). -ENOMEM. */
int seen_reserve(struct seen *s) MUST_CHECK;
/* After seen_reserve(). */
void seen_put(struct seen *s, uint64_t key);

#endif
