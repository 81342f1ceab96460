/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mounts as trees that are held by an fd until they are put in place. (The file is named mnt.h because the system
 * has a sys/mount.h.) Targets are fds too, or paths below a directory that this process made itself; a path that an
 * attacker could have prepared is opened with mnt_target(), which follows no symlink.
 */
#ifndef SYS_MNT_H
#define SYS_MNT_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/mount.h>

#define MNT_RO (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)
#define MNT_RW (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)

/* A detached copy of what is mounted at path, with all that is mounted below it when `recursive`. */
int mnt_tree(int dirfd, const char *path, bool recursive) MUST_CHECK;

/* Adds attributes (MOUNT_ATTR_*) to a tree that is held by fd, or (dirfd, path) of one in place. */
int mnt_set(int dirfd, const char *path, uint64_t attrs, bool recursive) MUST_CHECK;

/* Shows the tree's owners as the user namespace maps them. Only for the host's root. */
int mnt_idmap(int tree, int userns_fd) MUST_CHECK;

/* Puts a tree in place. target_fd with path "" means that very fd. */
int mnt_attach(int tree, int target_fd, const char *path) MUST_CHECK;

/* Copies src (a path) to dst (a path) as a bind mount, one mount deep. */
int mnt_bind(const char *src, const char *dst) MUST_CHECK;

/* A tmpfs of at most `bytes` and `inodes`. */
int mnt_tmpfs(const char *dst, uint64_t bytes, uint64_t inodes, unsigned mode) MUST_CHECK;

/* O_PATH fd of an existing path below root_fd, following no symlink and never leaving root_fd's tree. */
int mnt_target(int root_fd, const char *path) MUST_CHECK;

/* Makes the current directory the root, and detaches the old root. */
int mnt_pivot_here(struct err *e) MUST_CHECK;

#endif
