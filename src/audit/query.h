/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the log: all segments in order, then what is appended. Takes no lock and never holds a writer up; a line
 * that is being written is given out once it is whole. Says nothing about the chain: that is verify's.
 */
#ifndef AUDIT_QUERY_H
#define AUDIT_QUERY_H

#include "audit/line.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct audit_filter {
	uint64_t since;	     /* CLOCK_REALTIME in nanoseconds; 0: all */
	const char *sandbox; /* an id or how it begins; NULL: all */
	const char *type;    /* "run" takes "run" and "run.…"; NULL: all */
};

/* Valid until the next call. */
struct audit_record {
	const char *text; /* the line without its newline; NULL when it is too long to be one */
	size_t len;
	bool is_event; /* else `line` is empty: somebody changed it. Such lines pass only an empty filter */
	struct line line; /* points into text */
};

struct audit_query;

/* Borrows state_fd and the filter's strings. A log that does not exist yet is an empty one. */
int audit_query_open(struct audit_query **ret, int state_fd, const struct audit_filter *f,
		     struct err *e) MUST_CHECK;
void audit_query_free(struct audit_query *q);
static inline void audit_query_freep(struct audit_query **q)
{
	audit_query_free(*q);
}

/* 1: the next event; 0: there is none now (ask again after audit_query_wait()). */
int audit_query_next(struct audit_query *q, struct audit_record *ret, struct err *e) MUST_CHECK;

/* Waits until something may have been appended, or until the timeout. A signal ends it early, with 0. */
int audit_query_wait(struct audit_query *q, int timeout_ms, struct err *e) MUST_CHECK;

#endif
