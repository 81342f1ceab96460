/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The anchor: where the log ends, as one record of fixed size that is overwritten in place with one pwrite().
 * It is JSON with padded numbers, so that people and jq can read it, and has its own checksum, so that
 * damage can be told from a deliberate change.
 */
#ifndef AUDIT_ANCHOR_H
#define AUDIT_ANCHOR_H

#include "base/err.h"
#include "crypto/hash.h"

#include <stddef.h>
#include <stdint.h>

#define ANCHOR_NAME "anchor"
#define ANCHOR_SIZE 235 /* bytes, with the newline */
#define ANCHOR_LOG_LEN 16

struct anchor {
	char log[ANCHOR_LOG_LEN + 1]; /* hex id of the log; the anchor of another log is refused */
	uint64_t seq;		      /* of the last event; 0 while there is none */
	char hash[HASH_HEX_LEN + 1];  /* of its line */
	uint32_t segment;	      /* the number that log.jsonl will get when it is rotated */
	uint64_t size;		      /* bytes of log.jsonl */
	uint64_t head;		      /* the last event with a signed head; 0 while there is none */
};

void anchor_format(const struct anchor *an, char ret[ANCHOR_SIZE + 1]);
/* -EBADMSG if it is not an anchor */
int anchor_parse(const char *text, size_t len, struct anchor *ret) MUST_CHECK;

/* -ENODATA if the file is empty or short, -EBADMSG if it is not an anchor. */
int anchor_read(int fd, struct anchor *ret) MUST_CHECK;
int anchor_write(int fd, const struct anchor *an) MUST_CHECK;

#endif
