/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rates proxies and chooses the next one of a set. Pure: the caller passes the time and the dice, so that a
 * test can replay a whole day.
 *
 * Invariants
 *  S1  score = success x latency factor, both in 0..1. Success is an average over outcomes in which the last
 *      ones weigh most; without news it returns towards 1, since nothing is remembered for ever. Latency is a
 *      peak average: a slower result counts at once, a faster one decays in.
 *  S2  Only the proxy's own faults are passed to score_fault(): the server's behaviour is not the proxy's
 *      fault.
 *  S3  A member is closed (in use), open (ejected until a time), or half open: its time is over and exactly
 *      one probe is running. The probe's outcome closes it or ejects it for longer.
 *  S4  At most 1/SCORE_EJECT_SHARE of the members are ejected: of the others the best is taken, however bad.
 *      So there is always one to take, and a proxy set never becomes a reason to do without.
 */
#ifndef DIAL_PROXY_SCORE_H
#define DIAL_PROXY_SCORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SCORE_EJECT_SHARE 2		  /* one half: members / SCORE_EJECT_SHARE, rounded down */
#define SCORE_EJECT_FIRST_NS 10000000000u /* 10 s, doubled with every repeat */
#define SCORE_EJECT_LAST_NS 900000000000u /* 15 min */
#define SCORE_FORGET_NS 600000000000u	  /* 10 min without an ejection cancel one repeat */
#define SCORE_NONE SIZE_MAX

enum score_state { SCORE_CLOSED, SCORE_OPEN, SCORE_HALF_OPEN, SCORE_STATE_COUNT };

struct score {
	enum score_state state;
	double success;	   /* as of `at` */
	double latency_ns; /* as of `latency_at`; 0 until the first */
	uint64_t at, latency_at;
	uint64_t until;	     /* SCORE_OPEN */
	uint64_t ejected_at; /* the last time */
	unsigned repeats;    /* ejections that are not yet forgotten */
	unsigned in_row;     /* consecutive faults */
	/* For statistics. */
	uint64_t uses, successes, faults;
};

#define SCORE_INIT ((struct score){ .success = 1 })

/* The dice: any number, uniformly distributed. */
typedef uint32_t (*score_dice)(void *ctx);

double score_value(const struct score *s, uint64_t now);
double score_success(const struct score *s, uint64_t now);

/* Is its time over, and is no probe running yet? (Its state is still SCORE_OPEN then.) */
bool score_wants_probe(const struct score *s, uint64_t now);

/*
 * Chooses the next member: a member whose time is over gets its one probe, else the better of two random
 * picks among the closed ones. `skip` (a bit for each member, NULL: none) are those that this request has
 * tried. SCORE_NONE when none is left.
 */
size_t score_pick(struct score *s, size_t n, const uint64_t *skip, uint64_t now, score_dice dice, void *ctx);

/*
 * A use began that score_pick() did not choose: a sticky one. score_probe(): an active check, which is not a
 * use.
 */
void score_begin(struct score *s, uint64_t now);
void score_probe(struct score *s, uint64_t now);

/*
 * Records an outcome. A use that ended without a fault of the proxy (cancelled, the server's doing) is
 * score_neutral().
 */
void score_success_of(struct score *s, size_t n, size_t i, uint64_t latency_ns, uint64_t now);
void score_fault(struct score *s, size_t n, size_t i, uint64_t now);
void score_neutral(struct score *s, size_t i, uint64_t now, bool it_answered);

const char *score_state_name(enum score_state st);

#endif
