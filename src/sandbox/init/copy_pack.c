/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks a tree into an archive, one record at a time, so that the receiver's pace limits the sender. Opens only regular
 * files, directories and symlinks; other things are skipped and counted.
 */
#include "base/cleanup.h"
#include "sandbox/init/copy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define ENTS_SIZE 8192

static void packer_note_failure(struct packer *p, int code, const char *what, const char *name)
{
	p->skipped++;
	if (p->fail.code)
		return;
	p->fail.code = code;
	p->fail.what = what;
	pack_set_name(p->fail.name, name);
}

static int64_t mtime_of(const struct stat *st)
{
	return (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

static void add_entry_record(struct buf *out, enum pack_type type, const char *name, const struct stat *st)
{
	struct pack_rec r = { .type = type, .mode = st->st_mode & 0777, .mtime = mtime_of(st) };

	pack_set_name(r.name, name);
	pack_add(out, &r);
}

static void add_plain_record(struct buf *out, enum pack_type type, bool cut)
{
	struct pack_rec r = { .type = type, .cut = cut };

	pack_add(out, &r);
}

static int add_link_record(struct packer *p, struct buf *out, int dirfd, const char *path, const char *name,
			   const struct stat *st)
{
	static uint8_t target[PACK_LINK_MAX + 1];
	struct pack_rec r = { .type = PACK_LINK, .mtime = mtime_of(st), .data = target };
	ssize_t n = readlinkat(dirfd, path, (char *)target, sizeof(target));

	if (n <= 0 || n > PACK_LINK_MAX) {
		packer_note_failure(p, n < 0 ? -errno : -ENAMETOOLONG, "cannot read the link", path);
		return 0;
	}
	pack_set_name(r.name, name);
	r.len = (uint32_t)n;
	pack_add(out, &r);
	return 1;
}

static int packer_enter_dir(struct packer *p, struct buf *out, int fd, const char *name,
			    const struct stat *st)
{
	struct pack_level *l = &p->level[p->depth];

	l->ents = malloc(ENTS_SIZE);
	if (!l->ents) {
		fd_close(fd);
		return -ENOMEM;
	}
	l->fd = fd;
	l->pos = l->end = 0;
	p->depth++;
	add_entry_record(out, PACK_DIR, name, st);
	return 1;
}

/*
 * Opens the entry that was stat()ed and checks that it is still of that type: another process may have replaced it, and
 * a device or fifo must not be read.
 */
static int open_unchanged(int dirfd, const char *path, bool follow, struct stat *st)
{
	int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (follow ? 0 : O_NOFOLLOW);
	mode_t type = st->st_mode & S_IFMT;
	int fd = openat(dirfd, path, flags);

	if (fd < 0)
		return -errno;
	if (fstat(fd, st) < 0 || (st->st_mode & S_IFMT) != type) {
		fd_close(fd);
		return -ESTALE;
	}
	return fd;
}

/* One entry. 1: its record was added, 0: skipped (and counted), negative: fatal. */
static int pack_entry(struct packer *p, struct buf *out, int dirfd, const char *path, const char *name,
		      bool follow)
{
	struct stat st;
	int fd;

	if (fstatat(dirfd, path, &st, follow ? 0 : AT_SYMLINK_NOFOLLOW) < 0) {
		packer_note_failure(p, -errno, "cannot find", path);
		return 0;
	}
	if (S_ISLNK(st.st_mode))
		return add_link_record(p, out, dirfd, path, name, &st);
	if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode)) {
		packer_note_failure(p, -EOPNOTSUPP, "skipped a socket, device or pipe:", path);
		return 0;
	}
	if (S_ISDIR(st.st_mode) && p->depth >= PACK_DEPTH_MAX) {
		packer_note_failure(p, -ENAMETOOLONG, "the tree is too deep at", path);
		return 0;
	}
	fd = open_unchanged(dirfd, path, follow, &st);
	if (fd < 0) {
		packer_note_failure(p, fd, "cannot read", path);
		return 0;
	}
	if (S_ISDIR(st.st_mode))
		return packer_enter_dir(p, out, fd, name, &st);
	p->file = fd;
	add_entry_record(out, PACK_FILE, name, &st);
	return 1;
}

int packer_open(struct packer *p, int dirfd, const char *path, bool follow, struct buf *out)
{
	int r;

	p->depth = 0;
	p->file = -1;
	p->done = false;
	p->skipped = 0;
	p->fail = (struct copy_fail){ 0 };
	r = pack_entry(p, out, dirfd, path, "", follow);
	if (r == 0)
		return p->fail.code;
	return r < 0 ? r : buf_error(out);
}

static int packer_add_file_data(struct packer *p, struct buf *out)
{
	uint8_t *rec = (uint8_t *)buf_reserve(out, PACK_HEAD + PACK_DATA_MAX);
	ssize_t n;

	if (!rec)
		return buf_error(out);
	n = read(p->file, rec + PACK_HEAD, PACK_DATA_MAX);
	if (n > 0) {
		pack_put_data_head(rec, (uint32_t)n);
		out->len += PACK_HEAD + (size_t)n;
		return 1;
	}
	if (n < 0 && errno == EINTR)
		return 1;
	if (n < 0)
		packer_note_failure(p, -errno, "cannot read a file to its end", "");
	add_plain_record(out, PACK_CLOSE, n < 0);
	p->file = fd_close(p->file);
	return 1;
}

static bool is_dot_entry(const char *s)
{
	return s[0] == '.' && (!s[1] || (s[1] == '.' && !s[2]));
}

/* The next name of the innermost directory, NULL at its end or when it cannot be read. */
static const char *packer_next_name(struct packer *p, struct pack_level *l)
{
	for (;;) {
		const struct dirent64 *de;

		if (l->pos >= l->end) {
			l->pos = 0;
			l->end = getdents64(l->fd, l->ents, ENTS_SIZE);
			if (l->end < 0)
				packer_note_failure(p, -errno, "cannot list a directory", "");
			if (l->end <= 0)
				return NULL;
		}
		de = (const struct dirent64 *)(const void *)(l->ents + l->pos);
		l->pos += de->d_reclen;
		if (!is_dot_entry(de->d_name))
			return de->d_name;
	}
}

static void leave_packed_dir(struct packer *p)
{
	struct pack_level *l = &p->level[--p->depth];

	l->fd = fd_close(l->fd);
	free(l->ents);
	l->ents = NULL;
}

int packer_next(struct packer *p, struct buf *out)
{
	struct pack_level *l;
	const char *name;
	int r;

	if (p->done)
		return 0;
	if (p->file >= 0)
		return packer_add_file_data(p, out);
	if (p->depth == 0) {
		add_plain_record(out, PACK_END, false);
		p->done = true;
		return buf_error(out);
	}
	l = &p->level[p->depth - 1];
	name = packer_next_name(p, l);
	if (!name) {
		leave_packed_dir(p);
		add_plain_record(out, PACK_LEAVE, false);
		return buf_error(out) ? buf_error(out) : 1;
	}
	r = pack_entry(p, out, l->fd, name, name, false);
	if (r < 0)
		return r;
	return buf_error(out) ? buf_error(out) : 1;
}

void packer_release(struct packer *p)
{
	while (p->depth)
		leave_packed_dir(p);
	p->file = fd_close(p->file);
}
