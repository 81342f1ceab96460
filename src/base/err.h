/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors that a person can read.
 *
 * A function that can fail returns 0 (or a useful non-negative number) or a negative errno, and takes a
 * `struct err *` as its last argument. The struct lives on the caller's stack; NULL is allowed where the
 * caller wants only the number. The first err_set() says what failed, on what and why; callers on the way
 * up may put context in front with err_wrap(), and say what to do next with err_hint().
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <stdarg.h>

#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))
#define MUST_CHECK __attribute__((warn_unused_result))

struct err {
	int code;	/* negative errno, 0 while nothing failed */
	char msg[1024]; /* what failed, on what, why */
	char hint[512]; /* what to do next; may be empty */
};

#define ERR_INIT ((struct err){ 0 })

/* Sets the message and returns `code`, so that `return err_set(e, -EINVAL, ...)` reads well. */
int err_set(struct err *e, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* As err_set(), with ": " and the text of errno `-code` after the message. */
int err_sys(struct err *e, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Puts "context: " in front of the message already there. Returns `code`. */
int err_wrap(struct err *e, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Says what to do next. Returns `code` unchanged. */
int err_hint(struct err *e, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* For a broken invariant of our own code, never for bad input. Aborts without unwinding. */
_Noreturn void bug_at(const char *file, int line, const char *what);
#define BUG(what) bug_at(__FILE__, __LINE__, what)
#define BUG_ON(cond)                \
	do {                        \
		if (cond)           \
			BUG(#cond); \
	} while (0)

#endif
