/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic of proxy_score.h: averages, ejection times, the choice between two. Pure. */
#include "dial/proxy/proxy_score.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include <assert.h>
#include <math.h>

#define NEWS_WEIGHT 0.25	    /* of one outcome in the average */
#define HEAL_NS (300 * 1e9)	    /* after this long without news two thirds of the damage are forgotten */
#define LATENCY_TAU_NS (10 * 1e9)   /* how fast a faster result decays in */
#define LATENCY_HALF_NS (500 * 1e6) /* a latency at which the factor is one half */
#define FAULTS_IN_ROW 3		    /* then eject */
#define CLEARLY_BETTER 1.05
#define SUCCESS_MIN 0.4			   /* or eject when success falls below this */
#define PROBE_LOST_NS (120 * NSEC_PER_SEC) /* a probe without a result for so long is repeated */

static uint64_t time_since(uint64_t then, uint64_t now)
{
	return now > then ? now - then : 0;
}

double score_success(const struct score *s, uint64_t now)
{
	return 1 - (1 - s->success) * exp(-(double)time_since(s->at, now) / HEAL_NS);
}

double score_value(const struct score *s, uint64_t now)
{
	return score_success(s, now) * (LATENCY_HALF_NS / (LATENCY_HALF_NS + s->latency_ns));
}

static void score_add_outcome(struct score *s, double outcome, uint64_t now)
{
	s->success = score_success(s, now) * (1 - NEWS_WEIGHT) + outcome * NEWS_WEIGHT;
	s->at = now;
}

static void score_add_latency(struct score *s, double ns, uint64_t now)
{
	if (ns < s->latency_ns) {
		double keep = exp(-(double)time_since(s->latency_at, now) / LATENCY_TAU_NS);

		ns = s->latency_ns * keep + ns * (1 - keep);
	}
	s->latency_ns = ns;
	s->latency_at = now;
}

static size_t count_ejected(const struct score *s, size_t n)
{
	size_t ejected = 0;

	for (size_t i = 0; i < n; i++)
		ejected += s[i].state != SCORE_CLOSED;
	return ejected;
}

/* The number of past ejections that are not yet forgotten. */
static unsigned current_repeats(const struct score *s, uint64_t now)
{
	uint64_t forgotten = time_since(s->ejected_at, now) / SCORE_FORGET_NS;

	return forgotten >= s->repeats ? 0 : s->repeats - (unsigned)forgotten;
}

static uint64_t eject_span(unsigned repeats)
{
	uint64_t span = SCORE_EJECT_FIRST_NS;

	for (unsigned i = 0; i < repeats && span < SCORE_EJECT_LAST_NS; i++)
		span *= 2;
	return span < SCORE_EJECT_LAST_NS ? span : SCORE_EJECT_LAST_NS;
}

static void eject_member(struct score *s, uint64_t now)
{
	unsigned repeats = current_repeats(s, now);

	s->state = SCORE_OPEN;
	s->until = now + eject_span(repeats);
	s->repeats = repeats + 1;
	s->ejected_at = now;
}

bool score_wants_probe(const struct score *s, uint64_t now)
{
	if (s->state == SCORE_HALF_OPEN)
		return time_since(s->until, now) >= PROBE_LOST_NS;
	return s->state == SCORE_OPEN && now >= s->until;
}

void score_probe(struct score *s, uint64_t now)
{
	if (!score_wants_probe(s, now))
		return;
	s->state = SCORE_HALF_OPEN;
	s->until = now;
}

void score_begin(struct score *s, uint64_t now)
{
	s->uses++;
	score_probe(s, now);
}

static bool member_is_skipped(const uint64_t *skip, size_t i)
{
	return skip && (skip[i / 64] >> (i % 64) & 1);
}

/* The k-th member that is closed and was not tried. */
static size_t nth_usable_member(const struct score *s, size_t n, const uint64_t *skip, size_t k)
{
	for (size_t i = 0; i < n; i++) {
		if (s[i].state == SCORE_CLOSED && !member_is_skipped(skip, i) && k-- == 0)
			return i;
	}
	return SCORE_NONE;
}

static size_t count_usable_members(const struct score *s, size_t n, const uint64_t *skip)
{
	size_t usable = 0;

	for (size_t i = 0; i < n; i++)
		usable += s[i].state == SCORE_CLOSED && !member_is_skipped(skip, i);
	return usable;
}

static size_t find_member_to_probe(const struct score *s, size_t n, const uint64_t *skip, uint64_t now)
{
	for (size_t i = 0; i < n; i++) {
		if (!member_is_skipped(skip, i) && score_wants_probe(&s[i], now))
			return i;
	}
	return SCORE_NONE;
}

/* Two different ones: the same twice would be no choice. */
static size_t better_of_two_members(const struct score *s, size_t n, const uint64_t *skip, size_t usable,
				    uint64_t now, score_dice dice, void *ctx)
{
	size_t a = dice(ctx) % usable, b;

	if (usable == 1)
		return nth_usable_member(s, n, skip, 0);
	b = dice(ctx) % (usable - 1);
	b += b >= a;
	a = nth_usable_member(s, n, skip, a);
	b = nth_usable_member(s, n, skip, b);
	/*
	 * Nearly equal ones take turns: otherwise one that was slightly slower once would never be used
	 * again.
	 */
	return score_value(&s[b], now) > score_value(&s[a], now) * CLEARLY_BETTER ? b : a;
}

size_t score_pick(struct score *s, size_t n, const uint64_t *skip, uint64_t now, score_dice dice, void *ctx)
{
	size_t i = find_member_to_probe(s, n, skip, now), usable;

	if (i == SCORE_NONE) {
		usable = count_usable_members(s, n, skip);
		if (!usable)
			return SCORE_NONE;
		i = better_of_two_members(s, n, skip, usable, now, dice, ctx);
	}
	score_begin(&s[i], now);
	return i;
}

void score_success_of(struct score *s, size_t n, size_t i, uint64_t latency_ns, uint64_t now)
{
	(void)n;
	s[i].successes++;
	s[i].in_row = 0;
	score_add_outcome(&s[i], 1, now);
	score_add_latency(&s[i], (double)latency_ns, now);
	s[i].state = SCORE_CLOSED;
}

void score_fault(struct score *s, size_t n, size_t i, uint64_t now)
{
	s[i].faults++;
	s[i].in_row++;
	score_add_outcome(&s[i], 0, now);
	if (s[i].state == SCORE_HALF_OPEN) {
		eject_member(&s[i], now);
		return;
	}
	if (s[i].state != SCORE_CLOSED || (s[i].in_row < FAULTS_IN_ROW && s[i].success >= SUCCESS_MIN))
		return;
	if (count_ejected(s, n) < n / SCORE_EJECT_SHARE)
		eject_member(&s[i], now);
}

void score_neutral(struct score *s, size_t i, uint64_t now, bool it_answered)
{
	if (s[i].state != SCORE_HALF_OPEN)
		return;
	/*
	 * A proxy that reports the target's error works; nothing is known of one whose result was not
	 * awaited.
	 */
	if (it_answered) {
		s[i].state = SCORE_CLOSED;
		s[i].in_row = 0;
		return;
	}
	s[i].state = SCORE_OPEN;
	s[i].until = now;
}

const char *score_state_name(enum score_state st)
{
	static const char *const names[] = {
		[SCORE_CLOSED] = "closed",
		[SCORE_OPEN] = "open",
		[SCORE_HALF_OPEN] = "half-open",
	};

	static_assert(ARRAY_SIZE(names) == SCORE_STATE_COUNT, "a name for each state");
	return names[st];
}
