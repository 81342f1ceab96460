/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The destination of a copy, by docker cp's rules: whether the source goes into an existing directory or gets a new name.
 * Runs on the side that has the destination. It makes nothing: it only opens the directory.
 */
#include "sandbox/init/copy.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define COPY_PATH_MAX 4096

/* The last component: its start and length, trailing slashes not counted. */
static size_t last_component(const char *path, const char **ret)
{
	size_t end = strlen(path), start;

	while (end && path[end - 1] == '/')
		end--;
	start = end;
	while (start && path[start - 1] != '/')
		start--;
	*ret = path + start;
	return end - start;
}

static bool is_dot_name(const char *s, size_t n)
{
	return s[0] == '.' && (n == 1 || (n == 2 && s[1] == '.'));
}

int copy_source_name(const char *path, char ret[PACK_NAME_MAX + 1])
{
	const char *last;
	size_t n = last_component(path, &last);

	if (n > PACK_NAME_MAX)
		return -ENAMETOOLONG;
	if (n == 0 || is_dot_name(last, n))
		n = 0;
	memcpy(ret, last, n);
	ret[n] = '\0';
	return 0;
}

static int copy_target_fail(struct copy_fail *fail, int code, const char *what, const char *name, size_t n)
{
	fail->code = code;
	fail->what = what;
	n = n > PACK_NAME_MAX ? PACK_NAME_MAX : n;
	memcpy(fail->name, name, n);
	fail->name[n] = '\0';
	return code;
}

/* dst is an existing directory. */
static int target_in_directory(struct copy_target *t, int dir, const char *source_name)
{
	t->dir = dir;
	t->into = !*source_name;
	pack_set_name(t->name, source_name);
	return 0;
}

int copy_target_open(struct copy_target *t, int dirfd, const char *dst, const char *source_name,
		     struct copy_fail *fail)
{
	static char parent[COPY_PATH_MAX];
	const char *last;
	size_t n = last_component(dst, &last);
	size_t parent_len = (size_t)(last - dst);
	int dir = openat(dirfd, dst, O_PATH | O_DIRECTORY | O_CLOEXEC);

	*t = (struct copy_target){ .dir = -1 };
	if (dir >= 0)
		return target_in_directory(t, dir, source_name);
	if (errno != ENOENT && errno != ENOTDIR)
		return copy_target_fail(fail, -errno, "cannot open", dst, strlen(dst));
	if (n == 0 || is_dot_name(last, n) || n > PACK_NAME_MAX || parent_len >= sizeof(parent))
		return copy_target_fail(fail, -ENOENT, "cannot copy to", dst, strlen(dst));
	memcpy(parent, dst, parent_len);
	parent[parent_len] = '\0';
	dir = openat(dirfd, parent_len ? parent : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return copy_target_fail(fail, -errno, "cannot open the directory", parent, parent_len);
	t->dir = dir;
	t->want_dir = last[n] == '/';
	memcpy(t->name, last, n);
	t->name[n] = '\0';
	return 0;
}
