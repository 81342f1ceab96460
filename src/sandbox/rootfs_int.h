/* SPDX-License-Identifier: Apache-2.0 */
/* What the files that build a root file system share. */
#ifndef SANDBOX_ROOTFS_INT_H
#define SANDBOX_ROOTFS_INT_H

#include "base/err.h"
#include "sandbox/gv_config.h"
#include "sandbox/spec.h"
#include "sandbox/wall.h"

/*
 * Where the new root is put together, hidden only in the sandbox's own mount namespace: one tmpfs. The new root is a
 * directory of it with a mount on it; beside it stands what is writable outside the workspace, and what is needed for
 * a moment. With the old root the stage goes out of sight in one call.
 */
#define STAGE "/tmp"
#define STAGE_ROOT STAGE GV_ROOT

/* The resolver of a sandbox with a network. */
#define ROOTFS_RESOLV "nameserver " WALL_NAMESERVER "\n"

int rootfs_fail(struct err *e, int code, const char *what);

/* Makes a file, 0444, in a directory that is ours alone. */
int rootfs_write_text(const char *path, const char *text) MUST_CHECK;

/* The two files that name the sandbox to itself. */
int rootfs_write_names(const struct spec *s, const char *hosts, const char *hostname) MUST_CHECK;

/* The places for device nodes in ./dev, which is ours alone and empty but for pts and shm. */
int rootfs_prepare_dev(struct err *e) MUST_CHECK;

/* rootfs_image.c. An overlay over the lowers as the new root, the process standing in it, with /dev, /sys and the
 * files of /etc that are not the image's in place. The lowers are used up. */
int rootfs_image_root(const struct spec *s, const int *lowers, struct err *e) MUST_CHECK;

/* A place for something at `path` (relative to the new root), in the run's own layer when the image has none. */
int rootfs_image_place(const struct spec *s, const char *path, bool is_dir, struct err *e) MUST_CHECK;

/* rootfs_ca.c: in the new root, in which the process stands. */
int rootfs_ca(const struct spec *s, int ca_fd, bool guest, struct err *e) MUST_CHECK;

/* /tmp, /var/tmp and a named home. */
int rootfs_image_scratch(const struct spec *s, int home_tree, struct err *e) MUST_CHECK;

#endif
