/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this sandbox was let do for the first time: each has a line of its own, always, and what would need more lines than the
 * log has room for waits. Traffic yields, not the log (doc/adr/0030). Time is given.
 *
 * Invariants
 *  L1  A key is taken with ledger_take() in the same callback in which its line is written, marked `first`. If a commit fails,
 *      ledger_forget() makes all keys new. So a key that is known has a line.
 *  L2  A new key costs tokens: LEDGER_BURST at once, LEDGER_RATE a second. Without one it waits, in order, at most LEDGER_WAIT,
 *      and is denied then. What is known never waits.
 *  L3  The lines of new keys have LEDGER_BYTES in all, over restarts of this process. Past that a new key is denied, and the
 *      operator is told once.
 *  L4  Memory is that of seen.h and of whoever waits, who are bounded by their owners.
 *
 *	key = seen_key(&l->seen);		after seen_begin(), seen_add()
 *	switch (ledger_ask(l, key, 1))	KNOWN: go; FIRST: ledger_take(), write the line, go; LATER: ledger_wait()
 */
#ifndef EGRESS_LEDGER_H
#define EGRESS_LEDGER_H

#include "egress/wire/seen.h"
#include "ipc/loop.h"

#include <sys/queue.h>

#define LEDGER_BURST 4000u
#define LEDGER_RATE 100u
#define LEDGER_WAIT (10 * 1000000000ULL)
#define LEDGER_BYTES (1ULL << 30)
#define LEDGER_COUNTER 0x6c6564676572ULL /* names_counter() */

#define LEDGER_WHY_LATE \
	"it is new, and too much else was new before it: the log of this sandbox takes 100 new things a second"
#define LEDGER_WHY_FULL \
	"it is new, and the log of this run is full: what it did before is allowed, nothing new is"

enum ledger_kind { LEDGER_DNS = 1, LEDGER_OPEN, LEDGER_REQUEST, LEDGER_SECRET, LEDGER_ISSUED, LEDGER_DIAL };

enum ledger_answer { LEDGER_KNOWN, LEDGER_FIRST, LEDGER_LATER, LEDGER_DENY };

/* Lives in its owner's struct; zeroes: it never waited. */
struct ledger_wait {
	void (*fn)(struct ledger_wait *w, int status); /* 0: ask again; -ETIMEDOUT: deny */
	uint64_t until;				       /* kept when it waits again */
	unsigned lines;				       /* that it needs tokens for */
	bool waits;
	TAILQ_ENTRY(ledger_wait) list;
};
TAILQ_HEAD(ledger_waits, ledger_wait);

struct ledger {
	struct seen seen;
	struct loop *loop;
	const uint64_t *now;
	uint64_t *used, max; /* L3 */
	uint64_t own_used;   /* while there is no counter */
	uint64_t wait;	     /* LEDGER_WAIT; tests have their own */
	uint64_t credit, at; /* ns that tokens are made of, and when that was reckoned */
	struct ledger_waits waits;
	unsigned n_waits;
	struct timer turn;
	uint64_t waited, late, full; /* for CTL_STATS */
	bool told;		     /* that it is full */
	bool is_turn;		     /* who asks now has waited */
};

int ledger_init(struct ledger *l, struct loop *loop, const uint64_t *now, struct err *e) MUST_CHECK;
void ledger_release(struct ledger *l);
void ledger_forget(struct ledger *l); /* L1 */

/* Would it be let through, with `lines` lines more for its secrets? Takes nothing. A key of 0 is denied. */
enum ledger_answer ledger_ask(struct ledger *l, uint64_t key, unsigned lines);
/* It was LEDGER_FIRST just now, and its line is being written. */
void ledger_take(struct ledger *l, uint64_t key, unsigned lines);
/* For what belongs to a key that was paid for: known, first (and taken), or denied; never later. */
enum ledger_answer ledger_note(struct ledger *l, uint64_t key);
/* A line that says `first` has so many bytes. */
void ledger_charge(struct ledger *l, size_t bytes);

/* fn() is called later, once: when it is late, or there are tokens for so many lines. */
void ledger_wait(struct ledger *l, struct ledger_wait *w, unsigned lines);
void ledger_unwait(struct ledger *l, struct ledger_wait *w);

#endif
