/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The audit log: JSON lines in STATE/audit/, each with a sequence number, the clocks and the hash of the line
 * before it, and an anchor beside it that moves with every event.
 *
 * Invariants
 *  A1  A line is written whole, under an exclusive lock, with the hash of the line before (SHA-256 over its bytes
 *      without the newline, hex: anyone can check it with sha256sum).
 *  A2  The anchor (sequence, hash, segment, size) is written after the line. So after a crash the log is at most
 *      one whole or torn line ahead of the anchor, and never behind it: behind means that somebody cut the tail.
 *  A3  A torn line is taken off by the next writer, which says so in an event of its own (audit.repair).
 *  A4  A log that does not fit its anchor is not appended to: the caller gets an error and must not go on.
 */
#ifndef AUDIT_AUDIT_H
#define AUDIT_AUDIT_H

#include "base/buf.h"
#include "base/err.h"

struct audit;

/* Opens (and on first use creates) the log below the state directory. Does not take the lock. */
int audit_open(struct audit **ret, int state_fd, struct err *e) MUST_CHECK;
void audit_free(struct audit *a);
static inline void audit_freep(struct audit **a)
{
	audit_free(*a);
}

/*
 * Appends one event: {"seq":…,"time":"…","boot":…,"boot_id":"…","type":TYPE,"sandbox":ID,FIELDS…,"prev":"…"}.
 * `fields` holds JSON members without braces ("\"exit\":0,\"cause\":\"exit\""), or is NULL or empty.
 * sandbox may be NULL. Fast: a lock, a few reads and writes, no sync. Many processes may do it at once.
 */
int audit_append(struct audit *a, const char *type, const char *sandbox, const struct buf *fields,
		 struct err *e) MUST_CHECK;

#endif
