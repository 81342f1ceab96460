/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and replaces the policy file (always.W3, always.W4). The writer holds a lock on its directory. The
 * new file has a name of its own beside the old one until it is complete, so the leftover of a killed writer
 * is found and removed by the next. An incomplete file must never be in its place.
 */
#include "always/always.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "config/config_owner.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define LOCK_WAIT (10 * NSEC_PER_SEC)
#define LOCK_LOOK 20000 /* µs */

static int hint_edit_by_hand(struct err *e, int code)
{
	return err_hint(e, code,
			"edit the file by hand, or allow it as long as the sandbox lives: --sandbox");
}

struct policy_place {
	const char *path;
	char *copy[2], *dir, *name, *fresh; /* fresh: name of the new file */
	char shown[256];
	int fd;	  /* the directory, as it was when the run began; opened without following links */
	int file; /* the file that was read */
	struct stat st;
};

static void policy_place_release(struct policy_place *p)
{
	free(p->copy[0]);
	free(p->copy[1]);
	free(p->fresh);
	fd_close(p->file);
	fd_close(p->fd);
}

static int refuse_link(const struct policy_place *p, struct err *e)
{
	return hint_edit_by_hand(
		e, err_set(e, -ELOOP, "%s is a symbolic link now, or its path contains one", p->shown));
}

static int open_policy_place(struct policy_place *p, struct err *e)
{
	str_safe(p->path, p->shown, sizeof(p->shown));
	p->copy[0] = strdup(p->path);
	p->copy[1] = strdup(p->path);
	if (!p->copy[0] || !p->copy[1])
		return err_set(e, -ENOMEM, "out of memory");
	p->dir = dirname(p->copy[0]);
	p->name = basename(p->copy[1]);
	if (asprintf(&p->fresh, ".%.200s.coffer-new", p->name) < 0) {
		p->fresh = NULL;
		return err_set(e, -ENOMEM, "out of memory");
	}
	p->fd = fd_openat2(AT_FDCWD, p->dir, O_RDONLY | O_DIRECTORY, 0, RESOLVE_NO_SYMLINKS);
	if (p->fd == -ELOOP)
		return refuse_link(p, e);
	return p->fd < 0 ? err_sys(e, p->fd, "cannot open the directory of %s", p->shown) : 0;
}

/* Everything is relative to the held directory, and later checks apply to the very file that was read. */
static int read_policy_place(struct policy_place *p, struct buf *ret, struct err *e)
{
	p->file = owner_read_at(p->fd, p->name, p->shown, CONFIG_FILE_MAX, ret, e);
	return p->file == -ELOOP ? refuse_link(p, e) : p->file < 0 ? p->file : 0;
}

int always_file_read(const char *path, struct buf *ret, struct err *e)
{
	CLEANUP(policy_place_release) struct policy_place p = { .path = path, .fd = -1, .file = -1 };
	int r = open_policy_place(&p, e);

	return r < 0 ? r : read_policy_place(&p, ret, e);
}

static int lock_directory(const struct policy_place *p, struct err *e)
{
	uint64_t end = clock_nsec(CLOCK_MONOTONIC) + LOCK_WAIT;

	while (flock(p->fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return err_sys(e, -errno, "cannot lock the directory of %s", p->shown);
		if (clock_nsec(CLOCK_MONOTONIC) > end)
			return err_set(e, -EBUSY, "another process holds the lock of the directory of %s",
				       p->shown);
		usleep(LOCK_LOOK);
	}
	return 0;
}

/* Refuses a file with properties that its replacement would not have. */
static int check_replaceable(struct policy_place *p, struct err *e)
{
	char list[4096];
	ssize_t n;

	if (fstat(p->file, &p->st) < 0)
		return err_sys(e, -errno, "cannot look at %s", p->shown);
	if (!S_ISREG(p->st.st_mode))
		return hint_edit_by_hand(e, err_set(e, -ELOOP, "%s is not a regular file", p->shown));
	if (p->st.st_nlink != 1)
		return hint_edit_by_hand(
			e, err_set(e, -EMLINK, "%s has another hard link, which would keep the old content",
				   p->shown));
	if (p->st.st_uid != geteuid() && geteuid() != 0)
		return hint_edit_by_hand(
			e, err_set(e, -EPERM, "%s belongs to another user (uid %u)", p->shown, p->st.st_uid));
	if (!(p->st.st_mode & S_IWUSR))
		return hint_edit_by_hand(e, err_set(e, -EACCES, "%s is not writable (mode %03o)", p->shown,
						    p->st.st_mode & 0777));
	n = flistxattr(p->file, list, sizeof(list));
	for (ssize_t at = 0; at < n; at += (ssize_t)strlen(list + at) + 1) {
		if (str_starts(list + at, "user.") || str_starts(list + at, "system.posix_acl"))
			return hint_edit_by_hand(e, err_set(e, -EOPNOTSUPP,
							    "%s has attributes (%.60s) that would be lost",
							    p->shown, list + at));
	}
	return n < 0 && errno == ERANGE ? err_set(e, -EOPNOTSUPP, "%s has too many attributes", p->shown) : 0;
}

static int write_new_file(const struct policy_place *p, const struct buf *text, struct err *e)
{
	autoclose int fd = -1;
	int r;

	/* The leftover of a killed writer: we hold the lock, so no other writer is using it. */
	(void)unlinkat(p->fd, p->fresh, 0);
	fd = openat(p->fd, p->fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_sys(e, -errno, "cannot make a file beside %s", p->shown);
	r = fd_write_all(fd, text->data, text->len);
	if (r == 0 && (p->st.st_uid != geteuid() || p->st.st_gid != getegid()) &&
	    fchown(fd, p->st.st_uid, p->st.st_gid) < 0)
		r = -errno;
	if (r == 0 && fchmod(fd, p->st.st_mode & 07777) < 0)
		r = -errno;
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	return r < 0 ? err_sys(e, r, "cannot rewrite %s; it is unchanged", p->shown) : 0;
}

static int replace_file(struct policy_place *p, const struct buf *before, const struct buf *after,
			int (*log)(void *ctx, struct err *e), void *ctx, struct err *e)
{
	autobuf struct buf now = BUF_INIT;
	int r = read_policy_place(p, &now, e);

	if (r == 0 && (now.len != before->len || memcmp(buf_cstr(&now), buf_cstr(before), now.len) != 0))
		return err_set(e, -EAGAIN, "%s was changed by somebody else meanwhile", p->shown);
	r = r < 0 ? r : check_replaceable(p, e);
	r = r < 0 ? r : write_new_file(p, after, e);
	r = r < 0 ? r : log(ctx, e);
	if (r == 0 && renameat(p->fd, p->fresh, p->fd, p->name) < 0)
		r = err_sys(e, -errno, "cannot replace %s with the new file", p->shown);
	if (r < 0 && p->fresh)
		(void)unlinkat(p->fd, p->fresh, 0);
	else if (r == 0)
		(void)fsync(p->fd);
	return r;
}

int always_file_write(const char *path, const struct buf *before, const struct buf *after,
		      int (*log)(void *ctx, struct err *e), void *ctx, struct err *e)
{
	CLEANUP(policy_place_release) struct policy_place p = { .path = path, .fd = -1, .file = -1 };
	int r = open_policy_place(&p, e);

	r = r < 0 ? r : lock_directory(&p, e);
	return r < 0 ? r : replace_file(&p, before, after, log, ctx, e);
}
