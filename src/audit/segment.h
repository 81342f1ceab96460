/* SPDX-License-Identifier: Apache-2.0 */
/* The files of the log: log.jsonl is written to, log.000001.jsonl … are full and only read. */
#ifndef AUDIT_SEGMENT_H
#define AUDIT_SEGMENT_H

#include "base/err.h"
#include "crypto/hash.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SEGMENT_CURRENT "log.jsonl"
#define SEGMENT_NAME_LEN 24
#define SEGMENT_MAX 256 /* a directory with more files is not a log of ours */

void segment_name(uint32_t n, char ret[SEGMENT_NAME_LEN]);

struct segment_list {
	uint32_t n[SEGMENT_MAX]; /* ascending */
	size_t count;
};

/* Lists the rotated segments. -E2BIG if there are more than SEGMENT_MAX. */
int segment_list(int dir_fd, struct segment_list *ret, struct err *e) MUST_CHECK;

/* Opens a regular file of the log, never a symbolic link. Returns the fd; ret_size may be NULL. */
int segment_open(int dir_fd, const char *name, int flags, uint64_t *ret_size) MUST_CHECK;

/* The number of the first event of a segment and the hash that it continues. -EINVAL if it has none. */
int segment_first(int dir_fd, const char *name, uint64_t *ret_seq,
		  char ret_prev[HASH_HEX_LEN + 1]) MUST_CHECK;

#endif
