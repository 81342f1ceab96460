/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

int fd_write_all(int fd, const void *data, size_t len)
{
	const char *p = data;

	while (len) {
		ssize_t n = write(fd, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

int fd_read_exact(int fd, void *data, size_t len)
{
	char *p = data;

	while (len) {
		ssize_t n = read(fd, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return -EPIPE;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

int fd_read_all(int fd, size_t cap, struct buf *b)
{
	size_t start = b->len;

	for (;;) {
		char *p = buf_reserve(b, 4096);
		ssize_t n;

		if (!p)
			return buf_error(b);
		n = read(fd, p, 4096);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		b->len += (size_t)n;
		if (b->len - start > cap)
			return -EFBIG;
	}
	b->data[b->len] = '\0';
	return 0;
}

int fd_read_file(int dirfd, const char *path, size_t cap, struct buf *b)
{
	autoclose int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY);

	return fd < 0 ? -errno : fd_read_all(fd, cap, b);
}

int fd_write_file(int dirfd, const char *path, const char *text)
{
	autoclose int fd = openat(dirfd, path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY);
	size_t len = strlen(text);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = write(fd, text, len);
	if (n < 0)
		return -errno;
	return (size_t)n == len ? 0 : -EIO;
}

int fd_replace_file(int dirfd, const char *path, const void *data, size_t len, mode_t mode)
{
	const char *slash = strrchr(path, '/');
	int dirlen = slash ? (int)(slash - path) + 1 : 0;
	char tmp[4096];
	uint64_t salt;
	int r;

	if (getrandom(&salt, sizeof(salt), 0) != (ssize_t)sizeof(salt))
		return -EIO;
	if (snprintf(tmp, sizeof(tmp), "%.*s.tmp-%016llx", dirlen, path, (unsigned long long)salt) >=
	    (int)sizeof(tmp))
		return -ENAMETOOLONG;
	autoclose int fd =
		openat(dirfd, tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode ? mode : 0600);
	if (fd < 0)
		return -errno;
	r = fd_write_all(fd, data, len);
	if (r == 0 && renameat(dirfd, tmp, dirfd, path) < 0)
		r = -errno;
	if (r < 0)
		unlinkat(dirfd, tmp, 0);
	return r;
}

int fd_mkdir_p(int dirfd, const char *path, mode_t mode)
{
	autofree char *copy = strdup(path);
	char *p = copy;

	if (!copy)
		return -ENOMEM;
	while (*p == '/')
		p++;
	for (;;) {
		char *slash = strchr(p, '/');

		if (slash)
			*slash = '\0';
		if (*copy && mkdirat(dirfd, copy, mode) < 0 && errno != EEXIST)
			return -errno;
		if (!slash)
			return 0;
		*slash = '/';
		p = slash + 1;
	}
}

static int remove_below(int dirfd, const char *name, dev_t dev, struct err *e);

/* Removes all entries of an open directory; consumes fd. */
static int empty_dir(int fd, dev_t dev, struct err *e)
{
	autoclosedir DIR *d = fdopendir(fd);
	struct dirent *de;
	int r;

	if (!d) {
		fd_close(fd);
		return err_sys(e, -errno, "cannot read a directory to remove it");
	}
	while ((de = readdir(d))) {
		if (strcmp(de->d_name, ".") == 0 || strcmp(de->d_name, "..") == 0)
			continue;
		r = remove_below(dirfd(d), de->d_name, dev, e);
		if (r < 0)
			return r;
	}
	return 0;
}

static int remove_below(int dirfd, const char *name, dev_t dev, struct err *e)
{
	struct stat st;
	int fd, r;

	if (unlinkat(dirfd, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return err_sys(e, -errno, "cannot remove %s", name);
	if (unlinkat(dirfd, name, AT_REMOVEDIR) == 0)
		return 0;
	fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == EACCES) {
		/* A directory without rights, as overlayfs leaves one: its owner may open it up. */
		if (fchmodat(dirfd, name, 0700, 0) < 0)
			return err_sys(e, -errno, "cannot remove %s", name);
		fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	}
	if (fd < 0)
		return err_sys(e, -errno, "cannot remove %s", name);
	if (fstat(fd, &st) < 0 || st.st_dev != dev) {
		fd_close(fd);
		return err_set(e, -EXDEV, "cannot remove %s: it is on another file system", name);
	}
	if ((st.st_mode & 0700) != 0700)
		fchmod(fd, 0700);
	r = empty_dir(fd, dev, e);
	if (r < 0)
		return err_wrap(e, r, "%s", name);
	if (unlinkat(dirfd, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
		return err_sys(e, -errno, "cannot remove %s", name);
	return 0;
}

int fd_rm_rf(int dirfd, const char *path, struct err *e)
{
	struct stat st;

	if (fstatat(dirfd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : err_sys(e, -errno, "cannot remove %s", path);
	return remove_below(dirfd, path, st.st_dev, e);
}

int fd_set_nonblock(int fd, bool on)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0)
		return -errno;
	flags = on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
	return fcntl(fd, F_SETFL, flags) < 0 ? -errno : 0;
}

int fd_set_cloexec(int fd, bool on)
{
	return fcntl(fd, F_SETFD, on ? FD_CLOEXEC : 0) < 0 ? -errno : 0;
}
