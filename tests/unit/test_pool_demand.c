/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/pool/pool_demand.h"
#include "tap.h"

#define SEC 1000000000ULL

static void test_want(void)
{
	struct pool_demand d = { 0 };
	uint64_t now = 1000 * SEC;

	CHECKF(pool_want(&d, now) == 0, "no sandbox is kept before the first request");
	pool_note(&d, now);
	CHECKF(pool_want(&d, now) == 2, "a request in this second keeps two sandboxes");
	for (int i = 0; i < 9; i++)
		pool_note(&d, now + 1000);
	CHECKF(pool_want(&d, now) == 11, "ten requests in one second keep eleven sandboxes");
	CHECKF(pool_want(&d, now + 10 * SEC) == 6, "half the sandboxes are kept when half the time is over");
	CHECKF(pool_want(&d, now + 30 * SEC) == 1, "a single sandbox is kept while a request may come");
	CHECKF(pool_want(&d, now + (POOL_IDLE_SECONDS + 1) * SEC) == 0,
	       "no sandbox is kept when there is no demand");
	pool_note(&d, now + 30 * SEC);
	CHECKF(pool_want(&d, now + 30 * SEC) == 2, "a new request counts without the forgotten peak");
}

static void test_bounds(void)
{
	struct pool_demand d = { 0 };

	for (int i = 0; i < 100000; i++)
		pool_note(&d, 5 * SEC);
	CHECKF(pool_want(&d, 5 * SEC) == POOL_READY_MAX, "no more than POOL_READY_MAX sandboxes are kept");
	CHECKF(pool_may_add(0, 1ULL << 40, 1), "the first sandbox is made whatever its size");
	CHECKF(!pool_may_add(1, 100, 100), "a sandbox beyond the budget is not made");
	CHECKF(pool_may_add(50, 50, 100), "a sandbox that just fits the budget is made");
	CHECKF(!pool_may_add(UINT64_MAX, 1, UINT64_MAX), "an overflow of the budget is refused");
}

int main(void)
{
	test_want();
	test_bounds();
	return tap_done();
}
