/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removing a tree that an attacker built: a hundred thousand levels deep, a million entries wide, directories without
 * permissions, while few descriptors are left.
 *
 * Invariants
 *  T1  At most DEPTH_MAX directories are open at once, and nothing recurses. A directory further down is first moved up
 *      to the top under a fresh name; so each is moved once in DEPTH_MAX levels, and the cost stays linear.
 *  T2  Nothing outside the tree is touched: no symlink is followed, no mount entered, and names are used only with
 *      the fd of the directory that they were read from.
 *  T3  When no more descriptors can be opened, the removal continues with two: the top and the directory below it.
 */
#include "base/fd.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#define DEPTH_MAX 16
#define NAME_SHOWN 256

/* A directory that is being emptied. */
struct level {
	int fd;
	bool seen;	 /* this pass met an entry: another pass must follow */
	unsigned idle;	 /* passes that met entries and removed none */
	uint64_t before; /* work done when this pass began */
	char name[256];	 /* in the level above */
};

struct rmtree {
	struct level v[DEPTH_MAX];
	unsigned depth;
	uint64_t salt; /* random, so that the attacker cannot create our fresh names in advance */
	uint64_t moved;
	uint64_t n;
	_Alignas(struct dirent64) char raw[8192];
};

static int cannot_remove(struct err *e, int code, const char *name)
{
	char shown[NAME_SHOWN];

	return err_sys(e, code, "cannot remove %s", str_safe(name, shown, sizeof(shown)));
}

static int rename_to_fresh_name(int from, const char *name, int to, const char *fresh)
{
	if (renameat2(from, name, to, fresh, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno == EINVAL) /* the file system does not know the flag; the name is fresh anyway */
		return renameat(from, name, to, fresh) < 0 ? -errno : 0;
	return -errno;
}

/* Moves a directory to the top of the tree, where a later pass finds it. */
static int move_to_top(struct rmtree *t, int dirfd, const char *name, struct err *e)
{
	char fresh[64];
	int r;

	snprintf(fresh, sizeof(fresh), ".rm-%016llx-%llu", (unsigned long long)t->salt,
		 (unsigned long long)++t->moved);
	r = rename_to_fresh_name(dirfd, name, t->v[0].fd, fresh);
	if (r == -EACCES && fd_chmod_nofollow(dirfd, name, 0700) == 0) /* the rename writes its ".." entry */
		r = rename_to_fresh_name(dirfd, name, t->v[0].fd, fresh);
	return r < 0 && r != -ENOENT ? cannot_remove(e, r, name) : 0;
}

static int open_dir_beneath(int dirfd, const char *name)
{
	const uint64_t resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV;
	const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK;
	struct stat st;
	int fd = fd_openat2(dirfd, name, flags, 0, resolve);

	if (fd == -EACCES && fd_chmod_nofollow(dirfd, name, 0700) == 0)
		fd = fd_openat2(dirfd, name, flags, 0, resolve);
	if (fd < 0)
		return fd;
	/* Removing entries needs read, write and search. Where fchmod() fails, unlinkat() reports the error later. */
	if (fstat(fd, &st) == 0 && (st.st_mode & 0700) != 0700 && fchmod(fd, 0700) < 0)
		return fd;
	return fd;
}

static void push_level(struct rmtree *t, int fd, const char *name)
{
	struct level *l = &t->v[t->depth++];

	*l = (struct level){ .fd = fd, .before = t->n + t->moved };
	snprintf(l->name, sizeof(l->name), "%s", name);
}

/* 0 when the directory was removed or moved to the top; 1 when it was opened and is now the current level. */
static int remove_dir(struct rmtree *t, int dirfd, const char *name, struct err *e)
{
	int fd;

	if (unlinkat(dirfd, name, AT_REMOVEDIR) == 0) {
		t->n++;
		return 0;
	}
	if (errno == ENOENT)
		return 0;
	if (errno != ENOTEMPTY && errno != EEXIST && errno != EACCES)
		return cannot_remove(e, -errno, name);
	if (t->depth == DEPTH_MAX)
		return move_to_top(t, dirfd, name, e);
	fd = open_dir_beneath(dirfd, name);
	if ((fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM) && t->depth > 1)
		return move_to_top(t, dirfd, name, e);
	if (fd == -EXDEV)
		return err_set(e, -EXDEV, "cannot remove a directory: something is mounted on it");
	if (fd < 0)
		return cannot_remove(e, fd, name);
	push_level(t, fd, name);
	return 1;
}

static int remove_entry(struct rmtree *t, int dirfd, const struct dirent64 *de, struct err *e)
{
	if (de->d_type != DT_DIR) {
		if (unlinkat(dirfd, de->d_name, 0) == 0) {
			t->n++;
			return 0;
		}
		if (errno == ENOENT)
			return 0;
		if (errno !=
		    EISDIR) /* EISDIR: the type was DT_UNKNOWN, or a directory has replaced the entry */
			return cannot_remove(e, -errno, de->d_name);
	}
	return remove_dir(t, dirfd, de->d_name, e);
}

/* Continues to empty the current directory. 1 when it opened one below; its offset is then after that entry. */
static int empty_directory(struct rmtree *t, struct err *e)
{
	struct level *l = &t->v[t->depth - 1];
	ssize_t len;

	while ((len = getdents64(l->fd, t->raw, sizeof(t->raw))) > 0) {
		for (ssize_t at = 0; at < len;) {
			const struct dirent64 *de = (const void *)(t->raw + at);
			off_t behind = de->d_off;
			int r;

			at += de->d_reclen;
			if (str_eq(de->d_name, ".") || str_eq(de->d_name, ".."))
				continue;
			l->seen = true;
			r = remove_entry(t, l->fd, de, e);
			if (r < 0)
				return r;
			if (r == 1 && lseek(l->fd, behind, SEEK_SET) < 0)
				return err_sys(e, -errno, "cannot read a directory to remove it");
			if (r == 1)
				return 1;
		}
	}
	/* ENOENT: the directory itself is gone already. */
	return len < 0 && errno != ENOENT ? err_sys(e, -errno, "cannot read a directory to remove it") : 0;
}

/* Ends a pass over the current directory. Passes repeat until one finds no entry: file systems may skip entries while others
 * are removed, and move_to_top() adds entries to the top. */
static int end_pass(struct rmtree *t, struct err *e)
{
	struct level *l = &t->v[t->depth - 1];
	bool seen = l->seen;

	if (seen) {
		l->idle = t->n + t->moved == l->before ? l->idle + 1 : 0;
		if (l->idle == 3)
			return err_set(e, -EBUSY, "cannot remove a directory: its entries do not go away");
		l->before = t->n + t->moved;
		l->seen = false;
		return lseek(l->fd, 0, SEEK_SET) < 0
			       ? err_sys(e, -errno, "cannot read a directory to remove it")
			       : 0;
	}
	l->fd = fd_close(l->fd);
	t->depth--;
	if (t->depth == 0)
		return 0;
	/* When an entry was added meanwhile, the next pass of the level above finds this directory again. */
	if (unlinkat(t->v[t->depth - 1].fd, l->name, AT_REMOVEDIR) == 0)
		t->n++;
	else if (errno != ENOENT && errno != ENOTEMPTY && errno != EEXIST)
		return cannot_remove(e, -errno, l->name);
	return 0;
}

static int empty_top(struct rmtree *t, int fd, struct err *e)
{
	int r = 0;

	push_level(t, fd, "");
	while (r >= 0 && t->depth) {
		r = empty_directory(t, e);
		if (r == 0)
			r = end_pass(t, e);
	}
	while (t->depth)
		fd_close(t->v[--t->depth].fd);
	return r < 0 ? r : 0;
}

static int remove_path(struct rmtree *t, int dirfd, const char *path, struct err *e)
{
	int fd, r;

	if (unlinkat(dirfd, path, 0) == 0) {
		t->n++;
		return 0;
	}
	if (errno == ENOENT)
		return 0;
	if (errno != EISDIR)
		return cannot_remove(e, -errno, path);
	if (getrandom(&t->salt, sizeof(t->salt), 0) != (ssize_t)sizeof(t->salt))
		return cannot_remove(e, -EIO, path);
	fd = openat(dirfd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == EACCES && fd_chmod_nofollow(dirfd, path, 0700) == 0)
		fd = openat(dirfd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return cannot_remove(e, -errno, path);
	if (fchmod(fd, 0700) < 0 && errno != EPERM) {
		r = cannot_remove(e, -errno, path);
		fd_close(fd);
		return r;
	}
	r = empty_top(t, fd, e);
	if (r < 0)
		return r;
	if (unlinkat(dirfd, path, AT_REMOVEDIR) < 0 && errno != ENOENT)
		return cannot_remove(e, -errno, path);
	t->n++;
	return 0;
}

int fd_rm_tree(int dirfd, const char *path, uint64_t *ret_n, struct err *e)
{
	struct rmtree t;
	int r;

	t.depth = 0;
	t.moved = t.n = 0;
	r = remove_path(&t, dirfd, path, e);

	if (ret_n)
		*ret_n = t.n;
	return r;
}

int fd_rm_rf(int dirfd, const char *path, struct err *e)
{
	return fd_rm_tree(dirfd, path, NULL, e);
}
