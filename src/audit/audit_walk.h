/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks along the chain: takes the lines of the log in order, then the anchor, and
 * names every place where they do not fit. Pure: it sees lines, never files.
 *
 * Invariants
 *  W1  Memory does not grow with the log: findings, heads and accepted breaks are capped.
 *  W2  Changing a byte of a line, its number or its place, without being able to write the anchor or to sign,
 *      causes at least one finding that the log itself cannot undo.
 *  W3  What a crash leaves (audit.A2) causes a note and no finding.
 */
#ifndef AUDIT_AUDIT_WALK_H
#define AUDIT_AUDIT_WALK_H

#include "audit/anchor.h"
#include "audit/finding.h"
#include "audit/heads.h"
#include "audit/line.h"
#include "audit/lines.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WALK_HEADS_MAX 65536
#define WALK_KEYS_MAX 16

/* An event: its number and the hash of its line. */
struct walk_point {
	uint64_t seq;
	char hash[HASH_HEX_LEN + 1];
	bool reported; /* a finding already reports that it was changed */
};

struct walk_head {
	uint64_t seq;
	char hash[HASH_HEX_LEN + 1];
	int key;   /* index in keys */
	bool seen; /* its event is in the log */
};

struct walk_key {
	char pub[HEADS_PUB_HEX + 1];
	bool named; /* by an event of the log */
};

enum walk_anchor { WALK_ANCHOR_MISSING, WALK_ANCHOR_BAD, WALK_ANCHOR_GOOD };

struct walk {
	struct audit_verdict *v;
	enum walk_anchor anchor_state;
	struct anchor anchor;
	struct accepted_list accepted;
	struct walk_head *heads; /* ascending by seq */
	size_t n_heads;
	struct walk_key keys[WALK_KEYS_MAX];
	size_t n_keys;

	/* The key files, set by a caller that can read them. */
	bool check_key;
	const char *key_pub; /* the public half of `key`; NULL if that is missing or damaged */
	const char *pub;     /* the contents of key.pub; NULL likewise */
	bool touched;	     /* there are files that only a log with events has */

	uint32_t segment;	/* being read; 0: log.jsonl */
	size_t findings_before; /* number of findings when this segment was started */
	uint64_t line_no;	/* in the segment */
	bool has_current;	/* log.jsonl exists */
	struct walk_point top;	/* the highest number so far */
	struct walk_point last; /* the previous line */
	bool start_unknown;	/* the first line is unreadable */
	int start_gap;		/* the finding about events missing before the first one; -1: none */
	char start_want[HASH_HEX_LEN + 1];
	int run; /* the finding about the run of misplaced events that the last line belongs to; -1: none */

	/* The line that the anchor names. */
	bool anchor_seen;
	char anchor_hash[HASH_HEX_LEN + 1];
	uint32_t anchor_segment;
	uint64_t anchor_end;		    /* offset after it in its segment */
	uint64_t behind_anchor;		    /* lines after it, in their places */
	uint64_t lines_current;		    /* lines in log.jsonl */
	uint64_t torn;			    /* bytes of an incomplete line at the end of log.jsonl */
	char boot_id[LINE_BOOT_ID_LEN + 1]; /* of the last event */
};

void walk_init(struct walk *w, struct audit_verdict *v);
void walk_release(struct walk *w);

/* Before the lines: the anchor's bytes (NULL: it is missing), then the heads. */
void walk_set_anchor(struct walk *w, const char *text, size_t len);
int walk_read_heads(struct walk *w, struct lines *in) MUST_CHECK;

/* One segment after the other; log.jsonl has the number 0. */
int walk_segment(struct walk *w, uint32_t number, struct lines *in) MUST_CHECK;

/* Checks the end: the anchor, and heads without events. `boot_id` is the current boot's; it serves to mention
 * that a power failure may have been the cause; may be NULL. */
int walk_end(struct walk *w, const char *boot_id) MUST_CHECK;

#endif
