/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes one change to the original directory (place.h). Each act is on (directory fd, one name), and the original is
 * compared with the list right before it (place.P1, place.P3). It must not write to an existing file (place.P2).
 */
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
 * place.P3: is the original still as it was listed? The ctime of a file with several names moves with every name that we
 * replace, so it is not compared there; the times of a directory move with our own work in it.
 */
static bool is_as_listed(const struct change *c, const struct stat *st)
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

/* Checks the entry that is at the place now. With force any entry but a directory may be replaced. */
static int check_before(int dirfd, const char *name, const struct change *c, const struct place_how *how)
{
	struct stat st;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno != ENOENT ? -errno : !c->mode_before || how->force ? 0 : PLACE_CHANGED;
	if (c->mode_before && is_as_listed(c, &st))
		return 0;
	return how->force && !S_ISDIR(st.st_mode) ? 0 : PLACE_CHANGED;
}

/* Opens the directory of the change and checks the present entry; *ret_name is its name there. */
static int open_checked_parent(const struct place *p, const struct change *c, const struct place_how *how,
			       const char **ret_name)
{
	autoclose int dir = layer_open_parent(p->lower, c->path, ret_name);
	int r = dir < 0 ? dir : check_before(dir, *ret_name, c, how);

	return r < 0 ? r : TAKE_FD(dir);
}

static int make_temp_name(char out[40])
{
	uint64_t salt;

	if (getrandom(&salt, sizeof(salt), 0) != (ssize_t)sizeof(salt))
		return -EIO;
	snprintf(out, 40, ".coffer-apply-%016llx", (unsigned long long)salt);
	return 0;
}

/*
 * Renames our finished entry over the old one, or to the free name; removes ours when that fails. An original directory is
 * removed first: it is empty by now, otherwise it stays and the change fails.
 */
static int rename_into_place(int dirfd, const char *tmp, const char *name, const struct change *c,
			     const struct place_how *how)
{
	bool was_dir = S_ISDIR(c->mode_before);
	bool may_replace = (c->mode_before && !was_dir) || how->force;
	int r = check_before(dirfd, name, c, how);

	if (r == 0 && was_dir && unlinkat(dirfd, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
		r = -errno;
	if (r == 0) {
		r = renameat2(dirfd, tmp, dirfd, name, may_replace ? 0 : RENAME_NOREPLACE) < 0 ? -errno : 0;
		if (r == -EINVAL && !may_replace) { /* a file system without RENAME_NOREPLACE */
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

static mode_t mode_to_set(const struct change *c, const struct place_how *how)
{
	/* A directory with unusual bits was flagged as special, so it gets here only with a yes. */
	return c->mode_after & (how->special || S_ISDIR(c->mode_after) ? 07777 : 0777);
}

/*
 * Sets the owner: a changed file keeps its owner, a new one has that of the layer (the caller or the workspace's owner, or
 * there is a yes). Without the privilege to change owners it becomes the caller's, unless the yes was about the owner.
 */
static int set_placed_owner(int fd, const struct stat *up, const struct change *c,
			    const struct place_how *how)
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
	/* Setting the group alone may be permitted. If not, the file is the caller's: it cannot be changed otherwise. */
	if (fchown(fd, (uid_t)-1, gid) < 0 && errno != EPERM && errno != EINVAL)
		return -errno;
	return 0;
}

static int finish_placed_file(int up_fd, int fd, const struct stat *up, const struct change *c,
			      const struct place_how *how)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, up->st_mtim };
	int r = set_placed_owner(fd, up, c, how);

	if (r == 0)
		r = copy_user_xattrs(up_fd, fd);
	if (r == 0 && how->special)
		r = copy_xattr(up_fd, fd, "security.capability");
	/* The mode is set after the owner, since a change of owner clears setuid. */
	if (r == 0 && fchmod(fd, mode_to_set(c, how)) < 0)
		r = -errno;
	if (r == 0 && futimens(fd, times) < 0)
		r = -errno;
	return r;
}

/* Copies the access list of the original to the new file; lists from inside are not applied. */
static int keep_original_acl(int dirfd, const char *name, int fd, const struct change *c)
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

/* A new file without a name (O_TMPFILE) where the file system supports it, so that not even a kill leaves one; otherwise
 * `name` is its temporary name. */
static int open_unnamed_file(int dirfd, char name[40])
{
	int fd = openat(dirfd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	int r;

	name[0] = '\0';
	if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT && errno != EINVAL))
		return fd < 0 ? -errno : fd;
	r = make_temp_name(name);
	if (r < 0)
		return r;
	fd = openat(dirfd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		name[0] = '\0';
	return fd < 0 ? -errno : fd;
}

static int link_unnamed_file(int fd, int dirfd, char name[40])
{
	char proc[32];
	int r = make_temp_name(name);

	if (r < 0)
		return r;
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	return linkat(AT_FDCWD, proc, dirfd, name, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
}

static int place_new_file(int up_fd, int dirfd, const char *name, const struct change *c,
			  const struct place_how *how, struct stat *ret_new)
{
	autoclose int fd = -1;
	struct stat up;
	char tmp[40];
	int r;

	if (fstat(up_fd, &up) < 0)
		return -errno;
	/* The run has ended, but the file must still be the one that was listed and allowed. */
	if (up.st_mode != c->mode_after || (uint64_t)up.st_size != c->size_after)
		return PLACE_CHANGED;
	fd = open_unnamed_file(dirfd, tmp);
	if (fd < 0)
		return fd;
	r = copy_content(up_fd, fd, up.st_size);
	if (r == 0)
		r = finish_placed_file(up_fd, fd, &up, c, how);
	if (r == 0)
		r = keep_original_acl(dirfd, name, fd, c);
	if (r == 0 && !tmp[0])
		r = link_unnamed_file(fd, dirfd, tmp);
	if (r < 0) {
		if (tmp[0])
			unlinkat(dirfd, tmp, 0);
		return r;
	}
	r = rename_into_place(dirfd, tmp, name, c, how);
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
	return up < 0 ? up : place_new_file(up, dir, name, c, how, ret_new);
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
	r = make_temp_name(tmp);
	if (r < 0)
		return r;
	if (linkat(first_dir, first_name, dir, tmp, 0) < 0)
		return -EXDEV;
	if (fstatat(dir, tmp, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_dev != expect->st_dev ||
	    st.st_ino != expect->st_ino) {
		unlinkat(dir, tmp, 0);
		return -EXDEV;
	}
	return rename_into_place(dir, tmp, name, c, how);
}

/* --- links, pipes, devices ------------------------------------------------------------------------------------ */

static int make_special(int up_dir, const char *up_name, int dirfd, const char *tmp, const struct change *c)
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

/* Owner, mode and time of an entry that cannot be opened. The temporary name is our own. */
static int finish_special(int up_dir, const char *up_name, int dirfd, const char *tmp, const struct change *c,
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
		r = fd_chmod_nofollow(dirfd, tmp, mode_to_set(c, how));
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
	r = make_temp_name(tmp);
	if (r == 0)
		r = make_special(up_dir, up_name, dir, tmp, c);
	if (r < 0)
		return r;
	r = finish_special(up_dir, up_name, dir, tmp, c, how);
	if (r < 0) {
		unlinkat(dir, tmp, 0);
		return r;
	}
	return rename_into_place(dir, tmp, name, c, how);
}

/* --- directories, modes, deletions --------------------------------------------------------------------------- */

int place_dir(const struct place *p, const struct change *c, const struct place_how *how)
{
	const char *name;
	autoclose int dir = open_checked_parent(p, c, how, &name);

	if (dir < 0)
		return dir;
	if (c->mode_before && unlinkat(dir, name, 0) < 0 && errno != ENOENT)
		return -errno;
	/* Accessible to us alone until it is filled. */
	if (mkdirat(dir, name, 0700) < 0)
		return errno == EEXIST ? PLACE_CHANGED : -errno;
	return 0;
}

int place_dir_finish(const struct place *p, const struct change *c, const struct place_how *how)
{
	const char *name, *up_name;
	autoclose int dir = layer_open_parent(p->lower, c->path, &name);
	autoclose int up_dir = dir < 0 ? -1 : layer_open_parent(p->upper, c->path, &up_name);
	/* mtime is set to now: a new ctime with an old mtime would later be taken for a directory that the user has moved
	 * here (change.c). */
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
		int r = set_placed_owner(fd, &up, c, how);

		if (r < 0)
			return r;
	}
	if (futimens(fd, times) < 0 || fchmod(fd, mode_to_set(c, how)) < 0)
		return -errno;
	return 0;
}

int place_mode(const struct place *p, const struct change *c, const struct place_how *how)
{
	const char *name;
	autoclose int dir = open_checked_parent(p, c, how, &name);

	if (dir < 0)
		return dir;
	if (S_ISDIR(c->mode_after)) /* accessible while we work in it; place_dir_finish() sets the final mode */
		return fd_chmod_nofollow(dir, name, mode_to_set(c, how) | 0700);
	/* place.P2: a file with other names, or one that gets more than a mode, is replaced by its copy. */
	if (S_ISREG(c->mode_after) && (c->before.nlink > 1 || how->special)) {
		struct stat unused;

		return place_file(p, c, how, &unused);
	}
	return fd_chmod_nofollow(dir, name, mode_to_set(c, how));
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
