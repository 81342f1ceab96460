/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies chosen files and directories into a sandbox's empty workspace (give.h). Reads beneath the source directory only, and
 * leaves credentials out unless the user named them with --show.
 */
#include "workspace/apply/give.h"

#include "base/fd.h"
#include "workspace/apply/file_copy.h"
#include "workspace/tree/layer.h"
#include "workspace/tree/path.h"
#include "workspace/view/secret.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEPTH_MAX 128 /* each level holds a few descriptors */

struct give {
	const struct strv *show; /* normalised */
	uint64_t bytes;
	struct err *e;
};

/* Readable for any uid of the command; not writable, as a hint that changes to the copy go nowhere. */
static mode_t given_mode(mode_t m)
{
	return (m & 0111) ? 0555 : 0444;
}

static int give_file(struct give *g, int from, const struct stat *st, int to_dir, const char *name)
{
	autoclose int to = openat(to_dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	int r;

	if (to < 0)
		return errno == EEXIST ? 0 : -errno;
	r = copy_content(from, to, st->st_size);
	if (r < 0)
		return r;
	g->bytes += (uint64_t)st->st_size;
	return fchmod(to, given_mode(st->st_mode)) < 0 ? -errno : 0;
}

static int make_given_dir(int dir, const char *name)
{
	int fd;

	if (mkdirat(dir, name, 0755) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* Does it look like credentials, without a --show for it? */
static bool is_hidden_secret(const struct give *g, const char *path, int dir, const char *parent,
			     const char *name, bool is_dir)
{
	const struct secret_rule *rule = secret_match(parent, name, is_dir);

	if (!rule || path_covered(g->show, path))
		return false;
	return !secret_needs_look(rule) || secret_look(rule, dir, name);
}

static int give_tree(struct give *g, const struct give_from *from, int to, const char *path, unsigned depth);

static void give_from_release(struct give_from *f)
{
	fd_close(f->upper);
	fd_close(f->lower);
	*f = (struct give_from){ -1, -1 };
}

static int open_given_dir(int dir, const char *name)
{
	return dir < 0 ? -1 : openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* The directory from which an entry is read; -ENOENT when it does not exist or was deleted. */
static int find_given(const struct give_from *from, const char *name, struct stat *st)
{
	if (from->upper >= 0 && fstatat(from->upper, name, st, AT_SYMLINK_NOFOLLOW) == 0)
		return layer_is_whiteout(st) ? -ENOENT : from->upper;
	if (from->upper >= 0 && errno != ENOENT)
		return -errno;
	if (from->lower >= 0 && fstatat(from->lower, name, st, AT_SYMLINK_NOFOLLOW) == 0)
		return from->lower;
	return from->lower >= 0 ? -errno : -ENOENT;
}

/* Enters a directory in both, in one, or in the upper one alone where that hides the lower one. */
static int enter_given(const struct give_from *from, const char *name, struct give_from *ret)
{
	struct stat st = { 0 };
	int at = find_given(from, name, &st), fd;

	*ret = (struct give_from){ -1, -1 };
	if (at < 0)
		return at;
	fd = open_given_dir(at, name);
	if (fd < 0)
		return -errno;
	if (at != from->upper) {
		ret->lower = fd;
		return 0;
	}
	ret->upper = fd;
	/* A lower entry that is not a directory is hidden by an upper directory. */
	if (!layer_is_opaque(fd))
		ret->lower = open_given_dir(from->lower, name);
	return 0;
}

static int give_open_file(struct give *g, int at, const char *name, int to)
{
	autoclose int fd = openat(at, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st = { 0 };

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	return S_ISREG(st.st_mode) ? give_file(g, fd, &st, to, name) : 0;
}

// NOLINTBEGIN(misc-no-recursion): no deeper than DEPTH_MAX
/* One entry below a directory that was named. */
static int give_entry(struct give *g, const struct give_from *from, int to, const char *path,
		      const char *name, unsigned depth)
{
	CLEANUP(give_from_release) struct give_from sub = { -1, -1 };
	const char *parent = strrchr(path, '/');
	autofree char *whole = NULL;
	autoclose int made = -1;
	struct stat st = { 0 };
	int at, r;

	if (asprintf(&whole, "%s%s%s", path, *path ? "/" : "", name) < 0)
		return -ENOMEM;
	at = find_given(from, name, &st);
	if (at < 0)
		return at == -ENOENT ? 0 : at;
	if ((!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) ||
	    is_hidden_secret(g, whole, at, parent ? parent + 1 : path, name, S_ISDIR(st.st_mode)))
		return 0;
	if (S_ISREG(st.st_mode))
		return give_open_file(g, at, name, to);
	r = enter_given(from, name, &sub);
	if (r < 0)
		return r;
	made = make_given_dir(to, name);
	return made < 0 ? made : give_tree(g, &sub, made, whole, depth + 1);
}

/* The entries of the upper or the lower directory; of the lower one only those that the upper one does not have. */
static int give_dir_entries(struct give *g, const struct give_from *from, bool upper, int to,
			    const char *path, unsigned depth)
{
	int copy = openat(upper ? from->upper : from->lower, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *de;
	struct stat st = { 0 };

	if (!d) {
		fd_close(copy);
		return -errno;
	}
	while (r == 0 && (de = readdir(d))) {
		if (str_eq(de->d_name, ".") || str_eq(de->d_name, "..") ||
		    (!upper && from->upper >= 0 &&
		     fstatat(from->upper, de->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0))
			continue;
		r = give_entry(g, from, to, path, de->d_name, depth);
	}
	closedir(d);
	return r;
}

static int give_tree(struct give *g, const struct give_from *from, int to, const char *path, unsigned depth)
{
	int r = depth > DEPTH_MAX ? -ELOOP : 0;

	if (r == 0 && from->upper >= 0)
		r = give_dir_entries(g, from, true, to, path, depth);
	if (r == 0 && from->lower >= 0)
		r = give_dir_entries(g, from, false, to, path, depth);
	return r;
}
// NOLINTEND(misc-no-recursion)

/* Makes the directories above the last part of a path in the destination. Returns the fd of the last one. */
static int make_given_parents(int to, char *path, const char **ret_name)
{
	int at = fcntl(to, F_DUPFD_CLOEXEC, 3);
	char *slash;

	while (at >= 0 && (slash = strchr(path, '/'))) {
		int next;

		*slash = '\0';
		next = make_given_dir(at, path);
		*slash = '/';
		fd_close(at);
		at = next;
		path = slash + 1;
	}
	*ret_name = path;
	return at == -1 ? -errno : at;
}

/* Opens the directory of a path's last part in both. */
static int enter_given_parents(const struct give_from *from, char *path, struct give_from *ret,
			       const char **ret_name)
{
	struct give_from at = { from->upper < 0 ? -1 : fcntl(from->upper, F_DUPFD_CLOEXEC, 3),
				from->lower < 0 ? -1 : fcntl(from->lower, F_DUPFD_CLOEXEC, 3) };
	char *slash;

	while ((slash = strchr(path, '/'))) {
		struct give_from next = { -1, -1 };
		int r;

		*slash = '\0';
		r = enter_given(&at, path, &next);
		*slash = '/';
		give_from_release(&at);
		if (r < 0)
			return r;
		at = next;
		path = slash + 1;
	}
	*ret_name = path;
	*ret = at;
	return 0;
}

/* Opens a path that the user named: a file in *ret_file, or a directory in *ret_dir. */
static int open_named_path(const struct give_from *from, const char *path, int *ret_file,
			   struct give_from *ret_dir)
{
	CLEANUP(give_from_release) struct give_from parent = { -1, -1 };
	autofree char *copy = strdup(path);
	autoclose int fd = -1;
	const char *name;
	struct stat st = { 0 };
	int r;

	if (!copy)
		return -ENOMEM;
	if (!*path)
		return enter_given_parents(from, copy, ret_dir, &name);
	if (from->upper < 0) {
		fd = fd_openat2(from->lower, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0, RESOLVE_BENEATH);
		if (fd < 0)
			return fd;
		if (fstat(fd, &st) < 0)
			return -errno;
		if (S_ISDIR(st.st_mode))
			ret_dir->lower = TAKE_FD(fd);
		else
			*ret_file = TAKE_FD(fd);
		return 0;
	}
	r = enter_given_parents(from, copy, &parent, &name);
	if (r == 0)
		r = find_given(&parent, name, &st);
	if (r < 0)
		return r;
	if (S_ISDIR(st.st_mode))
		return enter_given(&parent, name, ret_dir);
	/* ELOOP for a symlink. */
	fd = openat(r, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	*ret_file = TAKE_FD(fd);
	return 0;
}

static int path_of_fd(int fd, char out[PATH_MAX])
{
	char link[32];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, out, PATH_MAX - 1);
	if (n < 0)
		return -errno;
	out[n] = '\0';
	return 0;
}

/* give.V3: the real path of an open file below `from`, whatever links led there; `buf` holds it. */
static int real_path_below(int from, int fd, char buf[PATH_MAX], const char **ret)
{
	char top[PATH_MAX] = "";
	int r = path_of_fd(from, top);
	size_t n;

	if (r == 0)
		r = path_of_fd(fd, buf);
	if (r < 0)
		return r;
	n = str_eq(top, "/") ? 0 : strlen(top);
	if (strncmp(buf, top, n) != 0 || (buf[n] && buf[n] != '/'))
		return -ESTALE; /* moved away meanwhile */
	*ret = buf + n + (buf[n] == '/');
	return 0;
}

static int refuse_given_secret(struct give *g, const char *path, const char *real,
			       const struct secret_rule *rule)
{
	if (str_eq(path, real))
		err_set(g->e, -EPERM, "will not give %s: it is %s", path, secret_what(rule));
	else
		err_set(g->e, -EPERM, "will not give %s: it leads to %s, which is %s", path, real,
			secret_what(rule));
	return err_hint(g->e, -EPERM, "--show %s allows it", real);
}

static int give_named_path(struct give *g, const struct give_from *from, const char *path, int to)
{
	CLEANUP(give_from_release) struct give_from tree = { -1, -1 };
	char buf[PATH_MAX] = "";
	autofree char *copy = strdup(path);
	autoclose int file = -1, dir = -1, sub = -1;
	const struct secret_rule *rule;
	const char *name, *real = path;
	struct stat st = { 0 };
	int r = copy ? open_named_path(from, path, &file, &tree) : -ENOMEM;

	if (r < 0)
		return r;
	if (file >= 0 && (fstat(file, &st) < 0 || !S_ISREG(st.st_mode)))
		return err_set(g->e, -EINVAL, "cannot give %s: it is neither a file nor a directory", path);
	/* Through an upper layer no link was followed. */
	r = from->upper < 0 ? real_path_below(from->lower, file >= 0 ? file : tree.lower, buf, &real) : 0;
	if (r < 0)
		return r;
	if (secret_match_path(real, file < 0, &rule) && !path_covered(g->show, real))
		return refuse_given_secret(g, path, real, rule);
	if (!*path)
		return give_tree(g, &tree, to, real, 0);
	dir = make_given_parents(to, copy, &name);
	if (dir < 0)
		return dir;
	if (file >= 0)
		return give_file(g, file, &st, dir, name);
	sub = make_given_dir(dir, name);
	return sub < 0 ? sub : give_tree(g, &tree, sub, real, 0);
}

int workspace_give(const struct give_from *from, const struct strv *paths, const struct strv *show, int to_fd,
		   uint64_t *ret_bytes, struct err *e)
{
	autostrv struct strv want = STRV_INIT, open = STRV_INIT;
	struct give g = { .show = &open, .e = e };
	int r = path_normalise_all(paths, &want, e);

	if (r == 0)
		r = path_normalise_all(show, &open, e);
	for (size_t i = 0; r == 0 && i < want.n; i++) {
		r = give_named_path(&g, from, want.v[i], to_fd);
		if (r == -EXDEV)
			err_set(e, r, "will not give %s: it leads out of the workspace", want.v[i]);
		else if (r == -ELOOP && from->upper >= 0)
			err_set(e, r,
				"will not give %s: it is a link that the sandbox may have made; name what it leads to",
				want.v[i]);
		else if (r < 0 && e->code == 0)
			err_sys(e, r, "cannot give %s to the sandbox", want.v[i]);
	}
	*ret_bytes = g.bytes;
	return r;
}
