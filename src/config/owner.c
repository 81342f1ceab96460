/* SPDX-License-Identifier: Apache-2.0 */
#include "config/owner.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int check_directory(const struct stat *st, const char *shown, struct err *e)
{
	if ((st->st_mode & S_IWOTH) && !(st->st_mode & S_ISVTX)) {
		err_set(e, -EPERM, "everybody may replace %s: its directory is writable for all", shown);
		return err_hint(e, -EPERM, "chmod o-w on the directory, or move the file");
	}
	return 0;
}

static int check_held(int fd, const char *shown, struct err *e)
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

static int check_file(int fd, const char *path, const char *shown, struct err *e)
{
	autofree char *copy = strdup(path);
	struct stat st;
	int r = check_held(fd, shown, e);

	if (r < 0)
		return r;
	if (!copy)
		return err_set(e, -ENOMEM, "out of memory");
	if (stat(dirname(copy), &st) < 0)
		return err_sys(e, -errno, "cannot look at the directory of %s", shown);
	return check_directory(&st, shown, e);
}

/* A pipe or device would hang or never end. */
static int open_regular(int dir, const char *path, int flags, const char *shown, struct err *e)
{
	autoclose int fd = openat(dir, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | flags);
	struct stat st;

	if (fd < 0)
		return err_sys(e, -errno, "cannot open %s", shown);
	if (fstat(fd, &st) < 0)
		return err_sys(e, -errno, "cannot look at %s", shown);
	if (S_ISDIR(st.st_mode))
		return err_set(e, -EISDIR, "%s is a directory; a file is wanted", shown);
	if (!S_ISREG(st.st_mode))
		return err_set(e, -EINVAL, "%s is not a regular file", shown);
	return TAKE_FD(fd);
}

static int check_or_warn(int fd, const char *path, const char *shown, bool must, char **ret_warning,
			 struct err *e)
{
	struct err why = ERR_INIT;
	int r = check_file(fd, path, shown, &why);

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

static int cannot_read(int r, const char *shown, size_t max, struct err *e)
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
		r = check_or_warn(fd, path, shown, must, ret_warning, e);
		if (r < 0)
			return r;
		r = fd_read_all(fd, max, ret);
	}
	return cannot_read(r, shown, max, e);
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
	r = check_held(fd, shown, e);
	r = r < 0 ? r : check_directory(&st, shown, e);
	if (r < 0)
		return r;
	r = cannot_read(fd_read_all(fd, max, ret), shown, max, e);
	return r < 0 ? r : TAKE_FD(fd);
}
