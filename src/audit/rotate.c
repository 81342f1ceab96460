/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rotation and pruning. The order of the steps makes a crash between any two of them distinguishable from tampering:
 *
 *   1  a head is signed for the last event of the segment
 *   2  log.jsonl is renamed to log.NNNNNN.jsonl
 *   3  a new, empty log.jsonl is created
 *   4  the anchor names the new segment, size 0
 *   5  the first event of the new segment is written (by the next writer if this one could not)
 *   6  for each surplus segment, oldest first: an event that reports it, then the file is removed
 *
 * After 2 or 3 the anchor still names the old segment, which is complete under its new name: audit_rotate_finish()
 * continues from there.
 */
#include "audit/audit.h"

#include "audit/audit_int.h"
#include "audit/heads.h"
#include "audit/segment.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

/* rename() that never replaces: a file that is in the way is not overwritten. */
static int rename_noreplace(int dir_fd, const char *from, const char *to)
{
	struct stat st;

	if (renameat2(dir_fd, from, dir_fd, to, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL) /* the file system does not support the flag */
		return -errno;
	if (fstatat(dir_fd, to, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return -EEXIST;
	return renameat(dir_fd, from, dir_fd, to) < 0 ? -errno : 0;
}

int audit_rotate_finish(struct audit *a, struct anchor *an, struct err *e)
{
	struct anchor next = *an;
	uint64_t size = 0;
	int r;

	fd_close(a->log_fd);
	a->segment = 0;
	a->log_fd = segment_open(a->dir_fd, SEGMENT_CURRENT, O_RDWR | O_APPEND | O_CREAT, &size);
	if (a->log_fd < 0)
		return err_sys(e, a->log_fd, "cannot begin a new file of the audit log");
	if (size)
		return err_set(e, -EUCLEAN,
			       "cannot begin a new file of the audit log: log.jsonl is not empty");
	next.segment++;
	next.size = 0;
	r = anchor_write(a->anchor_fd, &next);
	if (r < 0)
		return err_sys(e, r, "cannot begin a new file of the audit log");
	a->segment = next.segment;
	*an = next;
	return 0;
}

int audit_rotate(struct audit *a, struct anchor *an, struct err *e)
{
	char name[SEGMENT_NAME_LEN];
	int r;

	if (an->head != an->seq) {
		r = heads_sign(a->dir_fd, an, e);
		if (r < 0)
			return r;
		an->head = an->seq;
	}
	segment_name(an->segment, name);
	r = rename_noreplace(a->dir_fd, SEGMENT_CURRENT, name);
	if (r < 0)
		return err_sys(e, r, "cannot rename a full file of the audit log to %s", name);
	return audit_rotate_finish(a, an, e);
}

/* Prunes one segment: the event first (audit.A5), with the hash that the oldest remaining one continues. 1:
 * it was pruned. */
static int prune_segment(struct audit *a, struct anchor *an, uint32_t old, const char *next_name,
			 struct err *e)
{
	autobuf struct buf fields = BUF_INIT;
	struct json j = JSON_INIT(&fields);
	char name[SEGMENT_NAME_LEN], prev[HASH_HEX_LEN + 1];
	uint64_t seq;
	int r = segment_first(a->dir_fd, next_name, &seq, prev);

	/* If a break hides what would be removed, the files stay as evidence. */
	if (r < 0 || seq == 0)
		return 0;
	segment_name(old, name);
	json_u64(&j, "segment", old);
	json_u64(&j, "through", seq - 1);
	json_str(&j, "hash", prev);
	r = audit_emit(a, an, &(struct audit_event){ "audit.prune", NULL, &fields }, e);
	if (r < 0)
		return r;
	if (unlinkat(a->dir_fd, name, 0) < 0 && errno != ENOENT)
		return err_sys(e, -errno, "cannot remove %s of the audit log", name);
	r = heads_prune(a->dir_fd, seq - 1, e);
	return r < 0 ? r : 1;
}

/* Prunes the oldest segments until only `keep` are left. */
static int prune_old_segments(struct audit *a, struct anchor *an, struct err *e)
{
	char next[SEGMENT_NAME_LEN];
	struct segment_list old;
	int r = segment_list(a->dir_fd, &old, e);

	if (r < 0)
		return r;
	r = 1;
	for (size_t i = 0; r == 1 && old.count - i + 1 > a->set.keep; i++) {
		if (i + 1 < old.count)
			segment_name(old.n[i + 1], next);
		else
			snprintf(next, sizeof(next), "%s", SEGMENT_CURRENT);
		r = prune_segment(a, an, old.n[i], next, e);
	}
	return r < 0 ? r : 0;
}

int audit_begin_segment(struct audit *a, struct anchor *an, struct err *e)
{
	autobuf struct buf fields = BUF_INIT;
	struct json j = JSON_INIT(&fields);
	char pub[HEADS_PUB_HEX + 1];
	bool first = an->seq == 0;
	struct audit_event ev = { first ? "audit.begin" : "audit.rotate", NULL, &fields };
	int r = heads_key_ensure(a->dir_fd, first, pub, e);

	if (r < 0)
		return r;
	json_str(&j, "log", an->log);
	json_str(&j, "key", pub);
	json_u64(&j, "segment", an->segment);
	r = audit_emit(a, an, &ev, e);
	return r < 0 || first ? r : prune_old_segments(a, an, e);
}
