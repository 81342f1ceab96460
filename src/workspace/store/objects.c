/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store of checkpoint content by hash: adding, reading back with a check, syncing, and removing what no manifest names
 * (objects.h). Objects are never modified (objects.O1).
 */
#include "workspace/store/objects.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/vec.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>

#define PAGE 4096u
#define FLOOR_BYTES (512ULL << 20)
#define FLOOR_PERCENT 3
#define INODES_PERCENT 2
#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)

/* "ab/HASH" */
#define OBJECT_PATH (3 + HASH_HEX_LEN + 1)

static void object_path(const unsigned char hash[HASH_LEN], char out[OBJECT_PATH])
{
	hash_hex(hash, 1, out);
	out[2] = '/';
	hash_hex(hash, HASH_LEN, out + 3);
}

/* Lets ext4 spread the 256 directories over its block groups, as sandbox/state/state.c does for runs. Failure is harmless. */
static void set_spread_hint(int fd)
{
	int flags = 0;

	if (ioctl(fd, FS_IOC_GETFLAGS, &flags) < 0)
		return;
	flags |= FS_TOPDIR_FL;
	(void)!ioctl(fd, FS_IOC_SETFLAGS, &flags);
}

int objects_open(struct objects *s, int state_fd, struct err *e)
{
	bool made;

	*s = OBJECTS_INIT;
	s->space = malloc(OBJECTS_CHUNK);
	if (!s->space)
		return err_set(e, -ENOMEM, "out of memory");
	made = mkdirat(state_fd, "objects", 0700) == 0;
	if (!made && errno != EEXIST)
		return err_sys(e, -errno, "cannot make a place for checkpoints in the state directory");
	s->fd = openat(state_fd, "objects", DIR_FLAGS);
	if (s->fd < 0)
		return err_sys(e, -errno, "cannot open the directory of checkpoints' content");
	if (made)
		set_spread_hint(s->fd);
	s->lock_fd = openat(s->fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	return s->lock_fd < 0 ? err_sys(e, -errno, "cannot open the lock of checkpoints' content") : 0;
}

void objects_release(struct objects *s)
{
	while (s->n_unsynced)
		fd_close(s->unsynced[--s->n_unsynced]);
	s->fd = fd_close(s->fd);
	s->lock_fd = fd_close(s->lock_fd);
	free(s->space);
	s->space = NULL;
}

int objects_lock(struct objects *s, struct err *e)
{
	while (flock(s->lock_fd, LOCK_SH) < 0) {
		if (errno != EINTR)
			return err_sys(e, -errno, "cannot lock checkpoints' content");
	}
	return 0;
}

int objects_lock_alone(struct objects *s, unsigned wait_ms, struct err *e)
{
	const struct timespec pause = { .tv_nsec = 10000000 };

	for (unsigned waited = 0; flock(s->lock_fd, LOCK_EX | LOCK_NB) < 0; waited += 10) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return err_sys(e, -errno, "cannot lock checkpoints' content");
		if (waited >= wait_ms)
			return err_set(e, -EBUSY, "a checkpoint is being made or restored");
		nanosleep(&pause, NULL);
	}
	return 0;
}

void objects_unlock(struct objects *s)
{
	(void)!flock(s->lock_fd, LOCK_UN);
}

/* --- free space ------------------------------------------------------------------------------------------------- */

uint64_t objects_free_floor(const struct objects *s)
{
	uint64_t all, floor;
	struct statvfs v;

	if (s->fd < 0 || fstatvfs(s->fd, &v) < 0)
		return 0;
	all = (uint64_t)v.f_blocks * v.f_frsize;
	floor = all / 100 * FLOOR_PERCENT;
	floor = floor > FLOOR_BYTES ? floor : FLOOR_BYTES;
	return floor < all / 2 ? floor : all / 2;
}

bool objects_lack_room(const struct objects *s, uint64_t floor, uint64_t bytes)
{
	struct statvfs v;
	uint64_t left;

	if (s->fd < 0 || fstatvfs(s->fd, &v) < 0)
		return false;
	left = (uint64_t)v.f_bavail * v.f_frsize;
	/* Some file systems have no fixed number of inodes, and report 0. */
	return left < floor || left - floor < bytes ||
	       (v.f_files && v.f_favail < v.f_files / 100 * INODES_PERCENT);
}

/* A file with holes needs less than its size. */
static bool lacks_room_for(const struct objects *s, int from, uint64_t size)
{
	struct stat st;

	if (!s->floor)
		return false;
	if (fstat(from, &st) == 0 && (uint64_t)st.st_blocks * 512 < size)
		size = (uint64_t)st.st_blocks * 512;
	return objects_lack_room(s, s->floor, size);
}

/* --- hashing and copying --------------------------------------------------------------------------------------- */

static bool is_all_zero(const char *p, size_t len)
{
	return p[0] == 0 && memcmp(p, p + 1, len - 1) == 0;
}

static int object_write_at(int fd, const char *p, size_t len, uint64_t at)
{
	while (len) {
		ssize_t n = pwrite(fd, p, len, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		p += n;
		at += (uint64_t)n;
		len -= (size_t)n;
	}
	return 0;
}

static void hash_page_offset(struct hash_blake *h, uint64_t at)
{
	unsigned char raw[8];

	for (unsigned i = 0; i < sizeof(raw); i++)
		raw[i] = (unsigned char)(at >> (8 * i));
	hash_blake_add(h, raw, sizeof(raw));
}

/* Hashes the pages of a chunk, and writes runs of those that are not all zeros. */
static int hash_chunk(struct hash_blake *h, const char *p, size_t len, uint64_t at, int to)
{
	size_t run = 0, off = 0;
	int r = 0;

	while (off < len && r == 0) {
		size_t n = len - off < PAGE ? len - off : PAGE;

		if (!is_all_zero(p + off, n)) {
			hash_page_offset(h, at + off);
			hash_blake_add(h, p + off, n);
			run += n;
			off += n;
			continue;
		}
		if (run && to >= 0)
			r = object_write_at(to, p + off - run, run, at + off - run);
		run = 0;
		off += n;
	}
	return r == 0 && run && to >= 0 ? object_write_at(to, p + off - run, run, at + off - run) : r;
}

/* The offset of the next data from `at` on, rounded down to a page; `size` when there is none. */
static uint64_t skip_hole(int fd, uint64_t at, uint64_t size)
{
	off_t d = lseek(fd, (off_t)at, SEEK_DATA);

	if (d < 0)
		return errno == ENXIO ? size : at;
	d -= d % PAGE;
	return (uint64_t)d > at ? (uint64_t)d : at;
}

static int hash_and_copy(struct objects *s, int from, int to, uint64_t size, unsigned char ret[HASH_LEN])
{
	struct hash_blake h;
	uint64_t at = 0;
	int r;

	hash_blake_begin(&h);
	while (at < size) {
		size_t want;
		ssize_t n;

		if (size > OBJECTS_CHUNK)
			at = skip_hole(from, at, size);
		want = size - at < OBJECTS_CHUNK ? (size_t)(size - at) : OBJECTS_CHUNK;
		if (!want)
			break;
		n = fd_read_at(from, s->space, want, at);
		if (n < 0)
			return (int)n;
		memset(s->space + n, 0, want - (size_t)n);
		r = hash_chunk(&h, s->space, want, at, to);
		if (r < 0)
			return r;
		at += want;
	}
	hash_page_offset(&h, size);
	hash_blake_end(&h, ret);
	return to >= 0 && ftruncate(to, (off_t)size) < 0 ? -errno : 0;
}

int objects_hash(struct objects *s, int from, uint64_t size, unsigned char ret[HASH_LEN])
{
	return hash_and_copy(s, from, -1, size, ret);
}

/* Copies a file and hashes the copy: by shared blocks where the file system can, else while copying. */
static int copy_and_hash(struct objects *s, int from, int to, uint64_t size, unsigned char ret[HASH_LEN])
{
	if (!s->no_clone && size >= PAGE) {
		if (ioctl(to, FICLONE, from) == 0) {
			if (ftruncate(to, (off_t)size) < 0)
				return -errno;
			return hash_and_copy(s, to, -1, size, ret);
		}
		s->no_clone = errno == EOPNOTSUPP || errno == EXDEV || errno == EINVAL || errno == ENOTTY;
	}
	return hash_and_copy(s, from, to, size, ret);
}

/* --- in and out -------------------------------------------------------------------------------------------------- */

/* Does the object exist? One of the wrong length was torn by a power cut and is removed. */
static int has_object(struct objects *s, const char *path, uint64_t size)
{
	struct stat st;

	if (fstatat(s->fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (S_ISREG(st.st_mode) && (uint64_t)st.st_size == size)
		return 1;
	return unlinkat(s->fd, path, 0) < 0 && errno != ENOENT ? -errno : 0;
}

/* Gives a complete object its name (objects.O1). 1: it is new; 0: another process has stored the same meanwhile. */
static int publish_object(struct objects *s, int fd, const char *path, uint64_t size)
{
	char proc[32], dir[3] = { path[0], path[1], '\0' };
	int r = 0;

	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	for (int tries = 0; tries < 8; tries++) {
		if (linkat(AT_FDCWD, proc, s->fd, path, AT_SYMLINK_FOLLOW) == 0)
			return 1;
		switch (errno) {
		case ENOENT: /* the copy has another hash than the file had, and its directory is missing */
			if (mkdirat(s->fd, dir, 0700) < 0 && errno != EEXIST)
				return -errno;
			break;
		case EEXIST:
			r = has_object(s, path, size);
			if (r != 0)
				return r < 0 ? r : 0;
			break;
		default:
			return -errno;
		}
	}
	return -EAGAIN;
}

static void note_unsynced(struct objects *s, int fd)
{
	struct stat st;

	if (s->n_unsynced < OBJECTS_SYNC_FEW) {
		int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);

		if (copy >= 0)
			s->unsynced[s->n_unsynced++] = copy;
		else
			s->no_fd = true;
	}
	s->new_objects++;
	if (fstat(fd, &st) == 0)
		s->new_bytes += (uint64_t)st.st_blocks * 512;
}

/* A new unnamed file in the directory of its object, so that the file system places it near the others. */
static int open_new_object(struct objects *s, const char *path)
{
	char dir[3] = { path[0], path[1], '\0' };
	int fd = openat(s->fd, dir, O_RDWR | O_TMPFILE | O_CLOEXEC, 0400);

	if (fd < 0 && errno == ENOENT) {
		if (mkdirat(s->fd, dir, 0700) < 0 && errno != EEXIST)
			return -errno;
		fd = openat(s->fd, dir, O_RDWR | O_TMPFILE | O_CLOEXEC, 0400);
	}
	return fd < 0 ? -errno : fd;
}

/*
 * The file is hashed first: most objects exist already, and a file that is made and discarded again costs more than reading
 * twice (ext4 avoids the inodes that were freed in the last minutes, one by one). If the file changes between hashing and
 * copying, the hash of the copy counts.
 */
int objects_put(struct objects *s, int from, uint64_t size, unsigned char ret[HASH_LEN])
{
	unsigned char hash[HASH_LEN];
	char path[OBJECT_PATH];
	autoclose int fd = -1;
	int r = hash_and_copy(s, from, -1, size, hash);

	if (r < 0)
		return r;
	object_path(hash, path);
	r = has_object(s, path, size);
	if (r == 0 && lacks_room_for(s, from, size))
		return -ENOSPC;
	if (r == 0) {
		fd = open_new_object(s, path);
		r = fd < 0 ? fd : copy_and_hash(s, from, fd, size, hash);
		object_path(hash, path);
		r = r < 0 ? r : publish_object(s, fd, path, size);
		if (r == 1)
			note_unsynced(s, fd);
	}
	if (r < 0)
		return r;
	memcpy(ret, hash, HASH_LEN);
	return 0;
}

int objects_open_one(struct objects *s, const unsigned char hash[HASH_LEN])
{
	char path[OBJECT_PATH];
	struct stat st;
	int fd;

	object_path(hash, path);
	fd = openat(s->fd, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		fd_close(fd);
		return -EBADMSG;
	}
	return fd;
}

int objects_get(struct objects *s, const unsigned char hash[HASH_LEN], uint64_t size, int to)
{
	autoclose int fd = objects_open_one(s, hash);
	unsigned char got[HASH_LEN];
	struct stat st;
	int r;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if ((uint64_t)st.st_size != size)
		return -EBADMSG;
	r = copy_and_hash(s, fd, to, size, got);
	if (r == 0 && memcmp(got, hash, HASH_LEN) != 0)
		r = -EBADMSG;
	return r;
}

int objects_sync(struct objects *s, struct err *e)
{
	if (s->by_another || s->no_fd || s->new_objects > OBJECTS_SYNC_FEW) {
		if (syncfs(s->fd) < 0)
			return err_sys(e, -errno, "cannot bring the checkpoint to the disk");
		return 0;
	}
	for (unsigned i = 0; i < s->n_unsynced; i++) {
		if (fsync(s->unsynced[i]) < 0)
			return err_sys(e, -errno, "cannot bring the checkpoint to the disk");
	}
	return 0;
}

/* --- what is kept --------------------------------------------------------------------------------------------------- */

int hashes_add(struct hashes *h, const unsigned char hash[HASH_LEN])
{
	if (VEC_ROOM(h->v, h->n, h->cap, VEC_NO_MAX) < 0)
		return -ENOMEM;
	memcpy(h->v[h->n++], hash, HASH_LEN);
	return 0;
}

static int compare_hashes(const void *a, const void *b)
{
	return memcmp(a, b, HASH_LEN);
}

void hashes_sort(struct hashes *h)
{
	size_t kept = 0;

	if (!h->n)
		return;
	qsort(h->v, h->n, HASH_LEN, compare_hashes);
	for (size_t i = 0; i < h->n; i++) {
		if (kept == 0 || memcmp(h->v[kept - 1], h->v[i], HASH_LEN) != 0)
			memmove(h->v[kept++], h->v[i], HASH_LEN);
	}
	h->n = kept;
}

bool hashes_have(const struct hashes *h, const unsigned char hash[HASH_LEN])
{
	return h->n && bsearch(hash, h->v, h->n, HASH_LEN, compare_hashes);
}

void hashes_release(struct hashes *h)
{
	free(h->v);
	*h = (struct hashes){ 0 };
}

struct sweep {
	const struct hashes *keep;
	struct objects_use *gone, *left;
};

static int sweep_object(const struct sweep *w, int dir, const char *name)
{
	unsigned char hash[HASH_LEN];
	struct objects_use *use;
	struct stat st;

	if (strlen(name) != HASH_HEX_LEN || hash_unhex(name, HASH_LEN, hash) < 0)
		return 0;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	use = hashes_have(w->keep, hash) ? w->left : w->gone;
	if (use == w->gone && unlinkat(dir, name, 0) < 0)
		return -errno;
	use->objects++;
	use->bytes += (uint64_t)st.st_blocks * 512;
	return 0;
}

static int sweep_object_dir(const struct sweep *w, int objects, const char *name)
{
	int fd = openat(objects, name, DIR_FLAGS), r = 0;
	autoclosedir DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *de;

	if (!d) {
		fd_close(fd);
		return errno == ENOENT ? 0 : -errno;
	}
	while (r == 0 && (de = readdir(d)))
		r = sweep_object(w, fd, de->d_name);
	return r;
}

int objects_sweep(struct objects *s, const struct hashes *keep, struct objects_use *ret_gone,
		  struct objects_use *ret_left, struct err *e)
{
	const struct sweep w = { keep, ret_gone, ret_left };
	int r = 0;

	*ret_gone = *ret_left = (struct objects_use){ 0 };
	for (unsigned i = 0; i < 256 && r == 0; i++) {
		char name[3];

		snprintf(name, sizeof(name), "%02x", i);
		r = sweep_object_dir(&w, s->fd, name);
	}
	return r < 0 ? err_sys(e, r, "cannot remove content that no checkpoint needs") : 0;
}

void objects_measure(struct objects *s, const struct hashes *set, struct objects_use *ret)
{
	*ret = (struct objects_use){ 0 };
	for (size_t i = 0; i < set->n; i++) {
		char path[OBJECT_PATH];
		struct stat st;

		object_path(set->v[i], path);
		if (fstatat(s->fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		ret->objects++;
		ret->bytes += (uint64_t)st.st_blocks * 512;
	}
}
