/* SPDX-License-Identifier: Apache-2.0 */
/* Reads files that decide, and refuses those that somebody else could change (config_owner.h). */

#include "config/config_owner.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* May everybody replace files in this directory? */
static int check_directory_mode(const struct stat *st, const char *shown, struct err *e)
{
	if ((st->st_mode & S_IWOTH) && !(st->st_mode & S_ISVTX)) {
		err_set(e, -EPERM, "everybody may replace %s: its directory is writable for all", shown);
		return err_hint(e, -EPERM, "chmod o-w on the directory, or move the file");
	}
	return 0;
}

/* Checks owner and mode of an open file. */
static int check_open_file(int fd, const char *shown, struct err *e)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_sys(e, -errno, "cannot look at %s", shown);
	if (st.st_uid != 0 && st.st_uid != geteuid()) {
		err_set(e, -EPERM, "%s belongs to another user (uid %u), who could change it", shown,
			st.st_uid);
		return err_hint(e, -EPERM, "copy it, so that it is yours");
	}
	if (st.st_mode & (S_IWGRP | S_IWOTH)) {
		err_set(e, -EPERM, "others may write to %s (mode %03o)", shown, st.st_mode & 0777);
		return err_hint(e, -EPERM, "chmod go-w %s", shown);
	}
	return 0;
}

static int check_file_and_directory(int fd, const char *path, const char *shown, struct err *e)
{
	autofree char *copy = strdup(path);
	struct stat st;
	int r = check_open_file(fd, shown, e);

	if (r < 0)
		return r;
	if (!copy)
		return err_set(e, -ENOMEM, "out of memory");
	if (stat(dirname(copy), &st) < 0)
		return err_sys(e, -errno, "cannot look at the directory of %s", shown);
	return check_directory_mode(&st, shown, e);
}

/* A pipe or device could block or never end. */
static int open_regular(int dir, const char *path, int flags, const char *shown, struct err *e)
{
	autoclose int fd = openat(dir, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | flags);
	struct stat st;

	if (fd < 0)
		return err_sys(e, -errno, "cannot open %s", shown);
	if (fstat(fd, &st) < 0)
		return err_sys(e, -errno, "cannot look at %s", shown);
	if (S_ISDIR(st.st_mode))
		return err_set(e, -EISDIR, "%s is a directory; expected a file", shown);
	if (!S_ISREG(st.st_mode))
		return err_set(e, -EINVAL, "%s is not a regular file", shown);
	return TAKE_FD(fd);
}

/* Checks the file; a violation is an error with `must`, otherwise a warning. */
static int check_owner_or_warn(int fd, const char *path, const char *shown, bool must, char **ret_warning,
			       struct err *e)
{
	struct err why = ERR_INIT;
	int r = check_file_and_directory(fd, path, shown, &why);

	if (r == 0)
		return 0;
	if (must) {
		if (e)
			*e = why;
		return r;
	}
	*ret_warning = strdup(why.msg);
	return *ret_warning ? 0 : err_set(e, -ENOMEM, "out of memory");
}

static int report_cannot_read(int r, const char *shown, size_t max, struct err *e)
{
	if (r == -EFBIG)
		return err_set(e, r, "%s is larger than %zu KiB", shown, max / 1024);
	return r < 0 ? err_sys(e, r, "cannot read %s", shown) : 0;
}

int owner_read(const char *path, size_t max, bool must, struct buf *ret, char **ret_warning, struct err *e)
{
	autoclose int fd = -1;
	char shown[256];
	int r = 0;

	str_safe(path, shown, sizeof(shown));
	if (str_eq(path, "-")) {
		r = fd_read_all(STDIN_FILENO, max, ret);
	} else {
		fd = open_regular(AT_FDCWD, path, 0, shown, e);
		if (fd < 0)
			return fd;
		r = check_owner_or_warn(fd, path, shown, must, ret_warning, e);
		if (r < 0)
			return r;
		r = fd_read_all(fd, max, ret);
	}
	return report_cannot_read(r, shown, max, e);
}

int owner_read_at(int dir, const char *name, const char *shown, size_t max, struct buf *ret, struct err *e)
{
	autoclose int fd = open_regular(dir, name, O_NOFOLLOW, shown, e);
	struct stat st;
	int r;

	if (fd < 0)
		return fd;
	if (fstat(dir, &st) < 0)
		return err_sys(e, -errno, "cannot look at the directory of %s", shown);
	r = check_open_file(fd, shown, e);
	r = r < 0 ? r : check_directory_mode(&st, shown, e);
	if (r < 0)
		return r;
	r = report_cannot_read(fd_read_all(fd, max, ret), shown, max, e);
	return r < 0 ? r : TAKE_FD(fd);
}

#define LINKS_MAX 40 /* the kernel's limit */

/* Checks the owner of a symbolic link, and its directory. */
static int check_link_owner(const char *at, const struct stat *st, struct err *e)
{
	autofree char *copy = strdup(at);
	char shown[256];
	struct stat dir;

	str_safe(at, shown, sizeof(shown));
	if (!copy)
		return err_set(e, -ENOMEM, "out of memory");
	if (st->st_uid != 0 && st->st_uid != geteuid()) {
		err_set(e, -EPERM,
			"the link %s belongs to another user (uid %u), who could point it elsewhere", shown,
			st->st_uid);
		return err_hint(e, -EPERM, "name the file itself, or make a link of your own");
	}
	if (stat(dirname(copy), &dir) < 0)
		return err_sys(e, -errno, "cannot look at the directory of %s", shown);
	return check_directory_mode(&dir, shown, e);
}

/* The rest of a path after a link in it was read: the link's target, then the remaining names. */
static int resolve_link(const char *at, struct buf *path, const char *rest, struct buf *rest_ret)
{
	char to[PATH_MAX];
	ssize_t n = readlink(at, to, sizeof(to));

	if (n <= 0 || (size_t)n >= sizeof(to))
		return n < 0 ? -errno : -ENAMETOOLONG;
	if (to[0] == '/')
		buf_clear(path);
	buf_clear(rest_ret);
	buf_add(rest_ret, to, (size_t)n);
	buf_addf(rest_ret, "/%s", rest);
	return rest_ret->len >= PATH_MAX ? -ENAMETOOLONG : buf_error(rest_ret);
}

static void truncate_path(struct buf *b, size_t len)
{
	b->len = len;
	if (b->data)
		b->data[len] = '\0';
}

/* Appends one more name to the path: 1 if it is a link, and `rest` is what it leads to. */
static int append_name(struct buf *path, const char *name, size_t len, const char *after, struct buf *rest,
		       struct stat *st)
{
	size_t before = path->len;
	int r;

	if (len == 0 || (len == 1 && name[0] == '.'))
		return 0;
	if (len == 2 && memcmp(name, "..", 2) == 0) {
		const char *slash = strrchr(buf_cstr(path), '/');

		truncate_path(path, slash ? (size_t)(slash - buf_cstr(path)) : 0);
		return 0;
	}
	buf_addc(path, '/');
	buf_add(path, name, len);
	if (buf_error(path))
		return -ENOMEM;
	if (lstat(buf_cstr(path), st) < 0)
		return -errno;
	if (!S_ISLNK(st->st_mode))
		return 0;
	r = resolve_link(buf_cstr(path), path, after, rest);
	if (r == 0 && path->len > before)
		truncate_path(path, before);
	return r < 0 ? r : 1;
}

static int record_link(const char *at, const struct stat *st, bool must, struct strv *ret, struct err *e)
{
	int r = must ? check_link_owner(at, st, e) : 0;

	if (r < 0)
		return r;
	return strv_add(ret, at) < 0 ? err_set(e, -ENOMEM, "out of memory") : 0;
}

/* A relative path begins with the current directory, whose own links do not matter any more. */
static int start_directory(const char *path, struct buf *at, struct err *e)
{
	autofree char *cwd = path[0] == '/' ? NULL : getcwd(NULL, 0);

	if (path[0] != '/' && !cwd)
		return err_sys(e, -errno, "cannot determine the current directory");
	buf_adds(at, cwd ? cwd : "");
	return 0;
}

int owner_links(const char *path, bool must, struct strv *ret, struct err *e)
{
	autobuf struct buf at = BUF_INIT, rest = BUF_INIT, next = BUF_INIT;
	unsigned links = 0;
	int begun = start_directory(path, &at, e);

	if (begun < 0)
		return begun;
	buf_adds(&rest, path);
	while (rest.len) {
		const char *name = buf_cstr(&rest);
		size_t len = strcspn(name, "/");
		const char *after = name[len] ? name + len + 1 : name + len;
		autofree char *here = NULL;
		struct stat st;
		int r;

		if (asprintf(&here, "%s/%.*s", buf_cstr(&at), (int)len, name) < 0) {
			here = NULL;
			return err_set(e, -ENOMEM, "out of memory");
		}
		r = append_name(&at, name, len, after, &next, &st);
		if (r < 0)
			/* opening it reports the reason */
			return r == -ENOMEM ? err_set(e, r, "out of memory") : 0;
		if (r == 0) {
			buf_clear(&next);
			buf_adds(&next, after);
		} else if (++links > LINKS_MAX) {
			return err_set(e, -ELOOP, "too many links lead to %s", path);
		}
		r = r ? record_link(here, &st, must, ret, e) : 0;
		if (r < 0)
			return r;
		buf_clear(&rest);
		buf_add(&rest, next.data, next.len);
		r = buf_error(&rest) ? buf_error(&rest) : buf_error(&next);
		if (r < 0)
			return err_set(e, r, "out of memory");
	}
	return 0;
}
