/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is the log what was written? Verify reads every line, the anchor and the signed heads, and names each break. It
 * writes nothing, works in bounded memory whatever the bytes are, and tells what a crash leaves from what somebody did.
 */
#ifndef AUDIT_VERIFY_H
#define AUDIT_VERIFY_H

#include "base/err.h"
#include "crypto/hash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum audit_break {
	AUDIT_EDIT,    /* an event is not what was written */
	AUDIT_DELETE,  /* events are missing, and others follow */
	AUDIT_REORDER, /* an event stands out of its place, or twice */
	AUDIT_CUT,     /* events are missing at the end */
	AUDIT_ANCHOR,  /* the anchor is missing, damaged or of another log or time */
	AUDIT_HEAD,    /* a signed head does not fit, is missing or was not signed by us */
	AUDIT_KEY,     /* the signing key is missing or another */
	AUDIT_BREAK_COUNT
};

const char *audit_break_name(enum audit_break kind); /* "edit", "delete", "reorder", "cut", … */

struct audit_finding {
	enum audit_break kind;
	uint64_t from, to;    /* events concerned; 0 where none can be named */
	uint64_t elsewhere;   /* of a gap: how many of its events stand somewhere else */
	bool dropped;	      /* turned out to be none */
	uint64_t accepted_by; /* the audit.accept event that names it; 0: nobody accepted it */
	char id[33];	      /* hex over what was found: another change in the same place has another */
	char text[256];	      /* one sentence for people */
};

#define AUDIT_FINDINGS_MAX 1024

struct audit_verdict {
	bool ok; /* no finding but accepted ones */
	uint64_t events;
	uint64_t first_seq, last_seq;
	char last_hash[HASH_HEX_LEN + 1];
	uint64_t pruned_through; /* events up to this one were pruned; 0: none */
	uint64_t heads;		 /* signed heads that hold */
	uint64_t last_head;	 /* the last event that one of them covers */
	char log[17];		 /* id of the log, empty when it names none */
	char key[65];		 /* public key that the log names last, empty when none */
	char note[256];		 /* what a crash left, or that nothing was logged yet; may be empty */
	struct audit_finding *findings;
	size_t n_findings;
	uint64_t more; /* findings beyond AUDIT_FINDINGS_MAX, only counted; never accepted */
};

#define AUDIT_VERDICT_INIT ((struct audit_verdict){ 0 })
void audit_verdict_release(struct audit_verdict *v);

/* 0 when the log could be read: v->ok then says how it is. Takes the lock for the moment of opening the files. */
int audit_verify(int state_fd, struct audit_verdict *v, struct err *e) MUST_CHECK;

/* The same with the directory of the log, by somebody who holds the lock. */
int audit_verify_locked(int dir_fd, struct audit_verdict *v, struct err *e) MUST_CHECK;

/* The same over bytes: a log of one segment, its anchor (NULL: it has none) and its heads. */
struct audit_bytes {
	const char *log, *anchor, *heads;
	size_t log_len, anchor_len, heads_len;
};
int audit_verify_bytes(const struct audit_bytes *in, struct audit_verdict *v, struct err *e) MUST_CHECK;

#endif
