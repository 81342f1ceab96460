/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unit tests that print TAP: CHECK() is one test, named by its own text; tap_done() prints the plan and gives
 * main()'s return value. A skip says why.
 */
#ifndef TESTS_TAP_H
#define TESTS_TAP_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static int tap_count, tap_failed;

__attribute__((format(printf, 4, 5), unused)) static bool tap_ok(bool ok, const char *file, int line,
								 const char *fmt, ...)
{
	char name[512];
	__builtin_va_list ap;

	__builtin_va_start(ap, fmt);
	vsnprintf(name, sizeof(name), fmt, ap);
	__builtin_va_end(ap);
	for (char *p = name; *p; p++) {
		if (*p == '\n' || *p == '#')
			*p = ' ';
	}
	printf("%sok %d - %s\n", ok ? "" : "not ", ++tap_count, name);
	if (!ok) {
		tap_failed++;
		printf("# failed at %s:%d\n", file, line);
	}
	fflush(stdout);
	return ok;
}

#define CHECK(cond) tap_ok((cond), __FILE__, __LINE__, "%s", #cond)
#define CHECKF(cond, ...) tap_ok((cond), __FILE__, __LINE__, __VA_ARGS__)
#define CHECK_STR(a, b)                                                                               \
	do {                                                                                          \
		const char *a_ = (a), *b_ = (b);                                                      \
		if (!tap_ok(a_ && b_ && strcmp(a_, b_) == 0, __FILE__, __LINE__, "%s is %s", #a, #b)) \
			printf("# got '%s', wanted '%s'\n", a_ ? a_ : "(null)", b_ ? b_ : "(null)");  \
	} while (0)

__attribute__((unused)) static void tap_skip(const char *name, const char *why)
{
	printf("ok %d - %s # SKIP %s\n", ++tap_count, name, why);
}

__attribute__((unused)) static int tap_done(void)
{
	printf("1..%d\n", tap_count);
	return tap_failed ? 1 : 0;
}

#endif
