/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the entries of an archive as a layer (unpack_tree.h). Runs in coffer-unpack, confined, over hostile entries: each is
 * made by (directory fd, one name), and parents are resolved beneath the layer.
 */
#include "sandbox/image/unpack_tree.h"

#include "base/fd.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#define INSIDE (RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV)
#define PART_MAX 255
#define OWNERS_MAX 65536u /* as many as a sandbox maps */
#define NOBODY 65534u
#define OPAQUE "user.overlay.opaque"

struct dir_meta {
	int64_t mtime;
	uint32_t mode;
	uint32_t path_len;
};

static int unpack_fail(struct err *e, int code, const char *path)
{
	char shown[160];

	return err_sys(e, code, "cannot unpack %s", str_safe(path, shown, sizeof(shown)));
}

static int refuse_entry(struct err *e, const char *path, const char *why)
{
	char shown[160];

	return err_set(e, -EBADMSG, "refused: %s: %s", str_safe(path, shown, sizeof(shown)), why);
}

int unpack_clean_path(const char *path, char out[TAR_PATH_MAX + 1])
{
	size_t len = 0;

	if (*path == '/' || !*path)
		return -EINVAL;
	while (*path) {
		size_t n = strcspn(path, "/");

		if (n > PART_MAX || (n == 2 && path[0] == '.' && path[1] == '.'))
			return -EINVAL;
		if (n && !(n == 1 && path[0] == '.')) {
			if (len + 1 + n > TAR_PATH_MAX)
				return -EINVAL;
			if (len)
				out[len++] = '/';
			memcpy(out + len, path, n);
			len += n;
		}
		path += n;
		path += strspn(path, "/");
	}
	out[len] = '\0';
	return 0;
}

static void drop_cached_parent(struct unpack_tree *u)
{
	u->parent = fd_close(u->parent);
}

/* unpack_tree.E4: refuses more entries than the limit. */
static int count_layer_entry(struct unpack_tree *u)
{
	return ++u->counts->entries > u->opts->entries_max ? -E2BIG : 0;
}

static int make_implied_dir(struct unpack_tree *u, int at, const char *name)
{
	int r = count_layer_entry(u);

	if (r == 0 && mkdirat(at, name, 0755) < 0)
		r = -errno;
	return r < 0 ? r
		     : fd_openat2(at, name, O_PATH | O_DIRECTORY, 0, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
}

static int refuse_too_many(const struct unpack_tree *u, struct err *e)
{
	return err_set(e, -E2BIG, "it has more than %llu entries", (unsigned long long)u->opts->entries_max);
}

/* Opens a directory of the layer; makes it, and those above it, where the archive has no entry for them. */
static int open_layer_dir(struct unpack_tree *u, char *path)
{
	int fd = fd_openat2(u->root, *path ? path : ".", O_PATH | O_DIRECTORY, 0, INSIDE), at = -1;

	if (fd != -ENOENT)
		return fd;
	for (char *p = path;; p++) {
		char *slash = strchr(p, '/');

		if (slash)
			*slash = '\0';
		fd = fd_openat2(u->root, path, O_PATH | O_DIRECTORY, 0, INSIDE);
		if (fd == -ENOENT)
			fd = make_implied_dir(u, at < 0 ? u->root : at, p);
		fd_close(at);
		if (slash)
			*slash = '/';
		if (fd < 0 || !slash)
			return fd;
		at = fd;
		p = slash;
	}
}

/* Opens the directory of `path` and finds its last part. The directory stays open for the next entry, which is often in it. */
static int open_entry_parent(struct unpack_tree *u, const char *path, const char **ret_name, struct err *e)
{
	const char *slash = strrchr(path, '/');
	size_t len = slash ? (size_t)(slash - path) : 0;

	*ret_name = slash ? slash + 1 : path;
	if (u->parent >= 0 && strncmp(u->parent_path, path, len) == 0 && !u->parent_path[len])
		return 0;
	drop_cached_parent(u);
	memcpy(u->parent_path, path, len);
	u->parent_path[len] = '\0';
	u->parent = open_layer_dir(u, u->parent_path);
	if (u->parent < 0) {
		int r = u->parent;

		u->parent = -1;
		if (r == -E2BIG)
			return refuse_too_many(u, e);
		return r == -ENOTDIR || r == -ELOOP || r == -EEXIST
			       ? refuse_entry(e, path, "its parent is not a directory")
			       : unpack_fail(e, r, path);
	}
	return 0;
}

static bool is_whiteout_device(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
}

static int mark_opaque(int dir, const char *name)
{
	autoclose int fd =
		fd_openat2(dir, name, O_RDONLY | O_DIRECTORY, 0, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);

	return fd < 0 ? fd : fsetxattr(fd, OPAQUE, "y", 1, 0) < 0 ? -errno : 0;
}

/*
 * Removes an existing entry of that name. 1: a directory exists and stays. 2: the removed entry was a whiteout, so a
 * directory in its place must be opaque to hide the same name of the layers below.
 */
static int replace_entry(struct unpack_tree *u, const char *name, bool for_dir, const char *path,
			 struct err *e)
{
	struct stat st;
	bool hid;
	int r;

	if (fstatat(u->parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : unpack_fail(e, -errno, path);
	if (S_ISDIR(st.st_mode) && for_dir)
		return 1;
	hid = is_whiteout_device(&st);
	r = S_ISDIR(st.st_mode)		       ? fd_rm_rf(u->parent, name, e)
	    : unlinkat(u->parent, name, 0) < 0 ? -errno
					       : 0;
	return r < 0 ? unpack_fail(e, r, path) : hid ? 2 : 0;
}

static uint32_t stored_owner(struct unpack_tree *u, uint64_t id)
{
	if (id < OWNERS_MAX)
		return (uint32_t)id;
	u->counts->strangers++;
	return NOBODY;
}

static int set_entry_owner(struct unpack_tree *u, const char *name, uint64_t uid, uint64_t gid)
{
	if (!u->opts->owners)
		return 0;
	return fchownat(u->parent, name, stored_owner(u, uid), stored_owner(u, gid), AT_SYMLINK_NOFOLLOW) < 0
		       ? -errno
		       : 0;
}

static struct timespec tar_mtime(int64_t mtime)
{
	return (struct timespec){ .tv_sec = mtime };
}

static int finish_entry_file(struct unpack_tree *u)
{
	const struct timespec times[2] = { tar_mtime(u->file_mtime), tar_mtime(u->file_mtime) };
	int r = 0;

	if (u->opts->owners &&
	    fchown(u->file, stored_owner(u, u->file_uid), stored_owner(u, u->file_gid)) < 0)
		r = -errno;
	if (r == 0 && fchmod(u->file, u->file_mode) < 0)
		r = -errno;
	/* A time that the file system cannot store is no error. */
	if (r == 0 && futimens(u->file, times) < 0 && errno != EINVAL && errno != ERANGE)
		r = -errno;
	u->file = fd_close(u->file);
	return r;
}

static int make_entry_file(struct unpack_tree *u, const struct tar_entry *te, const char *name)
{
	u->file = openat(u->parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (u->file < 0)
		return -errno;
	u->counts->setids += (te->mode & (S_ISUID | S_ISGID)) != 0;
	u->file_mode = te->mode & 01777;
	u->file_mtime = te->mtime;
	u->file_uid = te->uid;
	u->file_gid = te->gid;
	return te->size ? 0 : finish_entry_file(u);
}

/* Modes and times of directories are set last: while they are filled they must stay writable and searchable. */
static int defer_dir_attributes(struct unpack_tree *u, const struct tar_entry *te, const char *path)
{
	struct dir_meta m = { .mtime = te->mtime,
			      .mode = te->mode & 03777,
			      .path_len = (uint32_t)strlen(path) };

	u->counts->setids += (te->mode & S_ISUID) != 0;
	buf_add(&u->dirs, path, m.path_len + 1);
	buf_add(&u->dirs, &m, sizeof(m));
	return buf_error(&u->dirs);
}

static int make_entry_dir(struct unpack_tree *u, const struct tar_entry *te, const char *name,
			  const char *path, int was)
{
	int r = 0;

	if (was != 1 && mkdirat(u->parent, name, 0700) < 0)
		return -errno;
	if (was == 2)
		r = mark_opaque(u->parent, name);
	if (r == 0)
		r = set_entry_owner(u, name, te->uid, te->gid);
	return r < 0 ? r : defer_dir_attributes(u, te, path);
}

static int make_entry_symlink(struct unpack_tree *u, const struct tar_entry *te, const char *name)
{
	const struct timespec times[2] = { tar_mtime(te->mtime), tar_mtime(te->mtime) };

	if (symlinkat(te->link, u->parent, name) < 0)
		return -errno;
	(void)utimensat(u->parent, name, times, AT_SYMLINK_NOFOLLOW);
	return set_entry_owner(u, name, te->uid, te->gid);
}

/* unpack_tree.E2: the target is resolved beneath the layer, like a parent. */
static int make_entry_hardlink(struct unpack_tree *u, const struct tar_entry *te, const char *name,
			       const char *path, struct err *e)
{
	char target[TAR_PATH_MAX + 1], *slash;
	autoclose int dir = -1;
	struct stat st;

	if (unpack_clean_path(te->link, target) < 0 || !*target)
		return refuse_entry(e, path, "a hard link that leads out of the archive");
	slash = strrchr(target, '/');
	if (slash)
		*slash = '\0';
	dir = fd_openat2(u->root, slash ? target : ".", O_PATH | O_DIRECTORY, 0, INSIDE);
	if (dir < 0 || fstatat(dir, slash ? slash + 1 : target, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode)))
		return refuse_entry(e, path,
				    "a hard link to something other than an earlier file of the archive");
	if (linkat(dir, slash ? slash + 1 : target, u->parent, name, 0) < 0)
		return unpack_fail(e, -errno, path);
	return 0;
}

/* unpack_tree.E3: ".wh.NAME" removes NAME of the layers below; it becomes a whiteout or an opaque directory. */
static int make_whiteout(struct unpack_tree *u, const char *name, const char *path, struct err *e)
{
	const char *what = name + 4;
	struct stat st;
	int r = 0;

	if (str_eq(what, ".wh..opq"))
		r = mark_opaque(u->parent, ".");
	else if (str_starts(what, ".wh.")) /* internal files of aufs */
		return 0;
	else if (!*what || str_eq(what, ".") || str_eq(what, ".."))
		return refuse_entry(e, path, "the name of the file that it hides is missing or not valid");
	else if (fstatat(u->parent, what, &st, AT_SYMLINK_NOFOLLOW) < 0)
		r = mknodat(u->parent, what, S_IFCHR, makedev(0, 0)) < 0 ? -errno : 0;
	else if (S_ISDIR(st.st_mode)) /* of this layer: it stays and hides that of the layers below */
		r = mark_opaque(u->parent, what);
	if (r == -EOPNOTSUPP || r == -EPERM)
		return err_hint(e, unpack_fail(e, r, path),
				"the state directory's file system cannot hold layers: COFFER_STATE=DIR "
				"names another place");
	return r < 0 ? unpack_fail(e, r, path) : 0;
}

static int make_layer_entry(struct unpack_tree *u, const struct tar_entry *te, const char *path,
			    struct err *e)
{
	const char *name;
	int r = open_entry_parent(u, path, &name, e), was = 0;

	if (r < 0)
		return r;
	if (str_starts(name, ".wh."))
		return make_whiteout(u, name, path, e);
	/* Before a hard link is made too: one that names itself as its target has none then, and is refused. */
	was = replace_entry(u, name, te->type == TAR_DIR, path, e);
	if (was < 0)
		return was;
	switch (te->type) {
	case TAR_FILE:
		r = make_entry_file(u, te, name);
		break;
	case TAR_DIR:
		r = make_entry_dir(u, te, name, path, was);
		break;
	case TAR_SYMLINK:
		/* The parent of a later entry may resolve through this symlink (unpack_tree.E1). */
		r = make_entry_symlink(u, te, name);
		break;
	default:
		return make_entry_hardlink(u, te, name, path, e);
	}
	return r < 0 ? unpack_fail(e, r, path) : 0;
}

static int skip_special_entry(struct unpack_tree *u, const struct tar_entry *te, struct err *e)
{
	if (te->type == TAR_FIFO) {
		u->counts->pipes++;
		return 0;
	}
	if (te->type == TAR_CHAR && te->dev_major == 0 && te->dev_minor == 0)
		return refuse_entry(e, te->path, "the device 0:0, which means something else in a layer");
	u->counts->devices++;
	return 0;
}

int unpack_tree_entry(struct unpack_tree *u, const struct tar_entry *te, struct err *e)
{
	char path[TAR_PATH_MAX + 1];

	BUG_ON(u->file >= 0);
	if (count_layer_entry(u) < 0)
		return refuse_too_many(u, e);
	if (unpack_clean_path(te->path, path) < 0)
		return refuse_entry(e, te->path, "a name that is absolute, has .. in it, or is too long");
	if (te->overlay_xattr)
		return refuse_entry(e, te->path,
				    "an attribute that would make the overlay show something else");
	u->counts->xattrs += te->xattrs;
	if (te->type == TAR_CHAR || te->type == TAR_BLOCKDEV || te->type == TAR_FIFO)
		return skip_special_entry(u, te, e);
	if (*path)
		return make_layer_entry(u, te, path, e);
	if (te->type != TAR_DIR)
		return refuse_entry(e, te->path, "its root is not a directory");
	if (u->opts->owners && fchown(u->root, stored_owner(u, te->uid), stored_owner(u, te->gid)) < 0)
		return unpack_fail(e, -errno, "/");
	return defer_dir_attributes(u, te, path) < 0 ? err_set(e, -ENOMEM, "out of memory") : 0;
}

int unpack_tree_data(struct unpack_tree *u, const uint8_t *data, size_t len, bool last, struct err *e)
{
	int r = 0;

	/* Content of a whiteout entry is ignored. */
	if (u->file < 0)
		return 0;
	r = fd_write_all(u->file, data, len);
	if (r == 0 && last)
		r = finish_entry_file(u);
	return r < 0 ? err_sys(e, r, "cannot unpack a file") : 0;
}

static int set_dir_attributes(struct unpack_tree *u, const char *path, const struct dir_meta *m)
{
	const struct timespec times[2] = { tar_mtime(m->mtime), tar_mtime(m->mtime) };
	/* The root must stay accessible to the owner of the store. */
	uint32_t mode = *path ? m->mode : m->mode | 0700;
	autoclose int fd =
		fd_openat2(u->root, *path ? path : ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, INSIDE);

	/* A later entry replaced the directory, or set_dir_attributes() made one above it inaccessible: its mode is of no use. */
	if (fd < 0)
		return fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM ? fd : 0;
	if (fchmod(fd, mode) < 0)
		return -errno;
	return futimens(fd, times) < 0 && errno != EINVAL && errno != ERANGE ? -errno : 0;
}

/* From the last to the first: a directory is set after everything in it. */
int unpack_tree_finish(struct unpack_tree *u, struct err *e)
{
	size_t end = u->dirs.len;
	int r = 0;

	BUG_ON(u->file >= 0);
	drop_cached_parent(u);
	while (r == 0 && end) {
		struct dir_meta m;

		end -= sizeof(m);
		memcpy(&m, u->dirs.data + end, sizeof(m));
		end -= m.path_len + 1;
		r = set_dir_attributes(u, u->dirs.data + end, &m);
	}
	return r < 0 ? err_sys(e, r, "cannot set the mode of a directory") : 0;
}

void unpack_tree_release(struct unpack_tree *u)
{
	fd_close(u->file);
	drop_cached_parent(u);
	buf_release(&u->dirs);
}
