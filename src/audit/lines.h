/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads lines from a file or from memory in bounded memory, whatever the bytes are: a line over LINE_MAX_LEN is
 * skipped and only reported.
 */
#ifndef AUDIT_LINES_H
#define AUDIT_LINES_H

#include "base/buf.h"
#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

enum lines_state {
	LINES_WHOLE,
	LINES_LONG, /* its bytes are not stored: text is NULL */
	LINES_TORN, /* the file ends without a newline */
	LINES_STATE_COUNT
};

struct lines {
	int fd; /* borrowed; -1: read `mem` */
	const char *mem;
	uint64_t limit; /* bytes at and after this offset are not read */
	uint64_t off;	/* offset of the next byte to read from the file */
	struct buf buf; /* read, but not returned yet */
	size_t pos;	/* in buf: start of the next line */
};

#define LINES_FD(fd_, limit_) ((struct lines){ .fd = (fd_), .limit = (limit_) })
#define LINES_MEM(mem_, len_) ((struct lines){ .fd = -1, .mem = (mem_), .limit = (len_) })

/* 1: a line, valid until the next call; 0: the end; or a negative errno. */
int lines_next(struct lines *l, const char **ret, size_t *ret_len, enum lines_state *ret_state) MUST_CHECK;

/* The offset in the file after the line that was returned last. */
uint64_t lines_offset(const struct lines *l);

/* Continues at an offset, forgetting buffered bytes. */
void lines_seek(struct lines *l, uint64_t offset);
void lines_release(struct lines *l);

#define autolines CLEANUP(lines_release)

#endif
