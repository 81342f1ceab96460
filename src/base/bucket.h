/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A token bucket: `burst` events at once, then `rate` a second. Pure: the caller gives the time, in nanoseconds of a clock that
 * may stand still or go back; no tokens come of either, and none are taken.
 */
#ifndef BASE_BUCKET_H
#define BASE_BUCKET_H

#include <stdbool.h>
#include <stdint.h>

struct bucket {
	uint64_t burst, rate; /* events; events a second */
	uint64_t left;	      /* ns of credit: an event costs 1 s / rate */
	uint64_t at;
};

static inline struct bucket bucket_new(uint64_t burst, uint64_t rate, uint64_t now)
{
	return (struct bucket){ burst, rate, burst * (1000000000ULL / rate), now };
}

static inline bool bucket_has(struct bucket *b, uint64_t now)
{
	const uint64_t cost = 1000000000ULL / b->rate, most = b->burst * cost;
	uint64_t gained = now > b->at ? now - b->at : 0;

	b->left = gained > most - b->left ? most : b->left + gained;
	b->at = now > b->at ? now : b->at;
	return b->left >= cost;
}

static inline bool bucket_take(struct bucket *b, uint64_t now)
{
	if (!bucket_has(b, now))
		return false;
	b->left -= 1000000000ULL / b->rate;
	return true;
}

#endif
