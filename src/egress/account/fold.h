/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What comes again and again is written once and then counted: refusals, and repeated lookups, which a sandbox can make in any
 * number. What is let through for the first time is not for here but for ledger.h. Time is given.
 *
 * Invariants
 *  O1  The first of its kind is written while O3 lets it, and the number of those that were not always: on the next line
 *      of its kind, or by fold_flush() on a line of its own.
 *  O2  Memory is FOLD_SLOTS slots, whatever comes. Kinds that fall into one slot push each other out.
 *  O3  Each kind writes FOLD_BURST lines at once and FOLD_RATE a second; beyond that only the number is kept, and which
 *      were the most frequent (base/top.h). So nobody hides an alert behind many names that do not exist.
 *  O4  The numbers of a kind are told at most every FOLD_SECONDS.
 */
#ifndef EGRESS_FOLD_H
#define EGRESS_FOLD_H

#include "base/top.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FOLD_SLOTS 1024
#define FOLD_SECONDS 10
#define FOLD_BURST 1000
#define FOLD_RATE 50

enum fold_kind { FOLD_OPEN, FOLD_DNS_ALLOW, FOLD_DNS_DENY, FOLD_ALERT, FOLD_REQUEST, FOLD_KIND_COUNT };

struct fold_slot {
	uint64_t key;
	uint64_t since; /* ns; when its last line was written */
	uint32_t count; /* since then */
};

struct fold_bucket {
	uint64_t tokens, filled;
};

struct fold {
	struct fold_slot slots[FOLD_SLOTS];
	char text[FOLD_SLOTS][TOP_TEXT_MAX + 1]; /* of each slot, for `top` */
	struct fold_bucket buckets[FOLD_KIND_COUNT];
	uint64_t untold[FOLD_KIND_COUNT]; /* O3 */
	uint64_t pushed[FOLD_KIND_COUNT]; /* O2: what was pushed out */
	uint64_t told[FOLD_KIND_COUNT];	  /* O4: when */
	struct top
		top[FOLD_KIND_COUNT]; /* of what has no line; not of FOLD_DNS_ALLOW, whose names have one */
};

/*
 * Shall a line be written now? *ret_count: how many of the same it also stands for. `what` is for people up to its first newline;
 * `more`, unless 0, is a port there with FOLD_OPEN.
 */
bool fold_is_due(struct fold *f, enum fold_kind kind, const char *what, size_t len, uint32_t more,
		 uint64_t now_ns, uint64_t *ret_count);

/* It has a line already. */
void fold_note(struct fold *f, enum fold_kind kind, const char *what, size_t len, uint32_t more,
	       uint64_t now_ns);

/* How many of a kind were never told; 0 afterwards. *ret_again: so many of these are like one that has a line. To be asked once
 * a second, and says 0 until O4 lets it; `all`: at the end, also those whose line may still come. top[kind] is its caller's to
 * tell and to clear. */
uint64_t fold_flush(struct fold *f, enum fold_kind kind, uint64_t now_ns, bool all, uint64_t *ret_again);

#endif
