/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When the output of a detached sandbox came. output.log has its bytes as they came and nothing else; output.times beside it
 * says from which byte on the output is of which time.
 *
 * Invariants
 *  T1  The file has records of 16 bytes, little-endian: u64 offset in output.log, u64 CLOCK_REALTIME ns. A record is written
 *      before the bytes that it is about, and never changes what output.log says. A log without the file has no times.
 *  T2  Whoever reads drops each record whose offset is not larger than that of the one before; of two with the same offset the
 *      later one counts. So a part of a record, and what a crash left of logtimes_thin(), are harmless.
 *  T3  The file has LOGTIMES_MAX records at most. When it is full, each second one of the older half goes: what is new keeps
 *      its times, and what is old has them coarser the older it is. A record after which some went has LOGTIMES_COARSE.
 */
#ifndef RUN_LOGTIMES_H
#define RUN_LOGTIMES_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOGTIMES_FILE "output.times"
#define LOGTIMES_MAX 65536u
#define LOGTIMES_STEP 1000000u /* ns: what comes within this has one time */
#define LOGTIMES_COARSE (1ULL << 63)

/* --- writing ------------------------------------------------------------------------------------------------------ */

struct logtimes {
	int fd;	       /* -1: no times are kept */
	int log_fd;    /* output.log, of which the next offset is asked */
	size_t n;      /* records */
	uint64_t last; /* ns, of the last one */
};

#define LOGTIMES_INIT ((struct logtimes){ .fd = -1, .log_fd = -1 })

/* Goes on with the file in the run's directory, or makes it. A log without times is no worse: what goes wrong is not told. */
void logtimes_open(struct logtimes *t, int run_fd, int log_fd);
/* Output is about to be written at this time. */
void logtimes_note(struct logtimes *t, uint64_t now);
void logtimes_close(struct logtimes *t);

#define autologtimes CLEANUP(logtimes_close)

/* --- reading ------------------------------------------------------------------------------------------------------ */

struct logtime {
	uint64_t offset;
	uint64_t time;
	bool coarse; /* records between this and the next one are gone */
};

struct logtimes_list {
	struct logtime *v;
	size_t n;
};

/* None when there is no file. Replaces what the list has. */
int logtimes_read(struct logtimes_list *l, int run_fd, struct err *e) MUST_CHECK;
void logtimes_list_release(struct logtimes_list *l);

/* The record that a byte belongs to; NULL: it is older than the first, or there is none. */
const struct logtime *logtimes_of(const struct logtimes_list *l, uint64_t offset);

/* The first byte that may be of this time or later; UINT64_MAX: all is older. Where the clock was set back, the first
 * such one counts. */
uint64_t logtimes_since(const struct logtimes_list *l, uint64_t time);
/* The first byte that is later than this time; UINT64_MAX: none is. */
uint64_t logtimes_after(const struct logtimes_list *l, uint64_t time);

#endif
