/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the kernel's clocks, and times as text: RFC 3339 for logs, spans for people. All text is UTC; nothing here
 * reads the time zone of the host.
 */
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

static void write_digits(char *out, unsigned v, int n)
{
	while (n-- > 0) {
		out[n] = (char)('0' + v % 10);
		v /= 10;
	}
}

/* Does not use gmtime_r(), which reads /etc/localtime even for UTC: every audit event is formatted here. */
char *clock_format(uint64_t realtime_ns, char out[CLOCK_TEXT_LEN])
{
	static const char shape[] = "0000-00-00T00:00:00.000000Z";
	uint64_t sec = realtime_ns / NSEC_PER_SEC;
	unsigned day_sec = (unsigned)(sec % 86400);
	/* Days since 0000-03-01: 400 years have 146097 days, and in years from March a leap day is always the last day. */
	unsigned days = (unsigned)(sec / 86400) + 719468;
	unsigned era = days / 146097, doe = days % 146097;
	unsigned yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
	unsigned doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
	unsigned month = (5 * doy + 2) / 153; /* from March */

	memcpy(out, shape, sizeof(shape));
	write_digits(out, era * 400 + yoe + (month >= 10), 4);
	write_digits(out + 5, month < 10 ? month + 3 : month - 9, 2);
	write_digits(out + 8, doy - (153 * month + 2) / 5 + 1, 2);
	write_digits(out + 11, day_sec / 3600, 2);
	write_digits(out + 14, day_sec / 60 % 60, 2);
	write_digits(out + 17, day_sec % 60, 2);
	write_digits(out + 20, (unsigned)(realtime_ns % NSEC_PER_SEC / 1000), 6);
	return out;
}

/* Parses what follows a date and time, such as ".789Z" or "+02:00": adds the fraction to *ns and subtracts the offset. */
static int parse_fraction_and_zone(const char *s, uint64_t *ns)
{
	unsigned h, m;
	uint64_t unit = NSEC_PER_SEC / 10;

	if (*s == '.') {
		for (s++; *s >= '0' && *s <= '9'; s++, unit /= 10)
			*ns += (uint64_t)(*s - '0') * unit;
	}
	if (str_eq(s, "Z") || str_eq(s, "z") || !*s)
		return 0;
	if ((*s != '+' && *s != '-') || strlen(s) != 6 || s[3] != ':')
		return -EINVAL;
	for (int i = 1; i < 6; i++) {
		if (i != 3 && (s[i] < '0' || s[i] > '9'))
			return -EINVAL;
	}
	h = (unsigned)(s[1] - '0') * 10 + (unsigned)(s[2] - '0');
	m = (unsigned)(s[4] - '0') * 10 + (unsigned)(s[5] - '0');
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
	r = parse_fraction_and_zone(rest, &ns);
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
