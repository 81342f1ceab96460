/* SPDX-License-Identifier: Apache-2.0 */
/* Replays on a fake clock: how proxies are scored, ejected, probed and taken. */
#include "dial/proxy/proxy_score.h"
#include "dial/proxy/proxy_sticky.h"
#include "tap.h"

#include <math.h>

#define MS 1000000ull
#define S (1000 * MS)
#define N 4

/* A known sequence, so that each run is the same. */
static uint32_t dice(void *ctx)
{
	uint64_t *x = ctx;

	*x = *x * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(*x >> 33);
}

static void fresh(struct score *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		s[i] = SCORE_INIT;
}

static void count_picks(struct score *s, size_t n, uint64_t now, unsigned times, unsigned *got)
{
	uint64_t seed = 7;

	memset(got, 0, n * sizeof(*got));
	for (unsigned i = 0; i < times; i++) {
		size_t k = score_pick(s, n, NULL, now, dice, &seed);

		if (k != SCORE_NONE)
			got[k]++;
	}
}

static void test_value(void)
{
	struct score s = SCORE_INIT;

	CHECK(fabs(score_value(&s, 0) - 1) < 1e-9);
	score_success_of(&s, 1, 0, 500 * MS, 1 * S);
	CHECKF(fabs(score_value(&s, 1 * S) - 0.5) < 1e-9, "half a second of latency halves the score");
	score_success_of(&s, 1, 0, 2000 * MS, 2 * S);
	CHECKF(fabs(s.latency_ns - 2000.0 * MS) < 1, "a slower response counts at once");
	score_success_of(&s, 1, 0, 100 * MS, 3 * S);
	CHECKF(s.latency_ns > 1700.0 * MS && s.latency_ns < 2000.0 * MS,
	       "a faster response counts little by little");
	for (int i = 0; i < 60; i++)
		score_success_of(&s, 1, 0, 100 * MS, (4 + (uint64_t)i) * S);
	CHECKF(s.latency_ns < 110.0 * MS, "a faster latency has replaced a slower one after a minute");
}

static void test_forgets(void)
{
	struct score s[2] = { SCORE_INIT, SCORE_INIT };

	score_fault(s, 2, 0, 1 * S);
	CHECKF(fabs(score_success(&s[0], 1 * S) - 0.75) < 1e-9, "a fault lowers the score by a quarter");
	CHECK(s[0].state == SCORE_CLOSED);
	CHECKF(score_success(&s[0], 1 * S + 600 * S) > 0.96, "a score without news returns towards 1");
	CHECKF(score_success(&s[0], 3600 * S) > 0.999, "a fault is forgotten after an hour");
}

static void test_eject(void)
{
	struct score s[N];
	unsigned got[N];
	uint64_t now = 10 * S;

	fresh(s, N);
	for (int i = 0; i < 3; i++)
		score_fault(s, N, 2, now);
	CHECKF(s[2].state == SCORE_OPEN, "three faults in a row eject a proxy");
	CHECK(s[2].until == now + SCORE_EJECT_FIRST_NS);
	count_picks(s, N, now + 1 * S, 1000, got);
	CHECKF(got[2] == 0, "an ejected proxy gets no connections");
	CHECKF(got[0] > 200 && got[1] > 200 && got[3] > 200,
	       "the other proxies share its connections: %u %u %u", got[0], got[1], got[3]);
}

static void test_half_open(void)
{
	struct score s[N];
	unsigned got[N];
	uint64_t now = 10 * S, until;

	fresh(s, N);
	for (int i = 0; i < 3; i++)
		score_fault(s, N, 2, now);
	now = s[2].until;
	count_picks(s, N, now, 1000, got);
	CHECKF(got[2] == 1 && s[2].state == SCORE_HALF_OPEN,
	       "an ejected proxy gets exactly one probe when its time is over");
	score_fault(s, N, 2, now);
	until = s[2].until;
	CHECKF(s[2].state == SCORE_OPEN && until == now + 2 * SCORE_EJECT_FIRST_NS,
	       "a failed probe ejects the proxy for twice as long");
	now = until;
	count_picks(s, N, now, 10, got);
	CHECK(got[2] == 1);
	score_success_of(s, N, 2, 10 * MS, now);
	CHECKF(s[2].state == SCORE_CLOSED, "a successful probe takes the proxy back");
	/* ejected again soon: it grows; after long peace it begins anew */
	for (int i = 0; i < 3; i++)
		score_fault(s, N, 2, now);
	CHECK(s[2].until == now + 4 * SCORE_EJECT_FIRST_NS);
	now += 3600 * S;
	score_success_of(s, N, 2, 10 * MS, now);
	for (int i = 0; i < 3; i++)
		score_fault(s, N, 2, now);
	CHECKF(s[2].until == now + SCORE_EJECT_FIRST_NS,
	       "an hour without a fault resets the time of ejection");
}

static void test_longest(void)
{
	struct score s[2] = { SCORE_INIT, SCORE_INIT };
	uint64_t now = 1 * S, seed = 1;

	for (int i = 0; i < 3; i++)
		score_fault(s, 2, 0, now);
	for (int i = 0; i < 40; i++) {
		now = s[0].until;
		while (score_pick(s, 2, NULL, now, dice, &seed) != 0)
			;
		score_fault(s, 2, 0, now);
	}
	CHECKF(s[0].until - now <= SCORE_EJECT_LAST_NS, "ejection has a longest time");
	CHECK(s[0].until - now >= SCORE_EJECT_LAST_NS / 4);
}

static void test_share(void)
{
	struct score s[N], one = SCORE_INIT;
	unsigned ejected = 0;
	uint64_t seed = 3;

	fresh(s, N);
	for (int round = 0; round < 10; round++) {
		for (size_t i = 0; i < N; i++)
			score_fault(s, N, i, 1 * S);
	}
	for (size_t i = 0; i < N; i++)
		ejected += s[i].state != SCORE_CLOSED;
	CHECKF(ejected == N / 2, "at most half of all failing proxies are ejected: %u", ejected);
	CHECK(score_pick(s, N, NULL, 2 * S, dice, &seed) != SCORE_NONE);
	for (int i = 0; i < 10; i++)
		score_fault(&one, 1, 0, 1 * S);
	CHECKF(one.state == SCORE_CLOSED && score_pick(&one, 1, NULL, 2 * S, dice, &seed) == 0,
	       "a proxy that is the only one is never ejected");
}

static void test_better_of_two(void)
{
	struct score s[N];
	unsigned got[N];

	fresh(s, N);
	for (size_t i = 0; i < N; i++)
		score_success_of(s, N, i, (i == 0 ? 10 : 1000) * MS, 1 * S);
	count_picks(s, N, 1 * S, 4000, got);
	/* 1 - C(3,2)/C(4,2): it is among two picks out of four half of the time, and wins then */
	CHECKF(got[0] > 1800 && got[0] < 2200,
	       "the best proxy is picked whenever it is among the two: %u of 4000", got[0]);
	CHECKF(got[1] > 300 && got[2] > 300 && got[3] > 300, "slower proxies still get their share");
}

static void test_skip(void)
{
	struct score s[2] = { SCORE_INIT, SCORE_INIT };
	uint64_t skip = 1, all = 3, seed = 5;

	for (int i = 0; i < 20; i++) {
		if (score_pick(s, 2, &skip, 0, dice, &seed) != 1)
			CHECKF(false, "a proxy that was tried is not tried again");
	}
	CHECK(score_pick(s, 2, &all, 0, dice, &seed) == SCORE_NONE);
}

static void test_neutral(void)
{
	struct score s[2] = { SCORE_INIT, SCORE_INIT };
	uint64_t seed = 1, now;

	score_neutral(s, 0, 1 * S, true);
	CHECKF(s[0].success > 0.999 && s[0].faults == 0, "a fault of the server does not change the score");
	for (int i = 0; i < 3; i++)
		score_fault(s, 2, 0, 1 * S);
	now = s[0].until;
	CHECK(score_pick(s, 2, NULL, now, dice, &seed) == 0);
	score_neutral(s, 0, now, false);
	CHECKF(s[0].state == SCORE_OPEN && score_wants_probe(&s[0], now), "a cancelled probe is given again");
	CHECK(score_pick(s, 2, NULL, now, dice, &seed) == 0);
	score_neutral(s, 0, now, true);
	CHECKF(s[0].state == SCORE_CLOSED, "a proxy that refuses in good order is taken back");
}

static void test_lost_probe(void)
{
	struct score s[2] = { SCORE_INIT, SCORE_INIT };
	uint64_t seed = 1, now;

	for (int i = 0; i < 3; i++)
		score_fault(s, 2, 0, 1 * S);
	now = s[0].until;
	CHECK(score_pick(s, 2, NULL, now, dice, &seed) == 0);
	CHECK(score_pick(s, 2, NULL, now + 60 * S, dice, &seed) == 1);
	CHECKF(score_pick(s, 2, NULL, now + 200 * S, dice, &seed) == 0,
	       "a lost probe is given again after a while");
}

/* A day of one proxy that is down every hour for five minutes, among three good ones. */
static void test_day(void)
{
	struct score s[N];
	unsigned bad = 0, all = 0;
	uint64_t seed = 11;

	fresh(s, N);
	for (uint64_t now = 0; now < 86400 * S; now += 1 * S) {
		const bool is_down = now / S % 3600 < 300;
		size_t i = score_pick(s, N, NULL, now, dice, &seed);

		all++;
		if (i == 1 && is_down) {
			score_fault(s, N, i, now);
			bad++;
		} else {
			score_success_of(s, N, i, 50 * MS, now);
		}
	}
	CHECKF(bad < 24 * 20, "a day with 2 bad hours has few faults: %u of %u requests", bad, all);
	CHECKF(s[1].state == SCORE_CLOSED && s[1].successes > 10000,
	       "a proxy is used again whenever it works: %llu, %s", (unsigned long long)s[1].successes,
	       score_state_name(s[1].state));
}

static void test_sticky(void)
{
	static struct sticky t;

	CHECK(sticky_find(&t, 5, 0) == STICKY_NONE);
	sticky_keep(&t, 5, 3, 600 * S);
	CHECK(sticky_find(&t, 5, 599 * S) == 3);
	CHECKF(sticky_find(&t, 5, 600 * S) == STICKY_NONE, "a sticky choice ends at its time limit");
	sticky_keep(&t, 5, 2, 1200 * S);
	CHECK(sticky_find(&t, 5, 700 * S) == 2);
	sticky_drop(&t, 5);
	CHECK(sticky_find(&t, 5, 700 * S) == STICKY_NONE);
	for (uint64_t i = 0; i < 100000; i++)
		sticky_keep(&t, 1 + i * STICKY_SETS, i % 4, (700 + i) * S);
	CHECKF(sticky_find(&t, 1 + 99999ull * STICKY_SETS, 0) == 99999 % 4,
	       "a full sticky table keeps the latest choice");
	CHECKF(sticky_find(&t, 1, 0) == STICKY_NONE, "a full sticky table drops the oldest choice");
}

int main(void)
{
	test_value();
	test_forgets();
	test_eject();
	test_half_open();
	test_longest();
	test_share();
	test_better_of_two();
	test_skip();
	test_neutral();
	test_lost_probe();
	test_day();
	test_sticky();
	return tap_done();
}
