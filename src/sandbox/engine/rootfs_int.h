/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations shared by the files that build a root file system: rootfs.c and rootfs_*.c. */
#ifndef SANDBOX_ROOTFS_INT_H
#define SANDBOX_ROOTFS_INT_H

#include "base/err.h"
#include "base/str.h"
#include "sandbox/engine/gv_config.h"
#include "sandbox/engine/rootfs.h"
#include "sandbox/spec/spec.h"
#include "sandbox/wall/wall.h"

/*
 * The stage: one tmpfs, over /tmp of the sandbox's own mount namespace, in which the new root is put together. The new root is
 * a directory of it with a mount on it; beside it are the writable directories outside the workspace, and temporary ones.
 * Removing the old root after the pivot hides the stage with it.
 */
#define STAGE "/tmp"
#define STAGE_ROOT STAGE GV_ROOT

/* The resolver of a sandbox with a network. */
#define ROOTFS_RESOLV "nameserver " WALL_NAMESERVER "\n"

int rootfs_fail(struct err *e, int code, const char *what);

/* Makes a file, 0444, in a directory that only this process has written to. */
int rootfs_write_text(const char *path, const char *text) MUST_CHECK;

/* Writes /etc/hosts and /etc/hostname of the sandbox, at these paths. */
int rootfs_write_names(const struct spec *s, const char *hosts, const char *hostname) MUST_CHECK;

/* Makes the mount targets of device nodes in ./dev, which only this process has written to. */
int rootfs_prepare_dev(struct err *e) MUST_CHECK;

/* Makes the parent directories of path, which is relative to the current directory; only this process has written there. */
int rootfs_make_parents(const char *path) MUST_CHECK;
/* Makes an empty file to mount on, unless there is one. */
int rootfs_make_empty(const char *path) MUST_CHECK;

/* Mounts the layers, the root where the sandbox brings one, and the workspace. */
int rootfs_layers(const struct spec *s, struct trees *t, const char *bound_at, struct err *e) MUST_CHECK;

/* rootfs_shown.c. `bound_at`: where a workspace without a layer goes; `workspace`: where it is. */
int rootfs_workspace(const struct spec *s, struct trees *t, const char *bound_at, struct err *e) MUST_CHECK;
int rootfs_mount_masks(const struct spec *s, const char *workspace, struct err *e) MUST_CHECK;

enum rootfs_place {
	PLACE_ROOT,    /* on the root's own tmpfs */
	PLACE_SCRATCH, /* on the tmpfs that is fresh in each run */
	PLACE_SHARED, /* where a sandbox may have written before; nothing is made there, since it would remain */
};

enum rootfs_place rootfs_bind_place(const struct spec *s, const char *dst);
/* Makes the mount targets of binds, in a tree that only this process has written to. */
int rootfs_bind_places(const struct spec *s, enum rootfs_place where, struct err *e) MUST_CHECK;
int rootfs_binds(const struct spec *s, struct trees *t, struct err *e) MUST_CHECK;

static inline bool rootfs_is_below(const char *path, const char *dir)
{
	return str_starts(path, dir) && path[strlen(dir)] == '/';
}

/* rootfs_image.c. Mounts an overlay over the lowers as the new root, makes it the current directory, and covers /dev, /sys and
 * the files of /etc that must not be the image's. Consumes the lowers. */
int rootfs_image_root(const struct spec *s, const int *lowers, struct err *e) MUST_CHECK;

/* Makes a mount target at `path` (relative to the new root), in the run's own layer, when the image has none. */
int rootfs_image_place(const struct spec *s, const char *path, bool is_dir, struct err *e) MUST_CHECK;

/* The same for the home directory of the command's user. */
int rootfs_image_home(const struct spec *s, struct err *e) MUST_CHECK;

/* rootfs_ca.c: adds the certificates to the new root, which is the current directory. */
int rootfs_ca(const struct spec *s, struct trees *t, bool guest, struct err *e) MUST_CHECK;
/* rootfs_ca_forms.c: writes the files that are made from ca.pem and ca-bundle.pem. Nothing can be appended to Java's later. */
int rootfs_ca_forms(bool has_ca) MUST_CHECK;

/* Mounts /tmp, /var/tmp and a named home. */
int rootfs_image_scratch(const struct spec *s, int home_tree, struct err *e) MUST_CHECK;

#endif
