/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "egress/account/egress_fold.h"
#include "tap.h"

#include <stdio.h>

static struct fold f;
static uint64_t count;

static bool due(enum egress_fold_kind kind, const char *what, uint64_t sec)
{
	return egress_fold_is_due(&f, kind, what, strlen(what), 443, sec * NSEC_PER_SEC, &count);
}

static bool top_is(enum egress_fold_kind kind, const char *want)
{
	autobuf struct buf b = BUF_INIT;

	top_format(&f.top[kind], &b);
	f.top[kind] = (struct top){ 0 };
	return strcmp(buf_cstr(&b), want) == 0;
}

static bool has_top(enum egress_fold_kind kind, const char *text)
{
	autobuf struct buf b = BUF_INIT;

	top_format(&f.top[kind], &b);
	return strstr(buf_cstr(&b), text) != NULL;
}

/* A frequent event without a line is named in the sum. */
static void test_top(void)
{
	static const char request[] = "POST a.test/x\nwhy";
	uint64_t again;
	char name[32];

	f = (struct fold){ 0 };
	for (int i = 0; i < 30; i++)
		due(FOLD_OPEN, "often.test", 300);
	due(FOLD_OPEN, "once.test", 300);
	CHECKF(egress_fold_flush(&f, FOLD_OPEN, 311 * NSEC_PER_SEC, false, &again) == 29 && again == 29 &&
		       top_is(FOLD_OPEN, "29 often.test:443"),
	       "a sum names events that were counted, not those with a line");
	for (int i = 0; i < 3; i++)
		egress_fold_is_due(&f, FOLD_REQUEST, request, strlen(request), 0, 400 * NSEC_PER_SEC, &count);
	CHECK(egress_fold_flush(&f, FOLD_REQUEST, 401 * NSEC_PER_SEC, true, &again) == 2);
	CHECKF(top_is(FOLD_REQUEST, "2 POST a.test/x"), "a name in a sum ends where the line ends");
	for (int i = 0; i < FOLD_BURST + 3000; i++) {
		snprintf(name, sizeof(name), "n%d.test", i);
		due(FOLD_DNS_DENY, i % 3 ? name : "third.test", 500);
	}
	(void)!egress_fold_flush(&f, FOLD_DNS_DENY, 511 * NSEC_PER_SEC, false, &again);
	CHECKF(has_top(FOLD_DNS_DENY, "third.test"),
	       "a name with more than a ninth of a flood is in its sum, among any number of names");
	egress_fold_note(&f, FOLD_DNS_ALLOW, "a.test", 6, 1, 600 * NSEC_PER_SEC);
	CHECKF(!egress_fold_is_due(&f, FOLD_DNS_ALLOW, "a.test", 6, 1, 601 * NSEC_PER_SEC, &count),
	       "an event whose line is written elsewhere is not due");
}

int main(void)
{
	unsigned written = 0;
	uint64_t told, again;
	char name[32];

	CHECKF(due(FOLD_OPEN, "a.test", 100) && count == 0, "the first event of a name is written");
	CHECK(!due(FOLD_OPEN, "a.test", 101) && !due(FOLD_OPEN, "a.test", 109));
	CHECKF(due(FOLD_DNS_DENY, "a.test", 101), "a name is written again for a different kind of event");
	CHECKF(due(FOLD_OPEN, "a.test", 110) && count == 2,
	       "after ten seconds a repetition is written with the number of those between");
	CHECK(!due(FOLD_OPEN, "a.test", 111));
	CHECKF(egress_fold_flush(&f, FOLD_OPEN, 112 * NSEC_PER_SEC, false, &again) == 0,
	       "an event that is still being counted is not flushed");
	CHECKF(egress_fold_flush(&f, FOLD_OPEN, 121 * NSEC_PER_SEC, false, &again) == 1,
	       "an event that was not repeated is flushed");
	CHECK(egress_fold_flush(&f, FOLD_OPEN, 122 * NSEC_PER_SEC, false, &again) == 0 &&
	      egress_fold_flush(&f, FOLD_DNS_DENY, 122 * NSEC_PER_SEC, false, &again) == 0);
	for (int i = 0; i < 100000; i++) {
		snprintf(name, sizeof(name), "n%d.test", i);
		written += due(FOLD_DNS_DENY, name, 200);
	}
	CHECKF(written == FOLD_BURST, "of 100 000 different events FOLD_BURST are written");
	CHECKF(egress_fold_flush(&f, FOLD_DNS_DENY, 201 * NSEC_PER_SEC, false, &again) ==
			       100000 - FOLD_BURST &&
		       again == 0,
	       "events after the burst are counted");
	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "m%d.test", i);
		written += due(FOLD_DNS_DENY, name, 202);
	}
	CHECKF(written == FOLD_BURST + 2 * FOLD_RATE, "after the burst FOLD_RATE lines a second are written");
	CHECKF(egress_fold_flush(&f, FOLD_DNS_DENY, 210 * NSEC_PER_SEC, false, &again) == 0,
	       "sums are flushed only every ten seconds");
	told = egress_fold_flush(&f, FOLD_DNS_DENY, 211 * NSEC_PER_SEC, false, &again) +
	       2 * (uint64_t)FOLD_RATE;
	CHECKF(told == 1000, "no event is lost from the counts");
	CHECKF(due(FOLD_ALERT, "odd.test", 203), "a flood of one kind does not hide another kind");
	CHECK(!due(FOLD_ALERT, "odd.test", 204) &&
	      egress_fold_flush(&f, FOLD_ALERT, 204 * NSEC_PER_SEC, false, &again) == 0);
	CHECKF(egress_fold_flush(&f, FOLD_ALERT, 204 * NSEC_PER_SEC, true, &again) == 1,
	       "at the end all sums are flushed");
	CHECKF(again == 1, "the counted alert is marked as a repetition");
	CHECK(egress_fold_flush(&f, FOLD_ALERT, 204 * NSEC_PER_SEC, true, &again) == 0);
	test_top();
	return tap_done();
}
