/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "egress/fold.h"
#include "tap.h"

#include <stdio.h>

static struct fold f;
static uint64_t count;

static bool due(enum fold_kind kind, const char *what, uint64_t sec)
{
	return fold_is_due(&f, kind, what, strlen(what), 443, sec * NSEC_PER_SEC, &count);
}

int main(void)
{
	unsigned written = 0;
	uint64_t told, again;
	char name[32];

	CHECKF(due(FOLD_OPEN, "a.test", 100) && count == 0, "the first is written");
	CHECK(!due(FOLD_OPEN, "a.test", 101) && !due(FOLD_OPEN, "a.test", 109));
	CHECKF(due(FOLD_DNS_DENY, "a.test", 101), "another kind of the same name too");
	CHECKF(due(FOLD_OPEN, "a.test", 110) && count == 2,
	       "after ten seconds again, with the number of those between");
	CHECK(!due(FOLD_OPEN, "a.test", 111));
	CHECKF(fold_flush(&f, FOLD_OPEN, 112 * NSEC_PER_SEC, false, &again) == 0,
	       "what is still being counted is not told yet");
	CHECKF(fold_flush(&f, FOLD_OPEN, 121 * NSEC_PER_SEC, false, &again) == 1,
	       "what was not written again is told by the flush");
	CHECK(fold_flush(&f, FOLD_OPEN, 122 * NSEC_PER_SEC, false, &again) == 0 &&
	      fold_flush(&f, FOLD_DNS_DENY, 122 * NSEC_PER_SEC, false, &again) == 0);
	for (int i = 0; i < 100000; i++) {
		snprintf(name, sizeof(name), "n%d.test", i);
		written += due(FOLD_DNS_DENY, name, 200);
	}
	CHECKF(written == FOLD_BURST, "of 100 000 different ones a burst is written");
	CHECKF(fold_flush(&f, FOLD_DNS_DENY, 201 * NSEC_PER_SEC, false, &again) == 100000 - FOLD_BURST &&
		       again == 0,
	       "and the others are counted");
	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "m%d.test", i);
		written += due(FOLD_DNS_DENY, name, 202);
	}
	CHECKF(written == FOLD_BURST + 2 * FOLD_RATE, "afterwards so many a second");
	told = fold_flush(&f, FOLD_DNS_DENY, 203 * NSEC_PER_SEC, false, &again) + 2 * (uint64_t)FOLD_RATE;
	CHECKF(told == 1000, "and none is lost");
	CHECKF(due(FOLD_ALERT, "odd.test", 203), "what floods one kind does not hide another");
	CHECK(!due(FOLD_ALERT, "odd.test", 204) &&
	      fold_flush(&f, FOLD_ALERT, 204 * NSEC_PER_SEC, false, &again) == 0);
	CHECKF(fold_flush(&f, FOLD_ALERT, 204 * NSEC_PER_SEC, true, &again) == 1,
	       "at the end everything is told");
	CHECKF(again == 1, "and that it was like one that has a line");
	CHECK(fold_flush(&f, FOLD_ALERT, 204 * NSEC_PER_SEC, true, &again) == 0);
	return tap_done();
}
