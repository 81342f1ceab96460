/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace/give.h"

#include "base/fd.h"
#include "workspace/copy.h"
#include "workspace/path.h"
#include "workspace/secret.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEPTH_MAX 256

struct give {
	const struct strv *show; /* normalised */
	uint64_t bytes;
	struct err *e;
};

/* Readable by whoever the command is; not writable, as a hint that writing is of no use. */
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

static int make_dir(int dir, const char *name)
{
	int fd;

	if (mkdirat(dir, name, 0755) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* Does it look like credentials, and nobody said yes? */
static bool is_hidden(const struct give *g, const char *path, int dir, const char *parent, const char *name,
		      bool is_dir)
{
	const struct secret_rule *rule = secret_match(parent, name, is_dir);

	if (!rule || path_covered(g->show, path))
		return false;
	return !secret_needs_look(rule) || secret_look(rule, dir, name);
}

static int give_tree(struct give *g, int from, int to, const char *path, unsigned depth);

/* One entry below a directory that was named. */
static int give_entry(struct give *g, int from, int to, const char *path, const char *name, unsigned depth)
{
	const char *parent = strrchr(path, '/');
	autofree char *whole = NULL;
	autoclose int fd = -1, sub = -1;
	struct stat st;

	if (asprintf(&whole, "%s%s%s", path, *path ? "/" : "", name) < 0)
		return -ENOMEM;
	if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if ((!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) ||
	    is_hidden(g, whole, from, parent ? parent + 1 : path, name, S_ISDIR(st.st_mode)))
		return 0;
	fd = openat(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (S_ISREG(st.st_mode))
		return give_file(g, fd, &st, to, name);
	if (!S_ISDIR(st.st_mode))
		return 0;
	sub = make_dir(to, name);
	return sub < 0 ? sub : give_tree(g, fd, sub, whole, depth + 1);
}

static int give_tree(struct give *g, int from, int to, const char *path, unsigned depth)
{
	int copy = fcntl(from, F_DUPFD_CLOEXEC, 3), r = 0;
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *de;

	if (!d) {
		fd_close(copy);
		return -errno;
	}
	if (depth > DEPTH_MAX)
		r = -ELOOP;
	while (r == 0 && (de = readdir(d))) {
		if (!str_eq(de->d_name, ".") && !str_eq(de->d_name, ".."))
			r = give_entry(g, from, to, path, de->d_name, depth);
	}
	closedir(d);
	return r;
}

/* The directories above the last part of a path, made where it goes. Returns the fd of the last one. */
static int make_parents(int to, char *path, const char **ret_name)
{
	int at = fcntl(to, F_DUPFD_CLOEXEC, 3);
	char *slash;

	while (at >= 0 && (slash = strchr(path, '/'))) {
		int next;

		*slash = '\0';
		next = make_dir(at, path);
		*slash = '/';
		fd_close(at);
		at = next;
		path = slash + 1;
	}
	*ret_name = path;
	return at == -1 ? -errno : at;
}

static int path_of(int fd, char out[PATH_MAX])
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

/* V3: where below `from` an open file really is, whatever links led there; `buf` holds it. */
static int real_path(int from, int fd, char buf[PATH_MAX], const char **ret)
{
	char top[PATH_MAX] = "";
	int r = path_of(from, top);
	size_t n;

	if (r == 0)
		r = path_of(fd, buf);
	if (r < 0)
		return r;
	n = str_eq(top, "/") ? 0 : strlen(top);
	if (strncmp(buf, top, n) != 0 || (buf[n] && buf[n] != '/'))
		return -ESTALE; /* moved away meanwhile */
	*ret = buf + n + (buf[n] == '/');
	return 0;
}

static int refuse_secret(struct give *g, const char *path, const char *real, const struct secret_rule *rule)
{
	if (str_eq(path, real))
		err_set(g->e, -EPERM, "will not give %s: it is %s", path, secret_what(rule));
	else
		err_set(g->e, -EPERM, "will not give %s: it leads to %s, which is %s", path, real,
			secret_what(rule));
	return err_hint(g->e, -EPERM, "--show %s says that it may be seen", real);
}

static int give_named(struct give *g, int from, const char *path, int to)
{
	char buf[PATH_MAX] = "";
	autofree char *copy = strdup(path);
	autoclose int fd =
		*path ? fd_openat2(from, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0, RESOLVE_BENEATH)
		      : fcntl(from, F_DUPFD_CLOEXEC, 3);
	autoclose int dir = -1, sub = -1;
	const struct secret_rule *rule;
	const char *name, *real;
	struct stat st;
	int r;

	if (!copy)
		return -ENOMEM;
	if (fd < 0)
		return fd == -1 ? -errno : fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return err_set(g->e, -EINVAL, "cannot give %s: it is neither a file nor a directory", path);
	r = real_path(from, fd, buf, &real);
	if (r < 0)
		return r;
	if (secret_match_path(real, S_ISDIR(st.st_mode), &rule) && !path_covered(g->show, real))
		return refuse_secret(g, path, real, rule);
	if (!*path)
		return give_tree(g, fd, to, real, 0);
	dir = make_parents(to, copy, &name);
	if (dir < 0)
		return dir;
	if (S_ISREG(st.st_mode))
		return give_file(g, fd, &st, dir, name);
	sub = make_dir(dir, name);
	return sub < 0 ? sub : give_tree(g, fd, sub, real, 0);
}

int workspace_give(int from_fd, const struct strv *paths, const struct strv *show, int to_fd,
		   uint64_t *ret_bytes, struct err *e)
{
	autostrv struct strv want = STRV_INIT, open = STRV_INIT;
	autoclose int from = openat(from_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct give g = { .show = &open, .e = e };
	int r = path_normalise_all(paths, &want, e);

	if (r == 0)
		r = path_normalise_all(show, &open, e);
	if (r == 0 && from < 0)
		r = err_sys(e, -errno, "cannot open the workspace");
	for (size_t i = 0; r == 0 && i < want.n; i++) {
		r = give_named(&g, from, want.v[i], to_fd);
		if (r == -EXDEV)
			err_set(e, r, "will not give %s: it leads out of the workspace", want.v[i]);
		else if (r < 0 && e->code == 0)
			err_sys(e, r, "cannot give %s to the sandbox", want.v[i]);
	}
	*ret_bytes = g.bytes;
	return r;
}
