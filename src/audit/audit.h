/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The audit log: JSON lines in STATE/audit/, each with a sequence number, the clocks and the hash of the line
 * before it, and an anchor beside it that is updated with every event.
 *
 * Invariants
 *  A1  A line is written whole, under an exclusive lock, with the hash of the line before it (SHA-256 over its bytes
 *      without the newline, hex: anyone can check it with sha256sum).
 *  A2  The anchor (sequence, hash, segment, size) is written after the line. So after a crash the log is at most
 *      one whole or torn line ahead of the anchor, and never shorter: shorter means that the tail was cut.
 *  A3  The next writer removes a torn line, and reports that in an event of its own (audit.repair).
 *  A4  A log that does not fit its anchor is not appended to: the caller gets an error and must not go on.
 *  A5  A full segment is renamed and never written again; the chain continues in the next one. Pruning the oldest is
 *      an event (audit.prune) that is in the log before the file is removed.
 *  A6  An event whose append returned an error is not in the log.
 *
 * The files: log.jsonl (written to), log.000001.jsonl … (full), anchor, heads (signed heads), key, key.pub, lock.
 * Appending does not sync to the disk: the log survives the death of any process, but a power failure
 * may lose the last seconds of it and is then reported like a cut tail.
 */
#ifndef AUDIT_AUDIT_H
#define AUDIT_AUDIT_H

#include "base/buf.h"
#include "base/err.h"

#include <stdint.h>

struct audit;

/* Opens (and on first use creates) the log below the state directory. Does not take the lock. */
int audit_open(struct audit **ret, int state_fd, struct err *e) MUST_CHECK;
void audit_free(struct audit *a);
static inline void audit_freep(struct audit **a)
{
	audit_free(*a);
}

/*
 * On a full disk nothing can be logged, and so nothing could be removed either. A file of AUDIT_RESERVE bytes keeps room for that:
 * a handle whose events announce a removal gives it up when needed, and it is created again when the log is opened next.
 */
#define AUDIT_RESERVE (64u << 10)
void audit_frees_space(struct audit *a);

struct audit_settings {
	uint64_t segment_size; /* bytes of a segment before the next one is started */
	uint32_t keep;	       /* segments, including the current one; 2 to 200 */
	uint32_t head_every;   /* events between two signed heads */
};

#define AUDIT_SETTINGS_DEFAULT \
	((struct audit_settings){ .segment_size = 64ULL << 20, .keep = 16, .head_every = 256 })

/* For this handle only; all writers of a log should use the same settings. */
void audit_configure(struct audit *a, const struct audit_settings *s);

/*
 * Appends one event: {"seq":…,"time":"…","boot":…,"boot_id":"…","type":TYPE,"sandbox":ID,FIELDS…,"prev":"…"}.
 * `fields` has JSON members without braces ("\"exit\":0,\"cause\":\"exit\""), or is NULL or empty; it must not use the names of
 * the outer members. sandbox may be NULL. Types are [a-z0-9._-]; those that begin with "audit." belong to this
 * room and are refused. A line may have 1 MiB.
 * Fast: a lock, a few reads and writes, no sync. Many processes may append at once, even with one handle across fork().
 */
int audit_append(struct audit *a, const char *type, const char *sandbox, const struct buf *fields,
		 struct err *e) MUST_CHECK;
/* The same, and returns the event's number. */
int audit_append_seq(struct audit *a, const char *type, const char *sandbox, const struct buf *fields,
		     uint64_t *ret_seq, struct err *e) MUST_CHECK;

/*
 * After an operator has examined a broken log: closes the existing files as they are, and starts a new segment with an event
 * (audit.accept) that names every break that verify finds, and the given reason. Verify then reports them as
 * accepted. -EALREADY if there is nothing to accept. *ret_seq (may be NULL) is the number of that event.
 */
int audit_accept(int state_fd, const char *reason, uint64_t *ret_seq, struct err *e) MUST_CHECK;

#endif
