/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks in nanoseconds, and times as text. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include "base/err.h"

#include <stdint.h>
#include <time.h>

#define NSEC_PER_SEC 1000000000ULL
#define NSEC_PER_MSEC 1000000ULL

uint64_t clock_nsec(clockid_t id); /* CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_BOOTTIME, … */

#define CLOCK_TEXT_LEN 32
/* 2026-01-31T12:34:56.789012Z */
char *clock_format(uint64_t realtime_ns, char out[CLOCK_TEXT_LEN]);

/* RFC 3339, a date, or a span ago ("2h", "90s"): nanoseconds of CLOCK_REALTIME. */
int clock_parse(const char *s, uint64_t now_ns, uint64_t *ret) MUST_CHECK;

/* "2m 3.4s", "812 ms" for people. */
char *clock_span(uint64_t nsec, char out[CLOCK_TEXT_LEN]);

#endif
