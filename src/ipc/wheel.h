/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Coarse deadlines for very many things: arming, moving and disarming cost the same however many there are. Pure; time is
 * given. One tick is a second, and what is due is told up to a tick late, never early.
 *
 * An owner whose deadline moves with every byte does not move it here: when it is told, it looks at its own clock and
 * arms again.
 */
#ifndef IPC_WHEEL_H
#define IPC_WHEEL_H

#include <stdbool.h>
#include <stdint.h>

#define WHEEL_SLOTS 256
#define WHEEL_TICK 1000000000ULL /* ns */

struct wheel_entry {
	void (*fn)(struct wheel_entry *t); /* it is disarmed when this is called */
	uint64_t at;			   /* tick */
	struct wheel_entry *next, **link;  /* link is NULL while disarmed */
};

struct wheel {
	struct wheel_entry *slots[WHEEL_SLOTS];
	uint64_t tick; /* the last one that was told */
	unsigned n;
};

void wheel_init(struct wheel *w, uint64_t now_ns);
void wheel_arm(struct wheel *w, struct wheel_entry *t, uint64_t at_ns); /* or moves */
void wheel_disarm(struct wheel *w, struct wheel_entry *t);

/* Tells all that are due. A callback may arm or disarm any. */
void wheel_advance(struct wheel *w, uint64_t now_ns);

#endif
