/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the log backwards, newest event first (query.h). A file is read in pieces from its end; `buf` has the bytes from `start` up
 * to the end of the line that is returned next. Memory is bounded as in lines.h: a line over LINE_MAX_LEN is not stored.
 */
#include "audit/audit_int.h"
#include "audit/audit_place.h"
#include "audit/match.h"
#include "audit/segment.h"
#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define PIECE 65536

struct audit_back {
	int dir_fd;
	int fd; /* -1: none is open */
	struct segment_list old;
	size_t left;	/* files still to be read: old.n[left - 1] is next; left == count + 1: log.jsonl */
	uint64_t floor; /* offset in the file; nothing before it is read */
	uint64_t start; /* offset in the file of the first byte in buf */
	char *buf;
	size_t cap, first, end; /* the contents: buf[first..end) */
	uint64_t before;
	bool is_long; /* within a long line whose end was dropped */
	struct match match;
};

void audit_back_free(struct audit_back *b)
{
	if (!b)
		return;
	fd_close(b->fd);
	fd_close(b->dir_fd);
	free(b->buf);
	free(b);
}

int audit_back_open(struct audit_back **ret, int state_fd, const struct audit_filter *f, uint64_t before,
		    struct err *e)
{
	CLEANUP(audit_back_freep) struct audit_back *b = calloc(1, sizeof(*b));
	int r;

	if (!b)
		return err_sys(e, -ENOMEM, "cannot read the audit log");
	b->fd = -1;
	b->before = before;
	match_init(&b->match, f);
	b->dir_fd = openat(state_fd, AUDIT_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (b->dir_fd < 0 && errno != ENOENT)
		return err_sys(e, -errno, "cannot read the audit log");
	if (b->dir_fd >= 0) {
		r = segment_list(b->dir_fd, &b->old, e);
		if (r < 0)
			return r;
		b->left = b->old.count + 1;
	}
	*ret = TAKE_PTR(b);
	return 0;
}

/* Was the log rotated between listing and opening? Then log.jsonl is a new file. 1: start again. */
static int was_rotated(struct audit_back *b)
{
	struct segment_list now;
	int r = segment_list(b->dir_fd, &now, NULL);

	if (r < 0 || now.count == 0 || (b->old.count && b->old.n[b->old.count - 1] == now.n[now.count - 1]))
		return r;
	b->old = now;
	b->left = now.count + 1;
	return 1;
}

/* Finds the part of the file between b->floor and b->start that is wanted. */
static int find_wanted_part(struct audit_back *b, uint64_t size)
{
	int r = place_find(b->fd, size, b->before, &b->start);

	b->floor = 0;
	if (r == 0 && b->match.filter.from)
		r = place_find(b->fd, size, b->match.filter.from, &b->floor);
	if (b->floor > b->start)
		b->floor = b->start;
	return r;
}

/* 1: the previous file is open, at its end or at `before`; 0: there is none. */
static int open_previous_file(struct audit_back *b)
{
	while (b->left) {
		char name[SEGMENT_NAME_LEN] = SEGMENT_CURRENT, prev[HASH_HEX_LEN + 1];
		uint64_t size = 0, first = 0;
		int r;

		if (--b->left < b->old.count)
			segment_name(b->old.n[b->left], name);
		if (b->before != UINT64_MAX && segment_first(b->dir_fd, name, &first, prev) == 0 &&
		    first >= b->before)
			continue;
		b->fd = segment_open(b->dir_fd, name, O_RDONLY, &size);
		if (b->fd == -ENOENT) {
			b->fd = -1;
			continue;
		}
		if (b->fd < 0) {
			r = b->fd;
			b->fd = -1;
			return r;
		}
		r = b->left == b->old.count ? was_rotated(b) : 0;
		if (r > 0) {
			b->fd = fd_close(b->fd);
			continue;
		}
		if (r == 0)
			r = find_wanted_part(b, size);
		if (r < 0)
			return r;
		/* Earlier files have even smaller numbers. */
		if (b->floor)
			b->left = 0;
		b->first = b->end = 0;
		b->is_long = false;
		return 1;
	}
	return 0;
}

/* Reads the preceding piece of the file and puts it in front of the buffer. 0: there is none. */
static int fill_backwards(struct audit_back *b)
{
	uint64_t left = b->start - b->floor;
	size_t have = b->end - b->first, want = left < PIECE ? (size_t)left : PIECE;
	ssize_t n;

	if (!want)
		return 0;
	if (have > LINE_MAX_LEN + 1) {
		b->is_long = true;
		b->end = b->first;
		have = 0;
	}
	if (b->first < want) {
		size_t cap = (have + want) * 2 > b->cap ? (have + want) * 2 : b->cap;
		char *p = malloc(cap);

		if (!p)
			return -ENOMEM;
		/* Copy to the end of the new buffer: this leaves room in front for the next piece. */
		if (have)
			memcpy(p + cap - have, b->buf + b->first, have);
		free(b->buf);
		b->buf = p;
		b->cap = cap;
		b->first = cap - have;
		b->end = cap;
	}
	do
		n = pread(b->fd, b->buf + b->first - want, want, (off_t)(b->start - want));
	while (n < 0 && errno == EINTR);
	if (n != (ssize_t)want)
		return n < 0 ? -errno : -EIO; /* the file was truncated meanwhile */
	b->first -= want;
	b->start -= want;
	return 1;
}

/* 1: the previous line, without its newline; 0: this file is done. */
static int previous_line(struct audit_back *b, struct audit_record *ret, enum lines_state *ret_state)
{
	for (;;) {
		/* The last byte in the buffer is the newline that ends the line; within a long line it was
		 * dropped. */
		size_t have = b->end - b->first, tail = b->is_long ? 0 : 1;
		const char *nl = have > tail ? memrchr(b->buf + b->first, '\n', have - tail) : NULL;
		size_t from = nl ? (size_t)(nl - b->buf) + 1 : b->first;
		int r = nl ? 1 : fill_backwards(b);

		if (r < 0)
			return r;
		if (!nl && r > 0)
			continue;
		if (!nl && have == 0 && !b->is_long)
			return 0;
		*ret_state = b->is_long || b->end - from > LINE_MAX_LEN + 1 ? LINES_LONG : LINES_WHOLE;
		ret->text = *ret_state == LINES_LONG ? NULL : b->buf + from;
		ret->len = *ret_state == LINES_LONG ? 0 : b->end - from - 1;
		b->end = from;
		b->is_long = false;
		return 1;
	}
}

int audit_back_next(struct audit_back *b, struct audit_record *ret, struct err *e)
{
	enum lines_state state;
	int r = 1;

	while (r > 0) {
		if (b->fd < 0) {
			r = open_previous_file(b);
			continue;
		}
		r = previous_line(b, ret, &state);
		if (r == 0) {
			b->fd = fd_close(b->fd);
			r = 1;
			continue;
		}
		if (r > 0 && match_line(&b->match, state, ret) &&
		    (!ret->is_event || ret->line.seq < b->before))
			return 1;
	}
	return r < 0 ? err_sys(e, r, "cannot read the audit log") : 0;
}

int audit_last_seq(int state_fd, uint64_t *ret, struct err *e)
{
	CLEANUP(audit_back_freep) struct audit_back *b = NULL;
	const struct audit_filter all = { 0 };
	struct audit_record rec = { 0 };
	int r = audit_back_open(&b, state_fd, &all, UINT64_MAX, e);

	*ret = 0;
	if (r < 0 || !b)
		return r;
	while ((r = audit_back_next(b, &rec, e)) > 0) {
		if (rec.is_event) {
			*ret = rec.line.seq;
			return 0;
		}
	}
	return r;
}
