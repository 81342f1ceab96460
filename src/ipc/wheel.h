/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Coarse deadlines for very many objects: arming, moving and disarming take constant time. Pure; the caller passes the time.
 * One tick is a second. A deadline fires up to one tick late, never early.
 *
 * An owner whose deadline moves with every byte does not re-arm it for each: when the entry fires, the owner checks its own
 * clock and arms it again.
 */
#ifndef IPC_WHEEL_H
#define IPC_WHEEL_H

#include <stdbool.h>
#include <stdint.h>

#define WHEEL_SLOTS 256
#define WHEEL_TICK 1000000000ULL /* ns */

struct wheel_entry {
	void (*fn)(struct wheel_entry *t); /* called after the entry was disarmed */
	uint64_t at;			   /* in ticks */
	struct wheel_entry *next, **link;  /* link is NULL while disarmed */
};

struct wheel {
	struct wheel_entry *slots[WHEEL_SLOTS];
	uint64_t tick; /* the last one that was handled */
	unsigned n;
};

void wheel_init(struct wheel *w, uint64_t now_ns);
void wheel_arm(struct wheel *w, struct wheel_entry *t, uint64_t at_ns); /* or moves */
void wheel_disarm(struct wheel *w, struct wheel_entry *t);

/* Calls fn of all entries that are due. A callback may arm or disarm any entry. */
void wheel_advance(struct wheel *w, uint64_t now_ns);

#endif
