/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the upper layer of an overlay from the host (layer.h). A sandbox wrote it: no symlink is followed, nothing that could
 * block is opened, and every read is bounded.
 */
#include "workspace/tree/layer.h"

#include "workspace/tree/trigger.h"

#include "base/cleanup.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/xattr.h>

#define RESOLVE_INSIDE (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS)

bool layer_is_whiteout(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == 0;
}

bool layer_is_opaque(int dirfd)
{
	char v;

	return fgetxattr(dirfd, "user.overlay.opaque", &v, 1) == 1 && v == 'y';
}

/* An attribute of the entry itself, whatever it is; -1 when it has none. */
static ssize_t get_entry_xattr(int dirfd, const char *name, const char *attr, void *out, size_t size)
{
	autoclose int fd = openat(dirfd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	char proc[32];

	if (fd < 0)
		return -1;
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	return getxattr(proc, attr, out, size);
}

bool layer_has_origin(int dirfd, const char *name)
{
	return get_entry_xattr(dirfd, name, "user.overlay.origin", NULL, 0) >= 0;
}

size_t layer_capability(int dirfd, const char *name, unsigned char ret[LAYER_CAP_MAX])
{
	ssize_t n = get_entry_xattr(dirfd, name, "security.capability", ret, LAYER_CAP_MAX);

	if (n < 0 && errno == ERANGE) /* no capability is that long, but there is one */
		return LAYER_CAP_MAX;
	return n < 0 ? 0 : (size_t)n;
}

int layer_open_dir(int root, const char *path, size_t len)
{
	autoclose int fd = -1;
	char part[PATH_MAX];
	int from = root;

	if (len == 0) {
		int copy = openat(root, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);

		return copy < 0 ? -errno : copy;
	}
	while (len) {
		size_t n = len < sizeof(part) ? len : sizeof(part) - 1;
		int next;

		if (n < len) { /* cut at a slash */
			while (n && path[n] != '/')
				n--;
			if (!n)
				return -ENAMETOOLONG;
		}
		memcpy(part, path, n);
		part[n] = '\0';
		next = fd_openat2(from, part, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0, RESOLVE_INSIDE);
		if (next < 0)
			return next;
		fd_close(fd);
		from = fd = next;
		path += n;
		len -= n;
		if (len && *path == '/') {
			path++;
			len--;
		}
	}
	return TAKE_FD(fd);
}

int layer_open_parent(int root, const char *path, const char **ret_name)
{
	const char *slash = strrchr(path, '/');

	*ret_name = slash ? slash + 1 : path;
	return layer_open_dir(root, path, slash ? (size_t)(slash - path) : 0);
}

int layer_push(struct chain *c, const char *name, mode_t *ret_restore)
{
	int dir = chain_fd(c);
	int fd = chain_push(c, name);
	struct stat st;

	*ret_restore = 0;
	if ((fd < 0 && fd != -EACCES) || (fd >= 0 && geteuid() == 0))
		return fd;
	if (fd >= 0 ? fstat(fd, &st) < 0 : fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return -ENOTDIR;
	if (fd >= 0 && (st.st_mode & 0500) == 0500)
		return fd;
	if (st.st_uid != geteuid()) {
		/* Without search permission its names could be read, and nothing else. */
		if (fd < 0 || faccessat(fd, ".", X_OK, AT_EACCESS) == 0)
			return fd;
		fd = chain_pop(c);
		return fd < 0 ? fd : -EACCES;
	}
	if (fd_chmod_nofollow(dir, name, (st.st_mode & 07777) | 0700) < 0)
		return fd;
	if (fd < 0)
		fd = chain_push(c, name);
	if (fd >= 0)
		*ret_restore = st.st_mode;
	return fd;
}

int layer_pop(struct chain *c, mode_t restore)
{
	/* Reopening the level above goes through this one, so its mode is restored last. */
	autoclose int fd = restore ? fcntl(chain_fd(c), F_DUPFD_CLOEXEC, 0) : -1;
	int r = chain_pop(c);

	if (restore && fchmod(fd, restore & 07777) < 0 && r == 0)
		r = -errno;
	return r;
}

static int open_own_entry(int dirfd, const char *name, int flags, mode_t type)
{
	int fd = openat(dirfd, name, flags);
	struct stat st;

	if (fd < 0 && errno == EACCES && fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    (st.st_mode & S_IFMT) == type && st.st_uid == geteuid()) {
		int saved = EACCES;

		if (fd_chmod_nofollow(dirfd, name, (st.st_mode & 07777) | 0400) == 0) {
			fd = openat(dirfd, name, flags);
			saved = errno;
			if (fd_chmod_nofollow(dirfd, name, st.st_mode & 07777) < 0 && fd >= 0)
				fd = fd_close(fd);
		}
		errno = saved;
	}
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0 || (st.st_mode & S_IFMT) != type) {
		fd_close(fd);
		return -ESTALE;
	}
	return fd;
}

int layer_open_file(int dirfd, const char *name)
{
	return open_own_entry(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
			      S_IFREG);
}

int layer_open_directory(int dirfd, const char *name)
{
	return open_own_entry(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, S_IFDIR);
}

int layer_read_link(int dirfd, const char *name, struct buf *ret)
{
	char *p = buf_reserve(ret, PATH_MAX);
	ssize_t n;

	if (!p)
		return -ENOMEM;
	n = readlinkat(dirfd, name, p, PATH_MAX);
	if (n < 0)
		return -errno;
	ret->len += (size_t)n;
	ret->data[ret->len] = '\0';
	return 0;
}

/* The next offset from `at` on that may have data, or `size`. */
static off_t seek_data(int fd, off_t at, off_t size)
{
	off_t d = lseek(fd, at, SEEK_DATA);

	if (d >= 0)
		return d < size ? d : size;
	return errno == ENXIO ? size : at;
}

static off_t seek_hole(int fd, off_t at, off_t size)
{
	off_t h = lseek(fd, at, SEEK_HOLE);

	return h >= at && h < size ? h : size;
}

static ssize_t read_full_at(int fd, char *p, size_t len, off_t at)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = pread(fd, p + done, len - done, at + (off_t)done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

#define CHUNK (64 << 10)

static int same_bytes_in_range(int a, int b, off_t from, off_t to, char *space)
{
	while (from < to) {
		size_t want = to - from < CHUNK ? (size_t)(to - from) : CHUNK;
		ssize_t x = read_full_at(a, space, want, from),
			y = read_full_at(b, space + CHUNK, want, from);

		if (x < 0 || y < 0)
			return x < 0 ? (int)x : (int)y;
		if (x != y || memcmp(space, space + CHUNK, (size_t)x) != 0)
			return 0;
		if (x == 0)
			return 1;
		from += x;
	}
	return 1;
}

int layer_same_content(int a, int b, off_t size)
{
	autofree char *space = malloc((size_t)2 * CHUNK);
	off_t at = 0;

	if (!space)
		return -ENOMEM;
	while (at < size) {
		off_t x = seek_data(a, at, size), y = seek_data(b, at, size);
		off_t from = x < y ? x : y, to;
		int r;

		if (from >= size)
			break;
		/* Where either file has data; the other may have a hole there, which reads as zeros. */
		x = seek_hole(a, from, size);
		y = seek_hole(b, from, size);
		to = x > y ? x : y;
		if (to == from) /* it changed between the two seeks */
			to = size;
		r = same_bytes_in_range(a, b, from, to, space);
		if (r <= 0)
			return r;
		at = to;
	}
	return 1;
}

unsigned layer_git_parts(int dirfd)
{
	static const char *const names[] = { "HEAD", "objects", "refs", "commondir" };
	unsigned parts = 0;
	struct stat st;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (fstatat(dirfd, names[i], &st, AT_SYMLINK_NOFOLLOW) == 0)
			parts |= trigger_git_part(names[i]);
	}
	return parts;
}
