/* SPDX-License-Identifier: Apache-2.0 */
/* Restart policies and pauses: what is said, what is decided. */
#include "daemon/child/restart.h"
#include "tap.h"

static bool is_refused(const char *text, const char *word)
{
	struct restart r;
	struct err e = ERR_INIT;

	return restart_parse(text, &r, &e) < 0 && strstr(e.msg, word);
}

static void test_parse(void)
{
	static const char *const good[] = { "no", "on-failure", "always", "on-failure:1",
					    "on-failure:1000000" };
	char text[RESTART_TEXT_LEN];
	struct restart r;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		CHECKF(restart_parse(good[i], &r, NULL) == 0 &&
			       strcmp(restart_format(&r, text), good[i]) == 0,
		       "the restart policy %s is read and written unchanged", good[i]);
	CHECK(is_refused("", "restart policy") && is_refused("never", "on-failure"));
	CHECK(is_refused("always:3", "only on-failure") && is_refused("no:", "only on-failure"));
	CHECK(is_refused("on-failure:0", "tries") && is_refused("on-failure:", "tries"));
	CHECK(is_refused("on-failure:1000001", "tries") && is_refused("on-failure:-1", "tries"));
	CHECK(is_refused("alway", "restart policy") && is_refused("alwayss", "restart policy"));
}

static void test_backoff(void)
{
	struct backoff b = { 0 };
	uint64_t sum = 0, last = 0;

	CHECK(backoff_next(&b, 0) == BACKOFF_FIRST);
	CHECK(backoff_next(&b, 0) == 2 * BACKOFF_FIRST);
	for (int i = 0; i < 100; i++) {
		uint64_t wait = backoff_next(&b, 0);

		sum += wait < last;
		last = wait;
	}
	CHECKF(sum == 0 && last == BACKOFF_MAX, "pauses between restarts only grow, up to a bound");
	CHECKF(backoff_next(&b, BACKOFF_LASTING - 1) == BACKOFF_MAX, "a short run lengthens the pause");
	CHECKF(backoff_next(&b, BACKOFF_LASTING) == BACKOFF_FIRST, "a long run resets the pause");
	b.tries = UINT32_MAX;
	CHECKF(backoff_next(&b, 0) == BACKOFF_MAX && b.tries == UINT32_MAX,
	       "the count of restarts does not wrap");
}

static enum restart_verdict decide(const char *policy, struct backoff *b, bool by_itself, int code)
{
	const struct restart_end end = { by_itself, code, 0 };
	struct restart r;
	uint64_t wait;

	return restart_parse(policy, &r, NULL) < 0 ? RESTART_DONE : restart_decide(&r, b, &end, &wait);
}

static void test_decide(void)
{
	struct backoff b = { 0 };

	CHECK(decide("no", &b, true, 1) == RESTART_DONE && decide("no", &b, false, 137) == RESTART_DONE);
	CHECK(decide("always", &b, true, 0) == RESTART_AGAIN &&
	      decide("always", &b, false, 137) == RESTART_AGAIN);
	CHECK(decide("on-failure", &b, true, 0) == RESTART_DONE &&
	      decide("on-failure", &b, true, 1) == RESTART_AGAIN);
	CHECKF(decide("on-failure", &b, false, 0) == RESTART_AGAIN,
	       "a run that was ended from outside has failed");
	b.tries = 0;
	CHECK(decide("on-failure:2", &b, true, 1) == RESTART_AGAIN &&
	      decide("on-failure:2", &b, true, 1) == RESTART_AGAIN);
	CHECK(decide("on-failure:2", &b, true, 1) == RESTART_GIVE_UP);
}

int main(void)
{
	test_parse();
	test_backoff();
	test_decide();
	return tap_done();
}
