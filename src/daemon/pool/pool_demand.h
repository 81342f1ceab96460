/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many sandboxes of one template are worth having ready. Pure: times come in, numbers go out.
 *
 * What was taken within a second lately says what will be: the busiest second counts at first whole and less with every
 * moment since, and there is one more than that. A template that nobody has asked for within POOL_IDLE is worth none.
 */
#ifndef DAEMON_POOL_DEMAND_H
#define DAEMON_POOL_DEMAND_H

#include <stdbool.h>
#include <stdint.h>

#define POOL_IDLE_SECONDS 60
#define POOL_READY_MAX 64

struct pool_demand {
	uint64_t second;  /* the second that is being counted, in CLOCK_MONOTONIC seconds */
	unsigned count;	  /* asked for in it */
	unsigned peak;	  /* in the busiest one */
	uint64_t peak_at; /* its second */
	uint64_t last;	  /* ns: asked for last */
};

void pool_note(struct pool_demand *d, uint64_t now_ns);

/* How many should stand ready now. */
unsigned pool_want(const struct pool_demand *d, uint64_t now_ns);

/* May one more that holds `each` bytes be made, where `held` are held already? The first always may. */
bool pool_may_add(uint64_t held, uint64_t each, uint64_t budget);

#endif
