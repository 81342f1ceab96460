/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding and judging our own helper programs, and others that are named by path. See helper.h. It must not
 * return a program that others may write.
 */
#include "sandbox/engine/helper.h"

#include "base/cleanup.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_trusted_owner(uid_t uid, const struct stat *self)
{
	return uid == 0 || uid == geteuid() || uid == self->st_uid;
}

static bool is_trusted_group(gid_t gid, const struct stat *self)
{
	/* A user's private group (umask 002) is the user. */
	return gid == 0 || gid == getegid() || (gid == self->st_gid && (self->st_mode & S_IWGRP));
}

/* Can only users write to it who could change the running program too? */
static bool is_as_trusted_as(const struct stat *st, const struct stat *self)
{
	if (!is_trusted_owner(st->st_uid, self) || (st->st_mode & S_IWOTH))
		return false;
	return !(st->st_mode & S_IWGRP) || is_trusted_group(st->st_gid, self);
}

static int open_trusted(const char *dir, const char *name, int flags, const struct stat *self, struct err *e)
{
	autoclose int dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	autoclose int fd = -1;
	struct stat st;

	if (dir_fd < 0)
		return -errno;
	fd = openat(dir_fd, name, flags | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstat(dir_fd, &st) < 0)
		return err_sys(e, -errno, "cannot look at %s", dir);
	if (!is_as_trusted_as(&st, self)) {
		err_set(e, -EPERM, "will not run %s/%s: others may write to that directory", dir, name);
		return err_hint(e, -EPERM, "chmod go-w %s", dir);
	}
	if (fstat(fd, &st) < 0)
		return err_sys(e, -errno, "cannot look at %s/%s", dir, name);
	if (!S_ISREG(st.st_mode) || !(st.st_mode & S_IXUSR) || !is_as_trusted_as(&st, self))
		return err_set(e, -EPERM,
			       "will not run %s/%s: it is not an executable file, or others may write to it",
			       dir, name);
	return TAKE_FD(fd);
}

/* Puts the running program's directory into `dir` and its status into *self. */
static int own_directory(char dir[PATH_MAX], struct stat *self)
{
	ssize_t n = readlink("/proc/self/exe", dir, PATH_MAX - 1);
	char *slash;

	if (n < 0)
		return -errno;
	dir[n] = '\0';
	slash = strrchr(dir, '/');
	if (!slash || stat("/proc/self/exe", self) < 0)
		return -ENOENT;
	*(slash == dir ? slash + 1 : slash) = '\0';
	return 0;
}

int helper_open(const char *name, struct err *e)
{
	struct stat self = { 0 };
	char dir[PATH_MAX];
	int r;

	r = own_directory(dir, &self);
	if (r == 0)
		r = open_trusted(dir, name, O_PATH, &self, e);
	else
		snprintf(dir, sizeof(dir), "the program's own directory");
	if (r == -ENOENT || r == -EACCES || r == -ENOTDIR)
		r = open_trusted(COFFER_LIBEXECDIR, name, O_PATH, &self, e);
	if (r >= 0 || r == -EPERM)
		return r;
	err_set(e, r, "cannot find the helper program %s in %s or %s: %s", name, dir, COFFER_LIBEXECDIR,
		strerror(-r));
	return err_hint(e, r, "build it with 'make', or install it with 'make install'");
}

int helper_open_trusted(const char *path, struct err *e)
{
	autofree char *real = realpath(path, NULL);
	struct stat self = { 0 };
	char *slash;
	int r;

	if (!real)
		return err_sys(e, -errno, "cannot find %s", path);
	if (stat("/proc/self/exe", &self) < 0)
		return err_sys(e, -errno, "cannot look at the program itself");
	slash = strrchr(real, '/');
	*slash = '\0';
	r = open_trusted(slash == real ? "/" : real, slash + 1, O_RDONLY | O_NONBLOCK | O_NOCTTY, &self, e);
	return r < 0 && r != -EPERM ? err_sys(e, r, "cannot open %s", path) : r;
}

int helper_check_fd(int fd, const char *path, struct err *e)
{
	struct stat st, self;

	if (fstat(fd, &st) < 0 || stat("/proc/self/exe", &self) < 0)
		return err_sys(e, -errno, "cannot look at %s", path);
	if (!is_as_trusted_as(&st, &self))
		return err_set(e, -EPERM, "will not run %s: others may write to it", path);
	return 0;
}
