/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unpacks an archive into a tree. The stream may be hostile: copy.U1 to copy.U4 hold whatever it contains.
 */
#include "base/cleanup.h"
#include "sandbox/init/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define FEED_MAX (PACK_HEAD + PACK_NAME_MAX + PACK_DATA_MAX)

static int copy_failed(struct unpacker *u, int code, const char *what, const char *name)
{
	if (!u->fail.code) {
		u->fail.code = code;
		u->fail.what = what;
		pack_set_name(u->fail.name, name);
	}
	return code;
}

void unpacker_init(struct unpacker *u, const struct copy_target *t, uint64_t max_entries, uint64_t max_bytes)
{
	u->state = (struct pack_state){ 0 };
	u->in = BUF_INIT;
	u->parent = t->dir;
	u->into = t->into;
	u->want_dir = t->want_dir;
	u->depth = 0;
	u->file = -1;
	u->skip = false;
	u->skipped = 0;
	u->may = NULL;
	u->entries = u->bytes = u->cut = 0;
	u->max_entries = max_entries;
	u->max_bytes = max_bytes;
	u->fail = (struct copy_fail){ 0 };
	memcpy(u->root, t->name, sizeof(u->root));
	u->mask = umask(0);
	umask(u->mask);
}

static struct timespec nsec_to_timespec(int64_t ns)
{
	struct timespec ts = { .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };

	if (ts.tv_nsec < 0) {
		ts.tv_nsec += 1000000000;
		ts.tv_sec--;
	}
	return ts;
}

/* The result is ignored on purpose: a time that the file system cannot store is no reason to fail. */
static void set_mtime(int fd, const char *path, int64_t ns)
{
	const struct timespec ts[2] = { { .tv_nsec = UTIME_OMIT }, nsec_to_timespec(ns) };
	int r = path ? utimensat(fd, path, ts, AT_SYMLINK_NOFOLLOW) : futimens(fd, ts);

	(void)r;
}

/* The place of the current entry: its directory, and its name there. */
static const char *entry_place(const struct unpacker *u, const struct pack_rec *rec, int *ret_dir)
{
	if (u->depth == 0) {
		*ret_dir = u->parent;
		return u->root;
	}
	*ret_dir = u->dir[u->depth - 1].fd;
	return rec->name;
}

/* copy.U2: unlinks an existing name, so that the file or link that follows is a new one. */
static int clear_name(struct unpacker *u, int dir, const char *name)
{
	if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
		return 0;
	return copy_failed(u, errno == EPERM ? -EISDIR : -errno, "cannot replace", name);
}

static int unpack_file(struct unpacker *u, const struct pack_rec *rec)
{
	int dir, r;
	const char *name = entry_place(u, rec, &dir);

	r = clear_name(u, dir, name);
	if (r < 0)
		return r;
	u->file = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, rec->mode & 0777);
	if (u->file < 0)
		return copy_failed(u, -errno, "cannot create", name);
	u->file_mtime = rec->mtime;
	return 0;
}

/* The target of a symlink with a NUL at its end; valid until the next call. */
static const char *link_target(const struct pack_rec *rec)
{
	static char target[PACK_LINK_MAX + 1];

	memcpy(target, rec->data, rec->len);
	target[rec->len] = '\0';
	return target;
}

static int unpack_link(struct unpacker *u, const struct pack_rec *rec)
{
	const char *target = link_target(rec);
	int dir, r;
	const char *name = entry_place(u, rec, &dir);

	r = clear_name(u, dir, name);
	if (r < 0)
		return r;
	if (symlinkat(target, dir, name) < 0)
		return copy_failed(u, -errno, "cannot create", name);
	set_mtime(dir, name, rec->mtime);
	return 0;
}

static int unpack_directory(struct unpacker *u, const struct pack_rec *rec)
{
	struct unpack_dir *d = &u->dir[u->depth];
	int dir;
	const char *name = entry_place(u, rec, &dir);

	d->ours = false;
	d->mode = rec->mode & 0777 & ~u->mask;
	d->mtime = rec->mtime;
	if (u->depth == 0 && u->into) {
		d->fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	} else {
		/* Closed to others until its own mode is set. */
		d->ours = mkdirat(dir, name, 0700) == 0;
		if (!d->ours && errno != EEXIST)
			return copy_failed(u, -errno, "cannot create the directory", name);
		d->fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	}
	if (d->fd < 0)
		return copy_failed(u, -errno, "cannot put a directory at", name);
	u->depth++;
	return 0;
}

static int unpacker_leave_dir(struct unpacker *u)
{
	struct unpack_dir *d = &u->dir[--u->depth];
	int r = 0;

	if (d->ours) {
		if (fchmod(d->fd, d->mode) < 0)
			r = copy_failed(u, -errno, "cannot set the mode of a directory", "");
		set_mtime(d->fd, NULL, d->mtime);
	}
	d->fd = fd_close(d->fd);
	return r;
}

static bool is_all_zeros(const uint8_t *p, size_t len)
{
	return len && p[0] == 0 && memcmp(p, p + 1, len - 1) == 0;
}

/* The runtime of coffer-init has no lseek(). */
static int move_in_file(struct unpacker *u, long by)
{
	return syscall(SYS_lseek, (long)u->file, by, 1L /* SEEK_CUR */, 0L) < 0
		       ? copy_failed(u, -errno, "cannot write a file", "")
		       : 0;
}

static int write_to_file(struct unpacker *u, const struct pack_rec *rec)
{
	const uint8_t *p = rec->data;
	size_t len = rec->len;

	while (len) {
		ssize_t n = write(u->file, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return copy_failed(u, -errno, "cannot write a file", "");
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

/* Zeros become a hole, so that the copy of a file with holes does not use more of the disk than the file. */
static int unpack_file_data(struct unpacker *u, const struct pack_rec *rec)
{
	u->bytes += rec->len;
	if (u->bytes > u->max_bytes)
		return copy_failed(u, -EFBIG, "more bytes than allowed", "");
	if (u->skip)
		return 0;
	u->in_hole = is_all_zeros(rec->data, rec->len);
	return u->in_hole ? move_in_file(u, (long)rec->len) : write_to_file(u, rec);
}

/* A hole at the end counts only with a byte after it. */
static int unpack_file_end(struct unpacker *u, const struct pack_rec *rec)
{
	u->cut += rec->cut;
	if (u->skip) {
		u->skip = false;
		return 0;
	}
	if (u->in_hole) {
		const struct pack_rec last = { .data = (const uint8_t *)"", .len = 1 };
		int r = move_in_file(u, -1);

		u->in_hole = false;
		r = r < 0 ? r : write_to_file(u, &last);
		if (r < 0)
			return r;
	}
	set_mtime(u->file, NULL, u->file_mtime);
	u->file = fd_close(u->file);
	return 0;
}

static int unpacker_may_make(struct unpacker *u, const struct pack_rec *rec)
{
	int dir, r;
	const char *name = entry_place(u, rec, &dir);
	bool is_dir = rec->type == PACK_DIR;

	if (!u->may)
		return 1;
	r = u->may(u->may_ctx, u->depth, dir, name, is_dir, rec->type == PACK_LINK ? link_target(rec) : NULL);
	u->skip = r == 0 && rec->type == PACK_FILE;
	u->skipped = r == 0 && is_dir;
	return r < 0 ? copy_failed(u, r, "cannot judge", name) : r;
}

/* A record of an entry that is left out: tracks the depth and writes nothing. */
static int skip_left_out_record(struct unpacker *u, const struct pack_rec *rec)
{
	if (rec->type == PACK_DIR)
		u->skipped++;
	else if (rec->type == PACK_LEAVE)
		u->skipped--;
	u->bytes += rec->type == PACK_DATA ? rec->len : 0;
	return u->bytes > u->max_bytes ? copy_failed(u, -EFBIG, "more bytes than allowed", "") : 0;
}

static int unpack_record(struct unpacker *u, const struct pack_rec *rec)
{
	bool is_entry = rec->type == PACK_DIR || rec->type == PACK_FILE || rec->type == PACK_LINK;

	if (is_entry && ++u->entries > u->max_entries)
		return copy_failed(u, -EFBIG, "more files than allowed", "");
	if (is_entry && u->depth == 0 && (u->into || u->want_dir) && rec->type != PACK_DIR)
		return copy_failed(u, -ENOTDIR, "the destination is a directory, the source is not", "");
	if (is_entry) {
		int r = u->skipped ? skip_left_out_record(u, rec) : unpacker_may_make(u, rec);

		if (r <= 0)
			return r;
	}
	if (u->skipped)
		return skip_left_out_record(u, rec);
	switch (rec->type) {
	case PACK_DIR:
		return unpack_directory(u, rec);
	case PACK_FILE:
		return unpack_file(u, rec);
	case PACK_LINK:
		return unpack_link(u, rec);
	case PACK_DATA:
		return unpack_file_data(u, rec);
	case PACK_CLOSE:
		return unpack_file_end(u, rec);
	case PACK_LEAVE:
		return unpacker_leave_dir(u);
	default:
		return 0;
	}
}

int unpacker_feed(struct unpacker *u, const void *data, size_t len)
{
	size_t done = 0;

	if (u->fail.code)
		return u->fail.code;
	buf_add(&u->in, data, len);
	if (buf_error(&u->in))
		return copy_failed(u, -ENOMEM, "out of memory", "");
	for (;;) {
		struct pack_rec rec;
		long n = pack_parse(&u->state, u->in.data + done, u->in.len - done, &rec);
		int r;

		if (n < 0)
			return copy_failed(u, -EPROTO, "the archive is not well formed", "");
		if (n == 0)
			break;
		r = unpack_record(u, &rec);
		if (r < 0)
			return r;
		done += (size_t)n;
	}
	buf_consume(&u->in, done);
	/* A record that is not complete is shorter than the longest one. */
	BUG_ON(u->in.len > FEED_MAX);
	return 0;
}

void unpacker_release(struct unpacker *u)
{
	while (u->depth) {
		u->depth--;
		u->dir[u->depth].fd = fd_close(u->dir[u->depth].fd);
	}
	u->file = fd_close(u->file);
	buf_release(&u->in);
}
