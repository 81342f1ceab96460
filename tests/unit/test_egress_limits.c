/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "egress/account/egress_limits.h"
#include "tap.h"

#include <errno.h>
#include <stdio.h>

static struct egress_names names;
static struct limits l;

static struct limit *rule(const char *text, struct policy_limits max)
{
	struct policy_verdict v = { 0 };
	struct limit *ret = NULL;

	v.terms.limits = max;
	snprintf(v.rule_text, sizeof(v.rule_text), "%s", text);
	CHECK(limits_of(&l, &v, &ret) == 0);
	return ret;
}

static void begin(void)
{
	const struct addr_range r = { .base = addr_from_v4(11u << 24), .bits = 104 };

	CHECK(egress_names_open(&names, -1, &r, 1, NULL) == 0 && limits_init(&l, &names, NULL) == 0);
}

static void end(void)
{
	limits_release(&l);
	egress_names_close(&names);
}

static void test_up(void)
{
	struct limit *a, *b;

	begin();
	a = rule("allow a:443 (x:1)", (struct policy_limits){ .bytes_up = 1000 });
	b = rule("allow b:443 (x:2)", (struct policy_limits){ .bytes_up = 5000 });
	l.all.max.bytes_up = 3000;
	CHECK(limits_take(&l, a, LIMIT_UP, 600, 1) == 600);
	CHECKF(limits_take(&l, a, LIMIT_UP, 600, 1) == 400, "a transfer ends at the limit of its rule");
	CHECK(limits_take(&l, a, LIMIT_UP, 1, 1) == -EDQUOT);
	limits_return(&l, a, LIMIT_UP, 100);
	CHECKF(limits_take(&l, a, LIMIT_UP, 600, 1) == 100, "bytes that were returned can be used again");
	CHECKF(limits_take(&l, b, LIMIT_UP, 9999, 1) == 2000,
	       "the sandbox's limit holds for all rules together");
	CHECK(limits_take(&l, b, LIMIT_UP, 1, 1) == -EDQUOT &&
	      limits_take(&l, NULL, LIMIT_UP, 1, 1) == -EDQUOT);
	CHECKF(limits_take(&l, b, LIMIT_DOWN, 1 << 20, 1) == 1 << 20, "bytes of the response do not count");
	limits_return(&l, rule("allow c:443 (x:3)", (struct policy_limits){ .bytes_up = 10 }), LIMIT_UP, 9);
	CHECKF(limits_take(&l, rule("allow c:443 (x:3)", (struct policy_limits){ .bytes_up = 10 }), LIMIT_UP,
			   20, 1) == 9,
	       "bytes that were returned without being taken do not close a rule");
	l.all.max.bytes_up = 4000;
	CHECKF(limits_charge_up(&l, b, 1001) == -EDQUOT && limits_charge_up(&l, b, 1000) == 0 &&
		       limits_charge_up(&l, b, 1) == -EDQUOT,
	       "a charge is all or nothing");
	CHECKF(rule("allow a:443 (y:77)", (struct policy_limits){ .bytes_up = 1000 }) == a,
	       "a rule that only moved within its file keeps its count");
	CHECKF(limits_take(&l, rule("allow a:443 (y:77)", (struct policy_limits){ .bytes_up = 1500 }),
			   LIMIT_UP, 999, 1) == -EDQUOT,
	       "the limit of the sandbox stays used up when a rule's grows");
	CHECK(!rule("allow c:443", (struct policy_limits){ 0 }));
	end();
}

static void test_bandwidth(void)
{
	struct limit *a;
	uint64_t now = 1000 * NSEC_PER_SEC, sent = 0;
	long n;

	begin();
	a = rule("allow a:443 (x:1)", (struct policy_limits){ .bandwidth = 100000 });
	for (int ms = 0; ms < 10000; ms += 7) {
		n = limits_take(&l, a, LIMIT_UP, 64 << 10, now + (uint64_t)ms * NSEC_PER_MSEC);
		sent += n > 0 ? (uint64_t)n : 0;
	}
	CHECKF(sent <= 1025000 && sent >= 1000000,
	       "ten seconds let through ten seconds' bytes and one bucket: %llu", (unsigned long long)sent);
	CHECKF(limits_take(&l, a, LIMIT_DOWN, 64 << 10, now + 9999 * NSEC_PER_MSEC) == 25000,
	       "each direction has a bucket of its own");
	CHECK(limits_take(&l, a, LIMIT_DOWN, 64 << 10, now + 9999 * NSEC_PER_MSEC) == 0);
	CHECKF(limits_take(&l, a, LIMIT_DOWN, 100, now + 10001 * NSEC_PER_MSEC) == 100,
	       "a small piece does not wait for a full bucket");
	end();
}

static void test_counts(void)
{
	struct limit *a;
	uint64_t now = 60 * NSEC_PER_SEC;

	begin();
	a = rule("allow a:443 (x:1)", (struct policy_limits){ .connections = 2, .requests_per_minute = 3 });
	l.all.max = (struct policy_limits){ .connections = 3, .requests_per_minute = 4 };
	CHECK(!limits_connect(&l, a) && !limits_connect(&l, a) && limits_connect(&l, a));
	CHECKF(!limits_connect(&l, NULL) && limits_connect(&l, NULL), "a refused connection is not counted");
	limits_disconnect(&l, a);
	CHECK(!limits_connect(&l, NULL) && limits_connect(&l, a));
	CHECK(!limits_request(&l, a, now) && !limits_request(&l, a, now) && !limits_request(&l, a, now));
	CHECK(limits_request(&l, a, now) && !limits_request(&l, NULL, now) && limits_request(&l, NULL, now));
	CHECKF(!limits_request(&l, a, 2 * now), "a new minute begins with a full budget");
	end();
}

static void test_many(void)
{
	char text[32];
	struct policy_verdict v = { .terms.limits.bytes_up = 1 };
	struct limit *ret = NULL;
	int n = 0;

	begin();
	for (; n < EGRESS_NAMES_COUNTERS + 5; n++) {
		snprintf(text, sizeof(text), "allow r%d:1", n);
		memcpy(v.rule_text, text, sizeof(text));
		if (limits_of(&l, &v, &ret) < 0)
			break;
	}
	CHECKF(n == LIMITS_MAX && limits_of(&l, &v, &ret) == -ENOSPC, "rules beyond LIMITS_MAX are an error");
	end();
}

int main(void)
{
	test_up();
	test_bandwidth();
	test_counts();
	test_many();
	return tap_done();
}
