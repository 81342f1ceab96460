/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times of a detached sandbox's output. output.log has the bytes as they came and nothing else; output.times beside it
 * maps offsets in output.log to times.
 *
 * Invariants
 *  T1  The file has records of 16 bytes, little-endian: u64 offset in output.log, u64 CLOCK_REALTIME ns. A record is
 *      written before the bytes that it describes; output.log is never changed for it. Without the file there are no times.
 *  T2  The reader drops each record whose offset is smaller than that of the one before; of two with the same offset the
 *      later one counts. So a torn record, and the leftovers of a crash in logtimes_thin(), are harmless.
 *  T3  The file has at most LOGTIMES_MAX records. When it is full, every second record of the older half is removed: new
 *      output keeps its exact times, old output has coarser ones. A record whose successors were removed has
 *      LOGTIMES_COARSE.
 */
#ifndef RUN_LOGTIMES_H
#define RUN_LOGTIMES_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOGTIMES_FILE "output.times"
#define LOGTIMES_MAX 65536u
#define LOGTIMES_STEP 1000000u /* ns: output within this gets one record */
#define LOGTIMES_COARSE (1ULL << 63)

/* --- writing ------------------------------------------------------------------------------------------------------ */

struct logtimes {
	int fd;	       /* -1: no times are kept */
	int log_fd;    /* output.log, whose size is the next offset */
	size_t n;      /* records */
	uint64_t last; /* ns, of the last one */
};

#define LOGTIMES_INIT ((struct logtimes){ .fd = -1, .log_fd = -1 })

/* Continues the file in the run's directory, or creates it. Errors are not reported: the log is complete without times. */
void logtimes_open(struct logtimes *t, int run_fd, int log_fd);
/* Output is about to be written at this time. */
void logtimes_note(struct logtimes *t, uint64_t now);
void logtimes_close(struct logtimes *t);

#define autologtimes CLEANUP(logtimes_close)

/* --- reading ------------------------------------------------------------------------------------------------------ */

struct logtime {
	uint64_t offset;
	uint64_t time;
	bool coarse; /* records between this and the next one were removed */
};

struct logtimes_list {
	struct logtime *v;
	size_t n;
};

/* Replaces the list's content; empty when there is no file. */
int logtimes_read(struct logtimes_list *l, int run_fd, struct err *e) MUST_CHECK;
void logtimes_list_release(struct logtimes_list *l);

/* The record that a byte belongs to; NULL: it precedes the first record, or there is none. */
const struct logtime *logtimes_of(const struct logtimes_list *l, uint64_t offset);

/* The offset of the first byte that may be of this time or later; UINT64_MAX: all are older. Where the clock was set
 * back, the first match counts. */
uint64_t logtimes_since(const struct logtimes_list *l, uint64_t time);
/* The offset of the first byte that is later than this time; UINT64_MAX: none. */
uint64_t logtimes_after(const struct logtimes_list *l, uint64_t time);

#endif
