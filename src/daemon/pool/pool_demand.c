/* SPDX-License-Identifier: Apache-2.0 */
/* Predicts the demand for ready sandboxes (pool_demand.h). Pure. */
#include "daemon/pool/pool_demand.h"

#define NSEC 1000000000ULL
#define FADE_SECONDS 20 /* until a busy second counts for nothing */

/* The peak weighted by its age: a fraction less for each second since. */
static unsigned faded_peak(const struct pool_demand *d, uint64_t second)
{
	uint64_t age = second > d->peak_at ? second - d->peak_at : 0;

	return age >= FADE_SECONDS
		       ? 0
		       : (unsigned)((d->peak * (FADE_SECONDS - age) + FADE_SECONDS - 1) / FADE_SECONDS);
}

void pool_note(struct pool_demand *d, uint64_t now_ns)
{
	uint64_t second = now_ns / NSEC;

	if (second != d->second) {
		d->second = second;
		d->count = 0;
	}
	if (d->count < POOL_READY_MAX)
		d->count++;
	if (d->count >= faded_peak(d, second)) {
		d->peak = d->count;
		d->peak_at = second;
	}
	d->last = now_ns;
}

unsigned pool_want(const struct pool_demand *d, uint64_t now_ns)
{
	unsigned want;

	if (!d->last || (now_ns > d->last && now_ns - d->last > POOL_IDLE_SECONDS * NSEC))
		return 0;
	want = faded_peak(d, now_ns / NSEC) + 1;
	return want < POOL_READY_MAX ? want : POOL_READY_MAX;
}

bool pool_may_add(uint64_t held, uint64_t each, uint64_t budget)
{
	return held == 0 || (each <= budget && held <= budget - each);
}
