/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The builtins of `coffer mcp`'s read_file and write_file, each the main command of a sandbox of its own:
 *   file-none                  nothing: tests whether a sandbox can be started
 *   file-read PATH AT MAX      "SIZE\n", then up to MAX bytes of the file from AT on
 *   file-write PATH            stdin as the file's whole content; missing directories are made
 * PATH is below the working directory. Exit status 0; 1 with the error on stderr.
 *
 * Invariants
 *  F1  Each component is opened below the one before, without following a symlink: the file is in the workspace, even
 *      if another process renames directories meanwhile.
 *  F2  Nothing but a regular file is opened, and without waiting: a fifo cannot block us.
 *  F3  A file is replaced, never written to: a reader sees the old content or the new, and the other names of a hard
 *      link keep the old content.
 */
#include "base/cleanup.h"
#include "sandbox/init/init_int.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FRESH ".coffer-new-file"
#define CHUNK (64u << 10)

static char chunk[CHUNK];

static int say_file_failure(const char *what, const char *path, int code)
{
	struct buf b = BUF_INIT;
	ssize_t n;

	buf_adds(&b, what);
	buf_addc(&b, ' ');
	buf_add(&b, path, strnlen(path, PATH_MAX));
	buf_adds(&b, ": ");
	buf_adds(&b, init_copy_reason(-code));
	buf_addc(&b, '\n');
	n = write(2, b.data, b.len);
	(void)n;
	buf_release(&b);
	return 1;
}

/* Copies the next component to `name` and returns the rest of the path, or NULL for a path that is not legal. */
static const char *next_path_part(const char *path, char name[NAME_MAX + 1])
{
	const char *slash = strchr(path, '/');
	size_t n = slash ? (size_t)(slash - path) : strlen(path);

	if (n == 0 || n > NAME_MAX || (n == 1 && path[0] == '.') ||
	    (n == 2 && path[0] == '.' && path[1] == '.'))
		return NULL;
	memcpy(name, path, n);
	name[n] = '\0';
	return path + n + (slash ? 1 : 0);
}

/* gVisor follows a symlink when O_DIRECTORY is combined with O_NOFOLLOW, so the opened directory is compared with the
 * entry of that name. */
static int open_dir_checked(int dir, const char *name, bool make)
{
	struct stat named, opened;
	int fd;

	if (make && mkdirat(dir, name, 0777) < 0 && errno != EEXIST)
		return -errno;
	if (fstatat(dir, name, &named, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (!S_ISDIR(named.st_mode))
		return S_ISLNK(named.st_mode) ? -ELOOP : -ENOTDIR;
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &opened) < 0 || opened.st_ino != named.st_ino || opened.st_dev != named.st_dev) {
		fd_close(fd);
		return -ELOOP;
	}
	return fd;
}

/* init_file.F1: opens the directory that the file is in, component by component; `name` is the file's name there. */
static int open_file_parent(const char *path, bool make, char name[NAME_MAX + 1])
{
	int dir = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (dir < 0)
		return -errno;
	for (;;) {
		const char *rest = next_path_part(path, name);
		int fd;

		if (!rest || (*rest == '\0' && rest[-1] == '/')) {
			fd_close(dir);
			return -EINVAL;
		}
		if (!*rest)
			return dir;
		fd = open_dir_checked(dir, name, make);
		fd_close(dir);
		if (fd < 0)
			return fd;
		dir = fd;
		path = rest;
	}
}

/* The entry must be a regular file; -ENOENT when there is none. */
static int look_at_file(int dir, const char *name, struct stat *st)
{
	if (fstatat(dir, name, st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (S_ISLNK(st->st_mode))
		return -ELOOP;
	if (S_ISDIR(st->st_mode))
		return -EISDIR;
	return S_ISREG(st->st_mode) ? 0 : -EOPNOTSUPP;
}

/* init_file.F2: opens regular files only, and does not wait for a fifo. */
static int open_regular_file(int dir, const char *name, struct stat *st)
{
	int r = look_at_file(dir, name, st);
	int fd = r < 0 ? r : openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	if (r < 0)
		return r;
	if (fd < 0)
		return -errno;
	if (fstat(fd, st) < 0 || !S_ISREG(st->st_mode)) {
		fd_close(fd);
		return -EOPNOTSUPP;
	}
	return fd;
}

static int write_all_to_fd(int fd, const char *data, size_t len)
{
	while (len) {
		ssize_t n = write(fd, data, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		data += n;
		len -= (size_t)n;
	}
	return 0;
}

static bool parse_decimal(const char *s, uint64_t *ret)
{
	uint64_t v = 0;
	unsigned n = 0;

	for (; *s >= '0' && *s <= '9' && n < 18; s++, n++)
		v = v * 10 + (uint64_t)(*s - '0');
	*ret = v;
	return n && !*s;
}

static int write_file_part(int fd, const struct stat *st, uint64_t at, uint64_t left)
{
	struct buf head = BUF_INIT;
	int r;

	buf_addu(&head, (uint64_t)st->st_size);
	buf_addc(&head, '\n');
	r = buf_error(&head) ? -ENOMEM : write_all_to_fd(1, head.data, head.len);
	buf_release(&head);
	if (r == 0 && syscall(SYS_lseek, (long)fd, (long)at, 0L /* SEEK_SET */, 0L) < 0)
		r = -errno;
	while (r == 0 && left) {
		ssize_t n = read(fd, chunk, left < CHUNK ? (size_t)left : CHUNK);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		r = write_all_to_fd(1, chunk, (size_t)n);
		left -= (uint64_t)n;
	}
	return r;
}

static int builtin_file_read(const char *path, const char *at_text, const char *max_text)
{
	char name[NAME_MAX + 1];
	struct stat st;
	uint64_t at, max;
	int dir, fd, r;

	if (!parse_decimal(at_text, &at) || !parse_decimal(max_text, &max))
		return 2;
	dir = open_file_parent(path, false, name);
	if (dir < 0)
		return say_file_failure("cannot read", path, dir);
	fd = open_regular_file(dir, name, &st);
	fd_close(dir);
	if (fd < 0)
		return say_file_failure("cannot read", path, fd);
	r = write_file_part(fd, &st, at, max);
	fd_close(fd);
	return r < 0 ? say_file_failure("cannot read", path, r) : 0;
}

static int copy_stdin_to_file(int fd)
{
	for (;;) {
		ssize_t n = read(0, chunk, CHUNK);
		int r;

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		r = write_all_to_fd(fd, chunk, (size_t)n);
		if (r < 0)
			return r;
	}
}

/* init_file.F3: writes stdin to a new file and renames it into place. */
static int replace_file_from_stdin(int dir, const char *name)
{
	struct stat st;
	int r = look_at_file(dir, name, &st), fd;
	bool was = r == 0;

	if (r < 0 && r != -ENOENT)
		return r;
	/* The leftover of an earlier write that was killed. */
	if (unlinkat(dir, FRESH, 0) < 0 && errno != ENOENT)
		return -errno;
	fd = openat(dir, FRESH, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
	if (fd < 0)
		return -errno;
	r = copy_stdin_to_file(fd);
	if (r == 0 && was && fchmod(fd, st.st_mode & 0777) < 0)
		r = -errno;
	fd_close(fd);
	if (r == 0 && syscall(SYS_renameat, (long)dir, FRESH, (long)dir, name) < 0)
		r = -errno;
	if (r < 0)
		(void)unlinkat(dir, FRESH, 0);
	return r;
}

static int builtin_file_write(const char *path)
{
	char name[NAME_MAX + 1];
	int dir = open_file_parent(path, true, name), r;

	if (dir < 0)
		return say_file_failure("cannot write", path, dir);
	r = replace_file_from_stdin(dir, name);
	fd_close(dir);
	return r < 0 ? say_file_failure("cannot write", path, r) : 0;
}

bool init_file_is(const char *name)
{
	return strcmp(name, "file-none") == 0 || strcmp(name, "file-read") == 0 ||
	       strcmp(name, "file-write") == 0;
}

int init_file(char *const *argv)
{
	if (strcmp(argv[0], "file-none") == 0)
		return 0;
	if (!argv[1])
		return 2;
	if (strcmp(argv[0], "file-write") == 0)
		return builtin_file_write(argv[1]);
	return argv[2] && argv[3] ? builtin_file_read(argv[1], argv[2], argv[3]) : 2;
}
