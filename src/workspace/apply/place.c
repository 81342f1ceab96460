/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace/apply/place.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "workspace/apply/file_copy.h"
#include "workspace/tree/layer.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/xattr.h>

static bool same_time(struct timespec a, struct timespec b)
{
	return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

/*
 * P3. Of a file with several names the time of change moves with every other name that we replace, so there it does not
 * count; of a directory all times move with what we do in it.
 */
static bool as_listed(const struct change *c, const struct stat *st)
{
	if (st->st_dev != c->before.dev || st->st_ino != c->before.ino ||
	    ((st->st_mode ^ c->mode_before) & S_IFMT))
		return false;
	if (S_ISDIR(st->st_mode))
		return true;
	if (!same_time(st->st_mtim, c->before.mtime) || (uint64_t)st->st_size != c->size_before)
		return false;
	return c->before.nlink > 1 || same_time(st->st_ctim, c->before.ctime);
}

/* Looks at what is in the original's place now. With force anything goes that is not a directory. */
static int check_before(int dirfd, const char *name, const struct change *c, const struct place_how *how)
{
	struct stat st;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno != ENOENT ? -errno : !c->mode_before || how->force ? 0 : PLACE_CHANGED;
	if (c->mode_before && as_listed(c, &st))
		return 0;
	return how->force && !S_ISDIR(st.st_mode) ? 0 : PLACE_CHANGED;
}

/* The directory where it belongs, once what is there was looked at; *ret_name is its name in it. */
static int open_checked(const struct place *p, const struct change *c, const struct place_how *how,
			const char **ret_name)
{
	autoclose int dir = layer_open_parent(p->lower, c->path, ret_name);
	int r = dir < 0 ? dir : check_before(dir, *ret_name, c, how);

	return r < 0 ? r : TAKE_FD(dir);
}

static int fresh_name(char out[40])
{
	uint64_t salt;

	if (getrandom(&salt, sizeof(salt), 0) != (ssize_t)sizeof(salt))
		return -EIO;
	snprintf(out, 40, ".coffer-apply-%016llx", (unsigned long long)salt);
	return 0;
}

/*
 * Puts a finished entry of ours in place of what was there, or where nothing was. Takes it away when that fails. An
 * original directory goes first; what was in it is gone by now, or it stays and so does all.
 */
static int swap_in(int dirfd, const char *tmp, const char *name, const struct change *c,
		   const struct place_how *how)
{
	bool was_dir = S_ISDIR(c->mode_before);
	bool may_replace = (c->mode_before && !was_dir) || how->force;
	int r = check_before(dirfd, name, c, how);

	if (r == 0 && was_dir && unlinkat(dirfd, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
		r = -errno;
	if (r == 0) {
		r = renameat2(dirfd, tmp, dirfd, name, may_replace ? 0 : RENAME_NOREPLACE) < 0 ? -errno : 0;
		if (r == -EINVAL && !may_replace) { /* a file system that does not know the flag */
			r = linkat(dirfd, tmp, dirfd, name, 0) < 0 ? -errno : 0;
			if (r == 0 && unlinkat(dirfd, tmp, 0) < 0)
				r = -errno;
		}
	}
	if (r < 0)
		unlinkat(dirfd, tmp, 0);
	return r == -EEXIST || r == -EISDIR ? PLACE_CHANGED : r;
}

/* --- owner, mode, attributes --------------------------------------------------------------------------------- */

static mode_t final_mode(const struct change *c, const struct place_how *how)
{
	/* Of a directory, what is surprising made it special: then it is here only with a yes. */
	return c->mode_after & (how->special || S_ISDIR(c->mode_after) ? 07777 : 0777);
}

/*
 * Whose it becomes: a changed file stays its owner's, a new one is whose it is in the layer (which is the caller's or the
 * workspace owner's, or there is a yes). Without the right to give files away it is the caller's, unless the
 * yes was about the owner.
 */
static int set_owner(int fd, const struct stat *up, const struct change *c, const struct place_how *how)
{
	bool keep = c->mode_before && !how->special;
	uid_t uid = keep ? c->before.uid : up->st_uid;
	gid_t gid = keep ? c->before.gid : up->st_gid;
	struct stat now;

	if (fstat(fd, &now) < 0)
		return -errno;
	if (now.st_uid == uid && now.st_gid == gid)
		return 0;
	if (fchown(fd, uid, gid) == 0)
		return 0;
	if (how->special)
		return -errno;
	/* The group alone may be in our power. If not, the caller's it is: there is no other way to change it. */
	if (fchown(fd, (uid_t)-1, gid) < 0 && errno != EPERM && errno != EINVAL)
		return -errno;
	return 0;
}

static int finish_file(int up_fd, int fd, const struct stat *up, const struct change *c,
		       const struct place_how *how)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, up->st_mtim };
	int r = set_owner(fd, up, c, how);

	if (r == 0)
		r = copy_user_xattrs(up_fd, fd);
	if (r == 0 && how->special)
		r = copy_xattr(up_fd, fd, "security.capability");
	/* The mode comes after the owner, for a change of owner takes setuid away. */
	if (r == 0 && fchmod(fd, final_mode(c, how)) < 0)
		r = -errno;
	if (r == 0 && futimens(fd, times) < 0)
		r = -errno;
	return r;
}

/* Who may read the original by an access list still may; lists from inside are not taken. */
static int keep_acl(int dirfd, const char *name, int fd, const struct change *c)
{
	autoclose int old = -1;
	int r;

	if (!S_ISREG(c->mode_before) || ((c->mode_before ^ c->mode_after) & 0777))
		return 0;
	old = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (old < 0)
		return 0;
	r = copy_xattr(old, fd, "system.posix_acl_access");
	return r == -EPERM || r == -EOPNOTSUPP ? 0 : r;
}

/* --- files ------------------------------------------------------------------------------------------------------ */

/* A new file without a name where the file system can do that, so that not even a kill leaves one behind; otherwise
 * with a name, which is then not empty. */
static int open_hidden(int dirfd, char name[40])
{
	int fd = openat(dirfd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	int r;

	name[0] = '\0';
	if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT && errno != EINVAL))
		return fd < 0 ? -errno : fd;
	r = fresh_name(name);
	if (r < 0)
		return r;
	fd = openat(dirfd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		name[0] = '\0';
	return fd < 0 ? -errno : fd;
}

static int show_hidden(int fd, int dirfd, char name[40])
{
	char proc[32];
	int r = fresh_name(name);

	if (r < 0)
		return r;
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	return linkat(AT_FDCWD, proc, dirfd, name, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
}

static int put_file(int up_fd, int dirfd, const char *name, const struct change *c,
		    const struct place_how *how, struct stat *ret_new)
{
	autoclose int fd = -1;
	struct stat up;
	char tmp[40];
	int r;

	if (fstat(up_fd, &up) < 0)
		return -errno;
	/* The layer is dead, but what was listed is what was allowed. */
	if (up.st_mode != c->mode_after || (uint64_t)up.st_size != c->size_after)
		return PLACE_CHANGED;
	fd = open_hidden(dirfd, tmp);
	if (fd < 0)
		return fd;
	r = copy_content(up_fd, fd, up.st_size);
	if (r == 0)
		r = finish_file(up_fd, fd, &up, c, how);
	if (r == 0)
		r = keep_acl(dirfd, name, fd, c);
	if (r == 0 && !tmp[0])
		r = show_hidden(fd, dirfd, tmp);
	if (r < 0) {
		if (tmp[0])
			unlinkat(dirfd, tmp, 0);
		return r;
	}
	r = swap_in(dirfd, tmp, name, c, how);
	return r < 0 ? r : fstat(fd, ret_new) < 0 ? -errno : 0;
}

int place_file(const struct place *p, const struct change *c, const struct place_how *how,
	       struct stat *ret_new)
{
	const char *name, *up_name;
	autoclose int dir = layer_open_parent(p->lower, c->path, &name);
	autoclose int up_dir = dir < 0 ? -1 : layer_open_parent(p->upper, c->path, &up_name);
	autoclose int up = -1;

	if (dir < 0 || up_dir < 0)
		return dir < 0 ? dir : up_dir;
	up = layer_open_file(up_dir, up_name);
	return up < 0 ? up : put_file(up, dir, name, c, how, ret_new);
}

int place_link(const struct place *p, const char *first, const struct stat *expect, const struct change *c,
	       const struct place_how *how)
{
	const char *name, *first_name;
	autoclose int dir = layer_open_parent(p->lower, c->path, &name);
	autoclose int first_dir = dir < 0 ? -1 : layer_open_parent(p->lower, first, &first_name);
	struct stat st;
	char tmp[40];
	int r;

	if (dir < 0 || first_dir < 0)
		return dir < 0 ? dir : first_dir;
	r = fresh_name(tmp);
	if (r < 0)
		return r;
	if (linkat(first_dir, first_name, dir, tmp, 0) < 0)
		return -EXDEV;
	if (fstatat(dir, tmp, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_dev != expect->st_dev ||
	    st.st_ino != expect->st_ino) {
		unlinkat(dir, tmp, 0);
		return -EXDEV;
	}
	return swap_in(dir, tmp, name, c, how);
}

/* --- links, pipes, devices ------------------------------------------------------------------------------------ */

static int make_other(int up_dir, const char *up_name, int dirfd, const char *tmp, const struct change *c)
{
	autobuf struct buf target = BUF_INIT;
	struct stat up;
	int r;

	if (fstatat(up_dir, up_name, &up, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (up.st_mode != c->mode_after)
		return PLACE_CHANGED;
	if (!S_ISLNK(up.st_mode))
		return mknodat(dirfd, tmp, (up.st_mode & S_IFMT) | 0600, up.st_rdev) < 0 ? -errno : 0;
	r = layer_read_link(up_dir, up_name, &target);
	if (r < 0)
		return r;
	return symlinkat(buf_cstr(&target), dirfd, tmp) < 0 ? -errno : 0;
}

/* Owner, mode and time of something that cannot be opened. The name is ours and fresh. */
static int finish_other(int up_dir, const char *up_name, int dirfd, const char *tmp, const struct change *c,
			const struct place_how *how)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT } };
	struct stat up;
	int r = 0;

	if (fstatat(up_dir, up_name, &up, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (up.st_uid != geteuid() && fchownat(dirfd, tmp, up.st_uid, up.st_gid, AT_SYMLINK_NOFOLLOW) < 0 &&
	    how->special && !S_ISLNK(up.st_mode))
		return -errno;
	if (!S_ISLNK(up.st_mode))
		r = fd_chmod_nofollow(dirfd, tmp, final_mode(c, how));
	times[1] = up.st_mtim;
	if (r == 0 && utimensat(dirfd, tmp, times, AT_SYMLINK_NOFOLLOW) < 0)
		r = -errno;
	return r;
}

int place_other(const struct place *p, const struct change *c, const struct place_how *how)
{
	const char *name, *up_name;
	autoclose int dir = layer_open_parent(p->lower, c->path, &name);
	autoclose int up_dir = dir < 0 ? -1 : layer_open_parent(p->upper, c->path, &up_name);
	char tmp[40];
	int r;

	if (dir < 0 || up_dir < 0)
		return dir < 0 ? dir : up_dir;
	r = fresh_name(tmp);
	if (r == 0)
		r = make_other(up_dir, up_name, dir, tmp, c);
	if (r < 0)
		return r;
	r = finish_other(up_dir, up_name, dir, tmp, c, how);
	if (r < 0) {
		unlinkat(dir, tmp, 0);
		return r;
	}
	return swap_in(dir, tmp, name, c, how);
}

/* --- directories, modes, deletions --------------------------------------------------------------------------- */

int place_dir(const struct place *p, const struct change *c, const struct place_how *how)
{
	const char *name;
	autoclose int dir = open_checked(p, c, how, &name);

	if (dir < 0)
		return dir;
	if (c->mode_before && unlinkat(dir, name, 0) < 0 && errno != ENOENT)
		return -errno;
	/* Ours alone until all that belongs into it is there. */
	if (mkdirat(dir, name, 0700) < 0)
		return errno == EEXIST ? PLACE_CHANGED : -errno;
	return 0;
}

int place_dir_finish(const struct place *p, const struct change *c, const struct place_how *how)
{
	const char *name, *up_name;
	autoclose int dir = layer_open_parent(p->lower, c->path, &name);
	autoclose int up_dir = dir < 0 ? -1 : layer_open_parent(p->upper, c->path, &up_name);
	/* The time is that of the moment: by a time of change without one of modification, a later look would take the
	 * directory for one that the user has moved here. */
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, { .tv_nsec = UTIME_NOW } };
	autoclose int fd = -1;
	struct stat up;

	if (dir < 0 || up_dir < 0)
		return dir < 0 ? dir : up_dir;
	if (fstatat(up_dir, up_name, &up, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (c->kind != CHANGE_MODE) {
		autoclose int up_fd =
			openat(up_dir, up_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		int r = up_fd < 0 ? -errno : copy_user_xattrs(up_fd, fd);

		if (r < 0)
			return r;
	}
	if (c->kind != CHANGE_MODE || how->special) {
		int r = set_owner(fd, &up, c, how);

		if (r < 0)
			return r;
	}
	if (futimens(fd, times) < 0 || fchmod(fd, final_mode(c, how)) < 0)
		return -errno;
	return 0;
}

int place_mode(const struct place *p, const struct change *c, const struct place_how *how)
{
	const char *name;
	autoclose int dir = open_checked(p, c, how, &name);

	if (dir < 0)
		return dir;
	if (S_ISDIR(c->mode_after)) /* open to us while we work in it; place_dir_finish() says the last word */
		return fd_chmod_nofollow(dir, name, final_mode(c, how) | 0700);
	/* P2: a file with other names, or one that gets more than a mode, is replaced by its copy. */
	if (S_ISREG(c->mode_after) && (c->before.nlink > 1 || how->special)) {
		struct stat unused;

		return place_file(p, c, how, &unused);
	}
	return fd_chmod_nofollow(dir, name, final_mode(c, how));
}

int place_delete(const struct place *p, const struct change *c, const struct place_how *how)
{
	const char *name;
	autoclose int dir = layer_open_parent(p->lower, c->path, &name);
	struct stat st;
	int r;

	if (dir == -ENOENT)
		return 0;
	if (dir < 0)
		return dir;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	r = check_before(dir, name, c, how);
	if (r < 0)
		return r;
	if (unlinkat(dir, name, S_ISDIR(c->mode_before) ? AT_REMOVEDIR : 0) < 0 && errno != ENOENT)
		return errno == EISDIR || errno == ENOTDIR ? PLACE_CHANGED : -errno;
	return 0;
}
