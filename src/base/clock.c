/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include "base/str.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

uint64_t clock_nsec(clockid_t id)
{
	struct timespec ts;

	if (clock_gettime(id, &ts) < 0)
		BUG("clock_gettime");
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

char *clock_format(uint64_t realtime_ns, char out[CLOCK_TEXT_LEN])
{
	time_t sec = (time_t)(realtime_ns / NSEC_PER_SEC);
	unsigned usec = (unsigned)(realtime_ns % NSEC_PER_SEC / 1000);
	struct tm tm;
	size_t n;

	gmtime_r(&sec, &tm);
	n = strftime(out, CLOCK_TEXT_LEN, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(out + n, CLOCK_TEXT_LEN - n, ".%06uZ", usec);
	return out;
}

/* "…:56.789Z" or "…+02:00" behind a date and time: adds the fraction and takes the offset away. */
static int parse_zone(const char *s, uint64_t *ns)
{
	unsigned h, m;
	uint64_t unit = NSEC_PER_SEC / 10;
	int end = 0;

	if (*s == '.') {
		for (s++; *s >= '0' && *s <= '9'; s++, unit /= 10)
			*ns += (uint64_t)(*s - '0') * unit;
	}
	if (str_eq(s, "Z") || str_eq(s, "z") || !*s)
		return 0;
	if ((*s != '+' && *s != '-') || sscanf(s + 1, "%2u:%2u%n", &h, &m, &end) != 2 || s[1 + end])
		return -EINVAL;
	if (*s == '+')
		*ns -= (h * 60 + m) * 60ULL * NSEC_PER_SEC;
	else
		*ns += (h * 60 + m) * 60ULL * NSEC_PER_SEC;
	return 0;
}

int clock_parse(const char *s, uint64_t now_ns, uint64_t *ret)
{
	struct tm tm = { 0 };
	const char *rest;
	uint64_t ns;
	int r;

	if (str_to_nsec(s, &ns) == 0) {
		*ret = ns < now_ns ? now_ns - ns : 0;
		return 0;
	}
	rest = strptime(s, "%Y-%m-%d", &tm);
	if (!rest)
		return -EINVAL;
	if (*rest == 'T' || *rest == ' ') {
		rest = strptime(rest + 1, "%H:%M:%S", &tm);
		if (!rest)
			return -EINVAL;
	}
	if (tm.tm_year < 70)
		return -EINVAL;
	ns = (uint64_t)timegm(&tm) * NSEC_PER_SEC;
	r = parse_zone(rest, &ns);
	if (r < 0)
		return r;
	*ret = ns;
	return 0;
}

char *clock_span(uint64_t nsec, char out[CLOCK_TEXT_LEN])
{
	uint64_t ms = nsec / NSEC_PER_MSEC, sec = ms / 1000;

	if (ms < 1000)
		snprintf(out, CLOCK_TEXT_LEN, "%u ms", (unsigned)ms);
	else if (sec < 60)
		snprintf(out, CLOCK_TEXT_LEN, "%u.%u s", (unsigned)sec, (unsigned)(ms % 1000 / 100));
	else if (sec < 3600)
		snprintf(out, CLOCK_TEXT_LEN, "%u min %u s", (unsigned)(sec / 60), (unsigned)(sec % 60));
	else
		snprintf(out, CLOCK_TEXT_LEN, "%llu h %u min", (unsigned long long)(sec / 3600),
			 (unsigned)(sec % 3600 / 60));
	return out;
}
