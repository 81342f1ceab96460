/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One event as one line of text: how it is written, and a strict parser of exactly that.
 *
 *	{"seq":N,"time":"…","boot":NS,"boot_id":"…","type":"…"[,"sandbox":"…"][,FIELDS],"prev":"HASH"}
 *
 * The parser finds the outer members by their positions, so that the chain can be checked without a JSON parser and
 * no byte of a line is ignored. FIELDS stay as text.
 */
#ifndef AUDIT_LINE_H
#define AUDIT_LINE_H

#include "base/buf.h"
#include "base/err.h"
#include "crypto/hash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LINE_MAX_LEN \
	(1u << 20) /* bytes without the newline; longer ones are refused and never stored in memory */
#define LINE_TIME_LEN 27
#define LINE_BOOT_ID_LEN 36
#define LINE_SEQ_MAX 999999999999999999ULL

/* The hash before the first event. */
#define LINE_HASH_NONE "0000000000000000000000000000000000000000000000000000000000000000"

/* Points into the parsed line; nothing is NUL-terminated. */
struct line {
	uint64_t seq;
	uint64_t boot;	     /* nanoseconds of CLOCK_BOOTTIME */
	const char *time;    /* LINE_TIME_LEN bytes; sorts as text */
	const char *boot_id; /* LINE_BOOT_ID_LEN bytes */
	const char *type;
	size_t type_len;
	const char *sandbox; /* NULL if it has none */
	size_t sandbox_len;
	const char *fields; /* JSON members without braces; may be empty */
	size_t fields_len;
	const char *prev; /* HASH_HEX_LEN digits */
};

/* -EINVAL if line_format() would not have written this line. */
int line_parse(const char *text, size_t len, struct line *ret) MUST_CHECK;

bool line_is_type(const struct line *l, const char *type);

/* [a-z0-9][a-z0-9._-]{0,63} and [A-Za-z0-9][A-Za-z0-9_.-]{0,63}: nothing that needs escaping. */
bool line_type_is_valid(const char *type);

/* Replaces the contents of `out` by the line and a newline. `time` is CLOCK_REALTIME, `boot`
 * CLOCK_BOOTTIME. */
struct line_head {
	uint64_t seq;
	uint64_t time;
	uint64_t boot;
	const char *boot_id;
	const char *type;
	const char *sandbox; /* or NULL */
	const char *prev;
};
void line_format(const struct line_head *h, const struct buf *fields, struct buf *out);

#endif
