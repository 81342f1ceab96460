/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is the log what was written? Verify reads every line, the anchor and the signed heads, and names each break. It
 * writes nothing, uses bounded memory whatever the bytes are, and tells the traces of a crash from tampering.
 */
#ifndef AUDIT_VERIFY_H
#define AUDIT_VERIFY_H

#include "base/err.h"
#include "crypto/hash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum audit_break {
	AUDIT_EDIT,    /* an event was changed */
	AUDIT_DELETE,  /* events are missing, and others follow */
	AUDIT_REORDER, /* an event is out of its place, or occurs twice */
	AUDIT_CUT,     /* events are missing at the end */
	AUDIT_ANCHOR,  /* the anchor is missing, damaged, or of another log or time */
	AUDIT_HEAD,    /* a signed head does not fit, is missing, or has a wrong signature */
	AUDIT_KEY,     /* the signing key is missing or another one */
	AUDIT_BREAK_COUNT
};

const char *audit_break_name(enum audit_break kind); /* "edit", "delete", "reorder", "cut", … */

struct audit_finding {
	enum audit_break kind;
	uint64_t from, to;    /* events concerned; 0 if unknown */
	uint64_t elsewhere;   /* of a gap: how many of its events occur somewhere else */
	bool dropped;	      /* turned out not to be a break */
	uint64_t accepted_by; /* the audit.accept event that names it; 0: not accepted */
	char id[33];	      /* hex over the contents: another change in the same place has another id */
	char text[256];	      /* one sentence for people */
};

#define AUDIT_FINDINGS_MAX 1024

struct audit_verdict {
	bool ok; /* no findings except accepted ones */
	uint64_t events;
	uint64_t first_seq, last_seq;
	char last_hash[HASH_HEX_LEN + 1];
	uint64_t pruned_through; /* events up to this one were pruned; 0: none */
	uint64_t heads;		 /* valid signed heads */
	uint64_t last_head;	 /* the last event that one of them covers */
	char log[17];		 /* id of the log; empty if it names none */
	char key[65];		 /* the public key that the log named last; empty if none */
	char note[256];		 /* traces of a crash, or that nothing was logged yet; may be empty */
	struct audit_finding *findings;
	size_t n_findings;
	uint64_t more; /* findings beyond AUDIT_FINDINGS_MAX, only counted; never accepted */
};

#define AUDIT_VERDICT_INIT ((struct audit_verdict){ 0 })
void audit_verdict_release(struct audit_verdict *v);

/* 0 if the log could be read: v->ok then has the result. Takes the lock while it opens the files. */
int audit_verify(int state_fd, struct audit_verdict *v, struct err *e) MUST_CHECK;

/* The same for the log's directory, for a caller that holds the lock. */
int audit_verify_locked(int dir_fd, struct audit_verdict *v, struct err *e) MUST_CHECK;

/* The same over bytes: a log of one segment, its anchor (NULL: none) and its heads. */
struct audit_bytes {
	const char *log, *anchor, *heads;
	size_t log_len, anchor_len, heads_len;
};
int audit_verify_bytes(const struct audit_bytes *in, struct audit_verdict *v, struct err *e) MUST_CHECK;

#endif
