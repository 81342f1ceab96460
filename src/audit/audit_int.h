/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this room share: the open log, and the steps of writing to it. The lock is held in all of them. */
#ifndef AUDIT_AUDIT_INT_H
#define AUDIT_AUDIT_INT_H

#include "audit/anchor.h"
#include "audit/audit.h"
#include "audit/line.h"
#include "base/buf.h"

#include <stdint.h>

#define AUDIT_DIR "audit"
#define AUDIT_LOCK "lock"
#define RESERVE_NAME "reserve"

struct audit {
	int dir_fd;
	int lock_fd;
	int anchor_fd;
	int log_fd;
	uint32_t segment; /* which segment log_fd is; 0: not open, or not known */
	char boot_id[LINE_BOOT_ID_LEN + 1];
	struct audit_settings set;
	bool frees;	 /* may take the reserve: what it logs makes room */
	struct buf line; /* reused */
};

/* Opens the directory and the lock, nothing else; makes them when missing. */
int audit_open_dir(struct audit **ret, int state_fd, struct err *e) MUST_CHECK;

/* fcntl() record locks: they belong to a process, so a handle that was inherited by fork() excludes its parent. The
 * price is that a process must not open and close the lock file while it holds the lock. */
int audit_lock(struct audit *a, struct err *e) MUST_CHECK;
void audit_unlock(struct audit *a);

struct audit_event {
	const char *type;
	const char *sandbox;	  /* or NULL */
	const struct buf *fields; /* or NULL */
};

/* Writes one line behind what the anchor says; *ret is the anchor that belongs behind it. On failure the log is as
 * before. */
int audit_write_line(struct audit *a, const struct anchor *an, const struct audit_event *ev,
		     struct anchor *ret, struct err *e) MUST_CHECK;

/* The same, and moves the anchor, in the file and in *an. */
int audit_emit(struct audit *a, struct anchor *an, const struct audit_event *ev, struct err *e) MUST_CHECK;

/* Closes the current segment and begins the next, whose first event is still to be written. */
int audit_rotate(struct audit *a, struct anchor *an, struct err *e) MUST_CHECK;

/* The half of audit_rotate() behind the rename, also after a crash in its midst. */
int audit_rotate_finish(struct audit *a, struct anchor *an, struct err *e) MUST_CHECK;

/* The first event of a segment (audit.begin or audit.rotate), then prunes what is too old. */
int audit_begin_segment(struct audit *a, struct anchor *an, struct err *e) MUST_CHECK;

#endif
