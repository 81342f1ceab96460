/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything that this sandbox did for the first time: each has a journal line of its own, always. A request
 * that needs more lines than the log has room for waits: traffic gives way to the log, not the log to traffic
 * (doc/adr/0030). The caller supplies the clock.
 *
 * Invariants
 *  L1  A key is taken with ledger_take() in the same callback that writes its line, marked `first`. If a
 *      commit fails, ledger_forget() makes all keys new again. So a known key has a line.
 *  L2  A new key costs tokens: LEDGER_BURST at once, LEDGER_RATE a second. Without one it waits, in order, at
 *      most LEDGER_WAIT, and is then denied. A known key never waits.
 *  L3  The lines of new keys may use LEDGER_BYTES in all, over restarts of this process. Beyond that a new
 *      key is denied, and the operator gets one alert.
 *  L4  Memory is that of seen.h and of the waiting entries, which their owners bound.
 *
 *	key = seen_key(&l->seen);		after seen_begin(), seen_add()
 *	switch (ledger_check(l, key, 1))	KNOWN: go; FIRST: ledger_take(), write the line, go; LATER: ledger_wait()
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
#define LEDGER_COUNTER 0x6c6564676572ULL /* egress_names_counter() */

#define LEDGER_WHY_LATE \
	"there are too many new destinations at once: the log of this sandbox accepts 100 new entries a second"
#define LEDGER_WHY_FULL "the log of this run is full: only destinations used before are still allowed"

enum ledger_kind { LEDGER_DNS = 1, LEDGER_OPEN, LEDGER_REQUEST, LEDGER_SECRET, LEDGER_ISSUED, LEDGER_DIAL };

enum ledger_verdict { LEDGER_KNOWN, LEDGER_FIRST, LEDGER_LATER, LEDGER_DENY };

/* Embedded in its owner's struct; all zero: it never waited. */
struct ledger_wait {
	void (*fn)(struct ledger_wait *w, int status); /* 0: call ledger_check() again; -ETIMEDOUT: deny */
	uint64_t until;				       /* the deadline; kept when it waits again */
	unsigned lines;				       /* number of lines that it needs tokens for */
	bool waits;
	TAILQ_ENTRY(ledger_wait) list;
};
TAILQ_HEAD(ledger_waits, ledger_wait);

struct ledger {
	struct seen seen;
	struct loop *loop;
	const uint64_t *now;
	uint64_t *used, max; /* L3 */
	uint64_t own_used;   /* while there is no persistent counter */
	uint64_t wait;	     /* LEDGER_WAIT; tests set their own */
	uint64_t credit, at; /* time (ns) that tokens are bought with, and when it was last updated */
	struct ledger_waits waits;
	unsigned n_waits;
	struct timer turn;
	uint64_t waited, late, full; /* for CTL_STATS */
	bool told;		     /* the alert that it is full was sent */
	bool is_turn;		     /* the current caller of ledger_check() has waited */
};

int ledger_init(struct ledger *l, struct loop *loop, const uint64_t *now, struct err *e) MUST_CHECK;
void ledger_release(struct ledger *l);
void ledger_forget(struct ledger *l); /* L1 */

/* May the key pass, with `lines` journal lines in all? Takes nothing. A key of 0 is denied. */
enum ledger_verdict ledger_check(struct ledger *l, uint64_t key, unsigned lines);
/* ledger_check() has just returned LEDGER_FIRST, and the key's line is being written. */
void ledger_take(struct ledger *l, uint64_t key, unsigned lines);
/* For a key that belongs to one already paid for: known, first (and taken), or denied; never later. */
enum ledger_verdict ledger_note(struct ledger *l, uint64_t key);
/* A line with `first` has this many bytes. */
void ledger_charge(struct ledger *l, size_t bytes);

/* Calls fn() later, once: at the deadline, or when there are tokens for `lines` lines. */
void ledger_wait(struct ledger *l, struct ledger_wait *w, unsigned lines);
void ledger_unwait(struct ledger *l, struct ledger_wait *w);

#endif
