/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the log forwards, across rotations, and waits for new events (query.h). Takes no lock and does not
 * check the chain.
 */

#include "audit/query.h"

#include "audit/audit_int.h"
#include "audit/audit_place.h"
#include "audit/lines.h"
#include "audit/match.h"
#include "audit/segment.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/stat.h>

struct audit_query {
	int state_fd; /* borrowed */
	int dir_fd;
	int fd;		/* the file being read; -1: none */
	int inotify_fd; /* -1: not waiting yet */
	/* The last rotated segment that was started; with `current` the file being read comes after it. */
	uint32_t segment;
	bool current; /* fd is log.jsonl */
	struct lines in;
	uint64_t size; /* of the file when it was last checked */
	uint64_t from; /* 0: from the beginning */
	bool is_placed;
	struct match match;
};

int audit_query_open(struct audit_query **ret, int state_fd, const struct audit_filter *f, struct err *e)
{
	struct audit_query *q = calloc(1, sizeof(*q));

	if (!q)
		return err_sys(e, -ENOMEM, "cannot read the audit log");
	q->state_fd = state_fd;
	q->dir_fd = q->fd = q->inotify_fd = -1;
	q->in = LINES_FD(-1, 0);
	match_init(&q->match, f);
	*ret = q;
	return 0;
}

void audit_query_free(struct audit_query *q)
{
	if (!q)
		return;
	lines_release(&q->in);
	fd_close(q->fd);
	fd_close(q->inotify_fd);
	fd_close(q->dir_fd);
	free(q);
}

/* The first rotated segment after the one that was read last; 0: there is none. */
static int next_segment_number(struct audit_query *q, uint32_t *ret, struct err *e)
{
	struct segment_list old;
	int r = segment_list(q->dir_fd, &old, e);

	if (r < 0)
		return r;
	*ret = 0;
	for (size_t i = 0; i < old.count && *ret == 0; i++) {
		if (old.n[i] > q->segment)
			*ret = old.n[i];
	}
	return 0;
}

static int report_cannot_read(struct err *e, int r)
{
	return err_sys(e, r, "cannot read the audit log");
}

/* Positions in the first file that is read. */
static int begin_file(struct audit_query *q, struct err *e)
{
	uint64_t at = 0;
	int r = q->from && !q->is_placed ? place_find(q->fd, q->size, q->from, &at) : 0;

	if (r < 0)
		return report_cannot_read(e, r);
	lines_seek(&q->in, at);
	q->is_placed = true;
	return 1;
}

/* Opens the file after the one that is done. 1: opened; 0: none yet, or it was pruned meanwhile (call
 * again). */
static int open_next_file(struct audit_query *q, struct err *e)
{
	char name[SEGMENT_NAME_LEN] = SEGMENT_CURRENT;
	uint64_t size = 0;
	uint32_t n, again;
	int r = next_segment_number(q, &n, e);

	if (r < 0)
		return r;
	if (n)
		segment_name(n, name);
	autoclose int fd = segment_open(q->dir_fd, name, O_RDONLY, &size);
	if (fd < 0 && fd != -ENOENT)
		return report_cannot_read(e, fd);
	if (n == 0) { /* log.jsonl, unless it was rotated between listing and opening */
		r = next_segment_number(q, &again, e);
		if (r < 0 || fd < 0 || again)
			return r;
	}
	q->segment = n ? n : q->segment;
	if (fd < 0)
		return 0;
	q->current = n == 0;
	q->fd = TAKE_FD(fd);
	lines_release(&q->in);
	q->in = LINES_FD(q->fd, size);
	q->size = size;
	return begin_file(q, e);
}

static int refresh_file_size(struct audit_query *q, struct err *e)
{
	struct stat st;

	if (fstat(q->fd, &st) < 0)
		return report_cannot_read(e, -errno);
	q->size = q->in.limit = (uint64_t)st.st_size;
	return 0;
}

/* At the end of log.jsonl. 1: more can be read; 0: that is all for now. */
static int check_current_end(struct audit_query *q, struct err *e)
{
	uint64_t before = q->size;
	uint32_t n;
	int r = next_segment_number(q, &n, e);

	if (r == 0)
		r = refresh_file_size(q, e);
	if (r < 0)
		return r;
	if (n) { /* it was rotated: its size is final, and the next file follows */
		q->segment = n;
		q->current = false;
		return 1;
	}
	/* A writer removed a torn line: forget what was read of it. */
	if (q->in.limit < q->in.off)
		lines_seek(&q->in, q->in.limit);
	return q->size != before;
}

/* 1: a matching line, 2: another line, 0: the current end of this file. */
static int next_query_line(struct audit_query *q, struct audit_record *ret, struct err *e)
{
	enum lines_state state;
	int r = lines_next(&q->in, &ret->text, &ret->len, &state);

	if (r < 0)
		return report_cannot_read(e, r);
	if (r == 0)
		return 0;
	/* perhaps still being written: read it again when it is complete */
	if (state == LINES_TORN && q->current) {
		lines_seek(&q->in, lines_offset(&q->in) - ret->len);
		return 0;
	}
	return match_line(&q->match, state, ret) && (!q->from || (ret->is_event && ret->line.seq >= q->from))
		       ? 1
		       : 2;
}

static int open_audit_dir(struct audit_query *q, struct err *e)
{
	if (q->dir_fd >= 0)
		return 1;
	q->dir_fd = openat(q->state_fd, AUDIT_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (q->dir_fd >= 0)
		return 1;
	return errno == ENOENT ? 0 : report_cannot_read(e, -errno);
}

/* Finds the newest file whose first event is not after `seq`. A file whose first line is not an event is
 * skipped: reading may then start too early, never too late. */
int audit_query_seek(struct audit_query *q, uint64_t seq, struct err *e)
{
	struct segment_list old;
	char name[SEGMENT_NAME_LEN] = SEGMENT_CURRENT, prev[HASH_HEX_LEN + 1];
	uint64_t first;
	int r = open_audit_dir(q, e);

	q->from = seq;
	if (r <= 0)
		return r;
	r = segment_list(q->dir_fd, &old, e);
	for (size_t i = old.count; r == 0 && i <= old.count; i--) {
		if (i < old.count)
			segment_name(old.n[i], name);
		if (segment_first(q->dir_fd, name, &first, prev) < 0 || first > seq)
			continue;
		q->segment = i ? old.n[i - 1] : 0;
		break;
	}
	return r;
}

int audit_query_next(struct audit_query *q, struct audit_record *ret, struct err *e)
{
	int r = open_audit_dir(q, e);

	if (r <= 0)
		return r;
	for (;;) {
		uint32_t before = q->segment;

		if (q->fd < 0) {
			r = open_next_file(q, e);
			if (r < 0)
				return r;
			if (r == 0 && q->segment == before)
				return 0;
			continue;
		}
		r = next_query_line(q, ret, e);
		if (r < 0)
			return r;
		if (r == 1)
			return 1;
		if (r == 2)
			continue;
		if (q->current) {
			r = check_current_end(q, e);
			if (r <= 0)
				return r;
		} else {
			q->fd = fd_close(q->fd);
		}
	}
}

int audit_query_wait(struct audit_query *q, int timeout_ms, struct err *e)
{
	char path[64], events[4096];
	struct pollfd p = { .fd = -1, .events = POLLIN };

	if (q->inotify_fd < 0 && q->dir_fd >= 0) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", q->dir_fd);
		q->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
		if (q->inotify_fd >= 0 &&
		    inotify_add_watch(q->inotify_fd, path, IN_MODIFY | IN_CREATE | IN_MOVED_TO) < 0)
			q->inotify_fd = fd_close(q->inotify_fd);
		/* Events from before the watch was set up are found by the caller's next read. */
		if (q->inotify_fd >= 0)
			return 0;
	}
	p.fd = q->inotify_fd;
	if (p.fd < 0 && timeout_ms > 200) /* no watch available: check again soon */
		timeout_ms = 200;
	if (poll(&p, 1, timeout_ms) < 0 && errno != EINTR)
		return err_sys(e, -errno, "cannot wait for the audit log");
	while (p.fd >= 0 && read(p.fd, events, sizeof(events)) > 0)
		;
	return 0;
}
