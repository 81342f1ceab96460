/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many sandboxes of one template to keep ready. Pure: times go in, numbers come out.
 *
 * Recent demand predicts the next: the busiest second counts in full at first and fades with time, plus one.
 * A template without a request for POOL_IDLE_SECONDS needs none.
 */
#ifndef DAEMON_POOL_DEMAND_H
#define DAEMON_POOL_DEMAND_H

#include <stdbool.h>
#include <stdint.h>

#define POOL_IDLE_SECONDS 60
#define POOL_READY_MAX 64

struct pool_demand {
	uint64_t second;  /* the second being counted, in CLOCK_MONOTONIC seconds */
	unsigned count;	  /* requests in it */
	unsigned peak;	  /* requests in the busiest second */
	uint64_t peak_at; /* that second */
	uint64_t last;	  /* ns of the last request */
};

void pool_note(struct pool_demand *d, uint64_t now_ns);

/* The number of sandboxes to have ready now. */
unsigned pool_want(const struct pool_demand *d, uint64_t now_ns);

/* May another sandbox of `each` bytes be made while `held` bytes are in use? The first always may. */
bool pool_may_add(uint64_t held, uint64_t each, uint64_t budget);

#endif
