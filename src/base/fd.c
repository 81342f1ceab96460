/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole reads and writes, small files in one call, and the few path operations that must not follow a symlink.
 * Every read has a cap from its caller, and every descriptor opened here is CLOEXEC. Removal of trees is in rmtree.c.
 */
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define SHORT_HOLE (64 << 10)

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

ssize_t fd_read_at(int fd, void *to, size_t len, uint64_t at)
{
	size_t got = 0;

	while (got < len) {
		ssize_t n = pread(fd, (char *)to + got, len - got, (off_t)(at + got));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		got += (size_t)n;
	}
	return (ssize_t)got;
}

bool fd_next_data(int fd, uint64_t at, uint64_t most, uint64_t *ret_from, uint64_t *ret_to)
{
	off_t data = lseek(fd, (off_t)at, SEEK_DATA), hole;

	if (data < 0 && errno == ENXIO)
		return false;
	*ret_from = data < 0 ? at : (uint64_t)data;
	*ret_to = *ret_from + most;
	while (data >= 0 && (uint64_t)data < *ret_to) {
		hole = lseek(fd, data, SEEK_HOLE);
		data = hole < 0 ? -1 : lseek(fd, hole, SEEK_DATA);
		if (hole < 0 || (uint64_t)hole >= *ret_to)
			break;
		if (data < 0 || data - hole >= SHORT_HOLE)
			*ret_to = (uint64_t)hole;
	}
	return true;
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
	/* O_NONBLOCK: a pipe that was put in the file's place reads as empty instead of blocking. */
	autoclose int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK);

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

int fd_openat2(int dirfd, const char *path, int flags, mode_t mode, uint64_t resolve)
{
	struct open_how how = { .flags = (uint64_t)(flags | O_CLOEXEC), .mode = mode, .resolve = resolve };
	long fd;

	/* EAGAIN: a directory was renamed while the kernel resolved "..". */
	for (int tries = 0; tries < 64; tries++) {
		fd = syscall(SYS_openat2, dirfd, path, &how, sizeof(how));
		if (fd >= 0)
			return (int)fd;
		if (errno != EAGAIN && errno != EINTR)
			return -errno;
	}
	return -EAGAIN;
}

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif

int fd_chmod_nofollow(int dirfd, const char *name, mode_t mode)
{
	autoclose int fd = -1;
	char proc[32];

	if (syscall(SYS_fchmodat2, dirfd, name, mode, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	if (errno != ENOSYS &&
	    errno != EPERM) /* EPERM: also from a seccomp filter that does not know the call */
		return -errno;
	fd = openat(dirfd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	/* For a symlink this changes nothing: the kernel returns EOPNOTSUPP. */
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	return chmod(proc, mode) < 0 ? -errno : 0;
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

bool fd_path_leads_through(const char *path, const char *place)
{
	char at[PATH_MAX];
	struct stat want, st;
	size_t len = strlen(path);

	if (len >= sizeof(at) || stat(place, &want) < 0)
		return false;
	for (size_t i = 1; i <= len; i++) {
		if (path[i] && path[i] != '/')
			continue;
		memcpy(at, path, i);
		at[i] = '\0';
		if (stat(at, &st) == 0 && st.st_dev == want.st_dev && st.st_ino == want.st_ino)
			return true;
	}
	return false;
}
