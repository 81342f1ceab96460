/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the user's settings of an agent below their home, file by file, and leaves credentials out. A file is
 * refused whenever its real name cannot be determined: an error means that it stays outside.
 */
#include "cli/run/run_settings.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "cli/core/say.h"
#include "vault/client/settings.h"
#include "workspace/view/secret.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEPTH_MAX 6
#define ENTRIES_MAX 2048 /* of one directory */
#define LOOKS_MAX 10000
#define PATH_LEN_MAX 512

struct settings_collect {
	int home;
	struct spec_files *to;
	size_t files, left_out, looked;
};

/* run_settings.U1: the kernel refuses a path that leads out of the home. */
static int open_below_home(const struct settings_collect *c, const char *path)
{
	return fd_openat2(c->home, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0,
			  RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS);
}

static void note_left_out(const char *path, const char *why)
{
	char shown[PATH_LEN_MAX];

	say_note("~/%s is not copied into the sandbox: %s", str_safe(path, shown, sizeof(shown)), why);
}

int cli_run_settings_real_name(int home_fd, const char *path, int fd, char **ret)
{
	char proc[32], home[PATH_MAX], real[PATH_MAX];
	struct stat named, st;
	ssize_t n, m;

	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", home_fd);
	n = readlink(proc, home, sizeof(home) - 1);
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	m = readlink(proc, real, sizeof(real) - 1);
	if (n <= 0 || m <= n + 1 || memcmp(home, real, (size_t)n) != 0 || real[n] != '/')
		return -ENAMETOOLONG;
	real[m] = '\0';
	/* For a deleted file the kernel gives "NAME (deleted)", which matches no rule for credentials. So the
	 * name must still lead to the same inode. */
	if (fstat(fd, &st) < 0 || fstatat(home_fd, real + n + 1, &named, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (st.st_dev != named.st_dev || st.st_ino != named.st_ino)
		return -ESTALE;
	if (str_eq(real + n + 1, path))
		return 0;
	*ret = strdup(real + n + 1);
	return *ret ? 1 : -ENOMEM;
}

/* run_settings.U1: a link of any name may lead to a file for credentials, and so may a link whose target
 * cannot be determined. Returns the reason why the file is left out; NULL if it may be taken. */
static const char *why_link_is_refused(const struct settings_collect *c, const char *path, int fd,
				       bool is_dir)
{
	static const char leads[] = "it is a link that leads to credentials";
	autofree char *real = NULL;
	const struct secret_rule *rule = NULL;
	const char *slash;
	int r = cli_run_settings_real_name(c->home, path, fd, &real);

	if (r < 0 || (r > 0 && !real))
		return "its real location cannot be determined, so it may be a link to credentials";
	if (r == 0)
		return NULL;
	slash = strrchr(real, '/');
	if (!is_dir && settings_is_credential_file(slash ? slash + 1 : real))
		return leads;
	return secret_match_path(real, is_dir, &rule) > 0 &&
			       (!secret_needs_look(rule) || secret_look(rule, c->home, real))
		       ? leads
		       : NULL;
}

/* A profile may list a directory and also a file in it. */
static bool is_already_taken(const struct settings_collect *c, const char *inside)
{
	for (size_t i = 0; i < c->to->n; i++) {
		if (str_eq(c->to->v[i].path, inside))
			return true;
	}
	return false;
}

static int take_settings_file(struct settings_collect *c, const char *path, int fd, struct err *e)
{
	autobuf struct buf text = BUF_INIT, clean = BUF_INIT;
	autofree char *inside = NULL;
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	struct err why = ERR_INIT;
	size_t left_out = 0;
	int r;

	if (settings_is_credential_file(name)) {
		note_left_out(path, "it is a file for credentials");
		return 0;
	}
	if (fd_read_all(fd, SETTINGS_FILE_MAX, &text) < 0) {
		note_left_out(path, "it cannot be read, or is too large");
		return 0;
	}
	r = settings_clean(name, buf_cstr(&text), text.len, &clean, &left_out, &why);
	if (r < 0) {
		note_left_out(path, why.msg);
		return 0;
	}
	if (asprintf(&inside, RUN_SETTINGS_DIR "/%s", path) < 0)
		return err_set(e, -ENOMEM, "out of memory");
	if (is_already_taken(c, inside))
		return 0;
	c->files++;
	c->left_out += left_out;
	return spec_files_add(c->to, inside, clean.data ? clean.data : "", clean.len, e);
}

// NOLINTNEXTLINE(misc-no-recursion): no deeper than DEPTH_MAX
static int take_settings_path(struct settings_collect *c, const char *path, unsigned depth, struct err *e);

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

// NOLINTNEXTLINE(misc-no-recursion): take_settings_path() bounds it
static int take_settings_directory(struct settings_collect *c, const char *path, int fd, unsigned depth,
				   struct err *e)
{
	autostrv struct strv names = STRV_INIT;
	autoclosedir DIR *d = fdopendir(fd);
	const struct dirent *de;
	int r = 0;

	if (!d) {
		fd_close(fd);
		return 0;
	}
	while (r == 0 && names.n < ENTRIES_MAX && (de = readdir(d))) {
		if (!str_eq(de->d_name, ".") && !str_eq(de->d_name, ".."))
			r = strv_add(&names, de->d_name);
	}
	if (r < 0)
		return err_set(e, -ENOMEM, "out of memory");
	if (names.n)
		qsort(names.v, names.n, sizeof(*names.v), compare_names);
	for (size_t i = 0; r == 0 && i < names.n; i++) {
		char below[PATH_LEN_MAX];
		int n = snprintf(below, sizeof(below), "%s/%s", path, names.v[i]);

		if (n > 0 && (size_t)n < sizeof(below))
			r = take_settings_path(c, below, depth + 1, e);
	}
	return r;
}

// NOLINTNEXTLINE(misc-no-recursion): no deeper than DEPTH_MAX
static int take_settings_path(struct settings_collect *c, const char *path, unsigned depth, struct err *e)
{
	const char *why;
	autoclose int fd = open_below_home(c, path);
	struct stat st;

	/* Symbolic links may form a loop, so the number of steps is limited. */
	if (c->looked++ == LOOKS_MAX)
		return err_set(e, -E2BIG, "there are more than %d files and directories to look at",
			       LOOKS_MAX);
	if (fd == -ENOENT || fd == -ENOTDIR)
		return 0;
	if (fd == -EXDEV || fd == -ELOOP) {
		note_left_out(path, "it is a link that leads out of your home");
		return 0;
	}
	if (fd < 0 || fstat(fd, &st) < 0) {
		note_left_out(path, strerror(fd < 0 ? -fd : errno));
		return 0;
	}
	why = why_link_is_refused(c, path, fd, S_ISDIR(st.st_mode));
	if (why) {
		note_left_out(path, why);
		return 0;
	}
	if (S_ISREG(st.st_mode))
		return take_settings_file(c, path, fd, e);
	if (!S_ISDIR(st.st_mode) || depth >= DEPTH_MAX) {
		note_left_out(path, S_ISDIR(st.st_mode) ? "it is too deep" : "it is not a regular file");
		return 0;
	}
	return take_settings_directory(c, path, TAKE_FD(fd), depth, e);
}

int cli_run_settings_collect(const struct profile *p, struct spec_files *to, struct err *e)
{
	const char *home = getenv("HOME"); // NOLINT(concurrency-mt-unsafe): one thread
	autoclose int fd = home && home[0] == '/' ? open(home, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
	struct settings_collect c = { .home = fd, .to = to };
	int r = 0;

	if (!p->settings.n)
		return err_set(e, -EINVAL, "--settings: the profile '%s' names no settings to take over",
			       p->name);
	if (!home || home[0] != '/')
		return err_set(e, -EINVAL, "--settings: HOME is not an absolute path");
	if (fd < 0)
		return err_sys(e, -errno, "--settings: cannot open your home directory");
	for (size_t i = 0; r == 0 && i < p->settings.n; i++) {
		autofree char *path = strdup(p->settings.v[i]);
		size_t n = path ? strlen(path) : 0;

		if (!path)
			return err_set(e, -ENOMEM, "out of memory");
		if (n > 1 && path[n - 1] == '/')
			path[n - 1] = '\0';
		r = take_settings_path(&c, path, 0, e);
	}
	if (r < 0)
		return err_wrap(e, r, "--settings");
	say_note("settings: %zu %s of yours taken over, %zu %s for credentials left out", c.files,
		 c.files == 1 ? "file" : "files", c.left_out, c.left_out == 1 ? "value" : "values");
	return 0;
}
