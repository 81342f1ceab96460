/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "tap.h"

#include <errno.h>

/* Compares with the C library's result for the same second. */
static bool agrees(uint64_t sec)
{
	char ours[CLOCK_TEXT_LEN], theirs[CLOCK_TEXT_LEN];
	time_t t = (time_t)sec;
	struct tm tm;

	gmtime_r(&t, &tm);
	strftime(theirs, sizeof(theirs), "%Y-%m-%dT%H:%M:%S.123456Z", &tm);
	clock_format(sec * NSEC_PER_SEC + 123456789, ours);
	if (strcmp(ours, theirs) != 0)
		printf("# %s is not %s\n", ours, theirs);
	return strcmp(ours, theirs) == 0;
}

static void test_format(void)
{
	bool days = true, seconds = true;
	char text[CLOCK_TEXT_LEN];
	uint64_t ns = 0;

	/* Every day up to the end of what 64 bits of nanoseconds hold. */
	for (uint64_t d = 0; d < 213000; d++)
		days = days && agrees(d * 86400 + 86399) && agrees(d * 86400);
	for (uint64_t s = 0; s < 86400; s += 7)
		seconds = seconds && agrees(1709164800 + s);
	CHECKF(days, "every day until 2553 matches the C library");
	CHECKF(seconds, "every time of a leap day matches the C library");
	CHECK_STR(clock_format(0, text), "1970-01-01T00:00:00.000000Z");
	CHECK(clock_parse("2024-02-29T12:34:56.789012Z", 0, &ns) == 0);
	CHECK_STR(clock_format(ns, text), "2024-02-29T12:34:56.789012Z");
}

static void test_parse(void)
{
	uint64_t now = 1700000000 * NSEC_PER_SEC, ns = 0;

	CHECK(clock_parse("2h", now, &ns) == 0 && ns == now - 7200 * NSEC_PER_SEC);
	CHECK(clock_parse("2023-11-14T22:13:20Z", 0, &ns) == 0 && ns == now);
	CHECK(clock_parse("2023-11-15T00:13:20+02:00", 0, &ns) == 0 && ns == now);
	CHECK(clock_parse("2023-11-14", 0, &ns) == 0 && ns == 1699920000 * NSEC_PER_SEC);
	CHECK(clock_parse("yesterday", now, &ns) == -EINVAL);
	CHECK(clock_parse("", now, &ns) == -EINVAL);
	CHECK(clock_parse("1950-01-01", now, &ns) == -EINVAL);
}

int main(void)
{
	test_format();
	test_parse();
	return tap_done();
}
