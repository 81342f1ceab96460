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

/* Parses RFC 3339, a date, or a span before now ("2h", "90s") to nanoseconds of CLOCK_REALTIME. */
int clock_parse(const char *s, uint64_t now_ns, uint64_t *ret) MUST_CHECK;

/* A span for people: "812 ms", "3.4 s", "2 min 3 s", "1 h 5 min". */
char *clock_span(uint64_t nsec, char out[CLOCK_TEXT_LEN]);

#endif
