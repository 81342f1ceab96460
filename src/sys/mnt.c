/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Thin wrappers of the mount calls that work on descriptors (open_tree, move_mount, mount_setattr, pivot_root).
 * They decide nothing: which tree is put where is the sandbox room's choice.
 */
#include "sys/mnt.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

int mnt_tree(int dirfd, const char *path, bool recursive)
{
	unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH;
	int fd = open_tree(dirfd, path, flags | (recursive ? AT_RECURSIVE : 0));

	return fd < 0 ? -errno : fd;
}

int mnt_set(int dirfd, const char *path, uint64_t attrs, bool recursive)
{
	struct mount_attr a = { .attr_set = attrs };
	unsigned flags = AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW | (recursive ? AT_RECURSIVE : 0);

	return mount_setattr(dirfd, path, flags, &a, sizeof(a)) < 0 ? -errno : 0;
}

int mnt_idmap(int tree, int userns_fd)
{
	struct mount_attr a = { .attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)userns_fd };

	return mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &a, sizeof(a)) < 0 ? -errno : 0;
}

int mnt_attach(int tree, int target_fd, const char *path)
{
	unsigned flags = MOVE_MOUNT_F_EMPTY_PATH | (*path ? 0 : MOVE_MOUNT_T_EMPTY_PATH);

	return move_mount(tree, "", target_fd, path, flags) < 0 ? -errno : 0;
}

int mnt_bind(const char *src, const char *dst)
{
	return mount(src, dst, NULL, MS_BIND, NULL) < 0 ? -errno : 0;
}

int mnt_tmpfs(const char *dst, uint64_t bytes, uint64_t inodes, unsigned mode)
{
	char opts[128];

	snprintf(opts, sizeof(opts), "size=%llu,nr_inodes=%llu,mode=%o", (unsigned long long)bytes,
		 (unsigned long long)inodes, mode);
	return mount("tmpfs", dst, "tmpfs", MS_NOSUID | MS_NODEV, opts) < 0 ? -errno : 0;
}

int mnt_target(int root_fd, const char *path)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC | O_NOFOLLOW,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};
	long fd;

	while (*path == '/')
		path++;
	fd = syscall(SYS_openat2, root_fd, *path ? path : ".", &how, sizeof(how));
	return fd < 0 ? -errno : (int)fd;
}

int mnt_pivot_here(struct err *e)
{
	/* With both at ".", the old root ends up on top of the new one, and detaching it uncovers the new. */
	if (syscall(SYS_pivot_root, ".", ".") < 0)
		return err_sys(e, -errno, "cannot change into the sandbox's own file system");
	if (umount2(".", MNT_DETACH) < 0)
		return err_sys(e, -errno, "cannot detach the host's file system");
	if (chdir("/") < 0)
		return err_sys(e, -errno, "cannot enter the sandbox's own file system");
	return 0;
}
