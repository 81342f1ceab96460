/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks names up in the two directories that a run's layer is over, as the kernel's overlay would show them (base.h). Follows
 * no symlink.
 */
#include "workspace/tree/base.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "workspace/tree/layer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

static void base_close(struct base *b)
{
	b->layer = fd_close(b->layer);
	b->dir = fd_close(b->dir);
}

/* The directory that shows the name; -ENOENT when neither does. */
static int find_in_base(const struct base *b, const char *name, struct stat *st)
{
	if (b->layer >= 0 && fstatat(b->layer, name, st, AT_SYMLINK_NOFOLLOW) == 0)
		return layer_is_whiteout(st) ? -ENOENT : b->layer;
	if (b->layer >= 0 && errno != ENOENT)
		return -errno;
	if (b->dir < 0)
		return -ENOENT;
	return fstatat(b->dir, name, st, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : b->dir;
}

/* Descends one directory in both. */
static int descend_base(struct base *b, const char *name)
{
	struct base next = { -1, -1 };
	struct stat st;
	int at = find_in_base(b, name, &st);

	if (at < 0)
		return at;
	if (at == b->layer) {
		next.layer = openat(b->layer, name, DIR_FLAGS);
		if (next.layer < 0)
			return -errno;
	}
	if (b->dir >= 0 && (next.layer < 0 || !layer_is_opaque(next.layer))) {
		next.dir = openat(b->dir, name, DIR_FLAGS);
		if (next.dir < 0 && next.layer < 0)
			return -errno;
	}
	base_close(b);
	*b = next;
	return 0;
}

static int dup_or_none(int fd)
{
	return fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

int workspace_open_parent(struct base b, const char *path, const char **ret_name, struct stat *ret_st)
{
	CLEANUP(base_close) struct base at = { dup_or_none(b.layer), dup_or_none(b.dir) };
	const char *slash;
	int fd;

	while ((slash = strchr(path, '/'))) {
		char name[NAME_MAX + 1];
		size_t n = (size_t)(slash - path);
		int r;

		if (n > NAME_MAX)
			return -ENAMETOOLONG;
		memcpy(name, path, n);
		name[n] = '\0';
		r = descend_base(&at, name);
		if (r < 0)
			return r;
		path = slash + 1;
	}
	fd = find_in_base(&at, path, ret_st);
	if (fd < 0)
		return fd;
	*ret_name = path;
	return fd == at.layer ? TAKE_FD(at.layer) : TAKE_FD(at.dir);
}
