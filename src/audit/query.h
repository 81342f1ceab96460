/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the log: all segments in order, then new events. Takes no lock and never delays a writer; a line
 * that is being written is returned once it is complete. Does not check the chain: that is verify's task.
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
	const char *sandbox; /* an id or a prefix of it; NULL: all */
	const char *type;    /* "run" matches "run" and "run.…"; NULL: all */
	uint64_t from;	     /* backward reader: events with smaller numbers are not read; 0: all */
};

/* Valid until the next call. */
struct audit_record {
	const char *text; /* the line without its newline; NULL if it is too long */
	size_t len;
	bool is_event; /* otherwise `line` is empty: it was changed. Such lines pass only an empty filter */
	struct line line; /* points into text */
};

struct audit_query;

/* Borrows state_fd and the filter's strings. A log that does not exist yet is empty. */
int audit_query_open(struct audit_query **ret, int state_fd, const struct audit_filter *f,
		     struct err *e) MUST_CHECK;
void audit_query_free(struct audit_query *q);
static inline void audit_query_freep(struct audit_query **q)
{
	audit_query_free(*q);
}

/* Starts with the event of this number, or the first one after it, without reading those before; lines that
 * are not events are then skipped. Before the first audit_query_next(). */
int audit_query_seek(struct audit_query *q, uint64_t seq, struct err *e) MUST_CHECK;

/* 1: the next event; 0: there is none now (call again after audit_query_wait()). */
int audit_query_next(struct audit_query *q, struct audit_record *ret, struct err *e) MUST_CHECK;

/* Waits until something may have been appended, or until the timeout. A signal ends it early, with 0. */
int audit_query_wait(struct audit_query *q, int timeout_ms, struct err *e) MUST_CHECK;

/* The other direction: from the newest event before number `before` (UINT64_MAX: of all) to the oldest, of
 * those that exist when it is opened. Reads no more than the returned lines and those that the filter
 * skips. */
struct audit_back;

int audit_back_open(struct audit_back **ret, int state_fd, const struct audit_filter *f, uint64_t before,
		    struct err *e) MUST_CHECK;
void audit_back_free(struct audit_back *b);
static inline void audit_back_freep(struct audit_back **b)
{
	audit_back_free(*b);
}

/* 1: the previous event; 0: there is none. */
int audit_back_next(struct audit_back *b, struct audit_record *ret, struct err *e) MUST_CHECK;

/* The number of the newest event; 0: there is none. */
int audit_last_seq(int state_fd, uint64_t *ret, struct err *e) MUST_CHECK;

#endif
