/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Continues the log after a break that an operator has examined. The existing files are kept as they are: log.jsonl, torn or cut,
 * becomes a closed segment, and a new one starts with an audit.accept event that names every break. That event
 * continues the last readable line, and its number is greater than the last one that the anchor knew, so that the
 * numbers of lost events are not reused.
 */
#include "audit/audit.h"

#include "audit/audit_int.h"
#include "audit/finding.h"
#include "audit/heads.h"
#include "audit/segment.h"
#include "audit/verify.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>

#define REASON_MAX 4096

/* Renames log.jsonl to the next free segment number; *ret is the number of the new segment. */
static int close_current_segment(int dir_fd, uint32_t anchored, uint32_t *ret, struct err *e)
{
	char name[SEGMENT_NAME_LEN];
	struct segment_list old;
	struct stat st;
	uint32_t next;
	int r = segment_list(dir_fd, &old, e);

	if (r < 0)
		return r;
	next = (old.count ? old.n[old.count - 1] : 0) + 1;
	if (anchored > next && anchored < UINT32_MAX - SEGMENT_MAX)
		next = anchored;
	if (fstatat(dir_fd, SEGMENT_CURRENT, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		*ret = next + 1;
		return errno == ENOENT ? 0 : err_sys(e, -errno, "cannot read log.jsonl of the audit log");
	}
	segment_name(next, name);
	if (renameat2(dir_fd, SEGMENT_CURRENT, dir_fd, name, RENAME_NOREPLACE) < 0 &&
	    (errno != EINVAL || renameat(dir_fd, SEGMENT_CURRENT, dir_fd, name) < 0))
		return err_sys(e, -errno, "cannot close log.jsonl of the audit log");
	*ret = next + 1;
	return 0;
}

/* The anchor of the new segment. */
static int anchor_after_break(const struct audit_verdict *v, const struct anchor *old, uint32_t segment,
			      struct anchor *ret)
{
	struct anchor an = { .segment = segment, .seq = v->last_seq, .head = old->head };
	unsigned char id[ANCHOR_LOG_LEN / 2];

	if (old->seq > an.seq)
		an.seq = old->seq;
	memcpy(an.hash, v->last_hash, sizeof(an.hash));
	if (v->log[0]) {
		memcpy(an.log, v->log, sizeof(an.log));
	} else if (old->log[0]) {
		memcpy(an.log, old->log, sizeof(an.log));
	} else {
		if (getrandom(id, sizeof(id), 0) != (ssize_t)sizeof(id))
			return -EIO;
		hash_hex(id, sizeof(id), an.log);
	}
	if (an.head == 0 || an.head > an.seq)
		an.head = v->last_head;
	*ret = an;
	return 0;
}

/* The fields of the audit.accept event: the reason, the breaks, the log's id and key. */
static int format_accept_fields(struct audit *a, const struct anchor *an, const struct audit_verdict *v,
				const char *reason, struct buf *out, struct err *e)
{
	struct json j = JSON_INIT(out);
	char pub[HEADS_PUB_HEX + 1];
	int r = heads_key_ensure(a->dir_fd, true, pub, e);

	if (r < 0)
		return r;
	json_str(&j, "reason", reason);
	json_str(&j, "log", an->log);
	json_str(&j, "key", pub);
	json_u64(&j, "segment", an->segment);
	buf_addc(out, ',');
	finding_format(v, out);
	return 0;
}

/* Writes the event first, then replaces the anchor. A crash in between leaves a log that does not fit its
 * anchor, and accepting can be repeated. */
static int write_accept_event(struct audit *a, struct anchor *an, const struct buf *fields, struct err *e)
{
	struct audit_event ev = { "audit.accept", NULL, fields };
	char text[ANCHOR_SIZE + 1];
	int r;

	a->log_fd = segment_open(a->dir_fd, SEGMENT_CURRENT, O_RDWR | O_APPEND | O_CREAT | O_EXCL, NULL);
	if (a->log_fd < 0)
		return err_sys(e, a->log_fd, "cannot begin a new file of the audit log");
	r = audit_write_line(a, an, &ev, an, e);
	if (r == 0) {
		anchor_format(an, text);
		r = fd_replace_file(a->dir_fd, ANCHOR_NAME, text, ANCHOR_SIZE, 0600);
		if (r < 0)
			err_sys(e, r, "cannot write a new anchor of the audit log");
	}
	if (r < 0)
		unlinkat(a->dir_fd, SEGMENT_CURRENT, 0);
	return r;
}

/* Closes the broken segment, verifies again to name every break, and starts the new segment. */
static int accept_under_lock(struct audit *a, const char *reason, uint64_t *ret_seq, struct err *e)
{
	CLEANUP(audit_verdict_release) struct audit_verdict before = AUDIT_VERDICT_INIT;
	CLEANUP(audit_verdict_release) struct audit_verdict closed = AUDIT_VERDICT_INIT;
	autobuf struct buf fields = BUF_INIT;
	struct anchor old = { 0 }, an;
	uint32_t segment = 0;
	int r = audit_verify_locked(a->dir_fd, &before, e);

	if (r < 0)
		return r;
	if (before.ok)
		return err_set(e, -EALREADY, "the audit log has no break to accept");
	if (before.more) {
		err_set(e, -E2BIG, "the audit log has more than %d breaks", AUDIT_FINDINGS_MAX);
		return err_hint(e, -E2BIG,
				"move the directory audit/ out of the state directory as evidence; "
				"a new log is begun with the next event");
	}
	autoclose int fd = segment_open(a->dir_fd, ANCHOR_NAME, O_RDONLY, NULL);
	if (fd >= 0 && anchor_read(fd, &old) < 0)
		old = (struct anchor){ 0 };
	if (before.log[0] &&
	    !str_eq(old.log, before.log)) /* another log's, whose numbers mean nothing here */
		old = (struct anchor){ 0 };
	r = close_current_segment(a->dir_fd, old.segment, &segment, e);
	if (r == 0)
		r = audit_verify_locked(a->dir_fd, &closed, e);
	if (r < 0)
		return r;
	r = anchor_after_break(&closed, &old, segment, &an);
	if (r < 0)
		return err_sys(e, r, "cannot get random numbers");
	r = format_accept_fields(a, &an, &closed, reason, &fields, e);
	if (r == 0)
		r = write_accept_event(a, &an, &fields, e);
	if (r == 0 && ret_seq)
		*ret_seq = an.seq;
	return r;
}

int audit_accept(int state_fd, const char *reason, uint64_t *ret_seq, struct err *e)
{
	CLEANUP(audit_freep) struct audit *a = NULL;
	int r;

	if (!*reason || strlen(reason) > REASON_MAX)
		return err_set(e, -EINVAL, "the reason must have 1 to %d characters", REASON_MAX);
	r = audit_open_dir(&a, state_fd, e);
	if (r == 0)
		r = audit_lock(a, e);
	if (r < 0)
		return r;
	r = accept_under_lock(a, reason, ret_seq, e);
	audit_unlock(a);
	return r;
}
