/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of this room: the open log, and the steps of writing to it. All of them require the
 * lock. */
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
	uint32_t segment; /* the segment of log_fd; 0: not open, or unknown */
	char boot_id[LINE_BOOT_ID_LEN + 1];
	struct audit_settings set;
	bool frees;	 /* may use the reserve: its events announce that space is freed */
	struct buf line; /* reused */
};

/* Opens only the directory and the lock; creates them if missing. */
int audit_open_dir(struct audit **ret, int state_fd, struct err *e) MUST_CHECK;

/* fcntl() record locks: they belong to a process, so a handle that was inherited by fork() excludes its
 * parent. In return, a process must not open and close the lock file while it holds the lock. */
int audit_lock(struct audit *a, struct err *e) MUST_CHECK;
void audit_unlock(struct audit *a);

struct audit_event {
	const char *type;
	const char *sandbox;	  /* or NULL */
	const struct buf *fields; /* or NULL */
};

/* Writes one line after the end that the anchor describes; *ret is the new anchor. On failure the log is
 * unchanged. */
int audit_write_line(struct audit *a, const struct anchor *an, const struct audit_event *ev,
		     struct anchor *ret, struct err *e) MUST_CHECK;

/* The same, and updates the anchor, in the file and in *an. */
int audit_emit(struct audit *a, struct anchor *an, const struct audit_event *ev, struct err *e) MUST_CHECK;

/* Closes the current segment and starts the next one, whose first event is still to be written. */
int audit_rotate(struct audit *a, struct anchor *an, struct err *e) MUST_CHECK;

/* The second half of audit_rotate(), after the rename; also used after a crash at that point. */
int audit_rotate_finish(struct audit *a, struct anchor *an, struct err *e) MUST_CHECK;

/* Writes the first event of a segment (audit.begin or audit.rotate), then prunes old segments. */
int audit_begin_segment(struct audit *a, struct anchor *an, struct err *e) MUST_CHECK;

#endif
