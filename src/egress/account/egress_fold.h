/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Repeated events are written once and then counted: refusals, and repeated lookups, of which a sandbox can
 * cause any number. Things that pass for the first time belong to ledger.h, not here. The caller passes the
 * time.
 *
 * Invariants
 *  O1  The first of its kind is written unless O3 forbids it. The number of those without a line is always
 *      written: on the next line of its kind, or by egress_fold_flush() on a line of its own.
 *  O2  Memory is FOLD_SLOTS slots, whatever comes. Events that hash to one slot push each other out.
 *  O3  Each kind may write FOLD_BURST lines at once and FOLD_RATE a second; beyond that only the number is
 *      kept, and the most frequent texts (base/top.h). So a flood of names that do not exist cannot hide an
 *      alert.
 *  O4  The numbers of a kind are reported at most every FOLD_SECONDS.
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

enum egress_fold_kind {
	FOLD_OPEN,
	FOLD_DNS_ALLOW,
	FOLD_DNS_DENY,
	FOLD_DNS_ERROR, /* allowed, but the lookup failed: not a denial */
	FOLD_ALERT,
	FOLD_REQUEST,
	FOLD_KIND_COUNT
};

struct egress_fold_slot {
	uint64_t key;
	uint64_t since; /* ns; when its last line was written */
	uint32_t count; /* since then */
};

struct egress_fold_bucket {
	uint64_t tokens, filled;
};

struct fold {
	struct egress_fold_slot slots[FOLD_SLOTS];
	char text[FOLD_SLOTS][TOP_TEXT_MAX + 1]; /* of each slot, for `top` */
	struct egress_fold_bucket buckets[FOLD_KIND_COUNT];
	uint64_t untold[FOLD_KIND_COUNT]; /* O3: events without a line */
	uint64_t pushed[FOLD_KIND_COUNT]; /* O2: counts of slots that were pushed out */
	uint64_t told[FOLD_KIND_COUNT];	  /* O4: when the numbers were last reported */
	struct top top
		[FOLD_KIND_COUNT]; /* of events without a line; not of FOLD_DNS_ALLOW, whose names all have one */
};

/*
 * Must a line be written now? *ret_count: how many equal events it also represents. `what` is for people up
 * to its first newline; `more`, unless 0, is the port of a FOLD_OPEN.
 */
bool egress_fold_is_due(struct fold *f, enum egress_fold_kind kind, const char *what, size_t len,
			uint32_t more, uint64_t now_ns, uint64_t *ret_count);

/* Records that the event has a line already. */
void egress_fold_note(struct fold *f, enum egress_fold_kind kind, const char *what, size_t len, uint32_t more,
		      uint64_t now_ns);

/*
 * Returns and clears the number of events of a kind that were never reported. *ret_again: how many of these
 * equal one that has a line. To be called once a second; returns 0 until O4 permits more. `all`: at the end
 * of the process, also counts whose line may still come. The caller reports and clears top[kind].
 */
uint64_t egress_fold_flush(struct fold *f, enum egress_fold_kind kind, uint64_t now_ns, bool all,
			   uint64_t *ret_again);

#endif
