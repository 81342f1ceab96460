/* SPDX-License-Identifier: Apache-2.0 */
/* What the files that build a root file system share. */
#ifndef SANDBOX_ROOTFS_INT_H
#define SANDBOX_ROOTFS_INT_H

#include "base/err.h"
#include "base/str.h"
#include "sandbox/engine/gv_config.h"
#include "sandbox/engine/rootfs.h"
#include "sandbox/spec/spec.h"
#include "sandbox/wall/wall.h"

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

/* Makes the directories above path, which is relative to the current directory and ours alone. */
int rootfs_make_parents(const char *path) MUST_CHECK;
/* A file to mount on, where there is none. */
int rootfs_make_empty(const char *path) MUST_CHECK;

/* The layers, and what stands on them: the root when the sandbox brings one, and the workspace. */
int rootfs_layers(const struct spec *s, struct trees *t, const char *bound_at, struct err *e) MUST_CHECK;

/* rootfs_shown.c. `bound_at`: where a workspace without a layer goes; `workspace`: where it is. */
int rootfs_workspace(const struct spec *s, struct trees *t, const char *bound_at, struct err *e) MUST_CHECK;
int rootfs_masks(const struct spec *s, const char *workspace, struct err *e) MUST_CHECK;

enum rootfs_place {
	PLACE_ROOT,    /* on the root's own tmpfs */
	PLACE_SCRATCH, /* on the tmpfs that is fresh in each run */
	PLACE_SHARED, /* where a sandbox may have written before; there nothing is made: it would stay behind */
};

enum rootfs_place rootfs_bind_place(const struct spec *s, const char *dst);
/* Makes what a bind needs to stand on, in a tree that nobody but us has written to. */
int rootfs_bind_places(const struct spec *s, enum rootfs_place where, struct err *e) MUST_CHECK;
int rootfs_binds(const struct spec *s, struct trees *t, struct err *e) MUST_CHECK;

static inline bool rootfs_is_below(const char *path, const char *dir)
{
	return str_starts(path, dir) && path[strlen(dir)] == '/';
}

/* rootfs_image.c. An overlay over the lowers as the new root, the process standing in it, with /dev, /sys and the
 * files of /etc that are not the image's in place. The lowers are used up. */
int rootfs_image_root(const struct spec *s, const int *lowers, struct err *e) MUST_CHECK;

/* A place for something at `path` (relative to the new root), in the run's own layer when the image has none. */
int rootfs_image_place(const struct spec *s, const char *path, bool is_dir, struct err *e) MUST_CHECK;

/* The same for a named home, where the command's user has it. */
int rootfs_image_home(const struct spec *s, struct err *e) MUST_CHECK;

/* rootfs_ca.c: in the new root, in which the process stands. */
int rootfs_ca(const struct spec *s, struct trees *t, bool guest, struct err *e) MUST_CHECK;
/* rootfs_ca_forms.c: the files beside ca.pem and ca-bundle.pem, made of those. Java's cannot be added to later. */
int rootfs_ca_forms(bool has_ca) MUST_CHECK;

/* /tmp, /var/tmp and a named home. */
int rootfs_image_scratch(const struct spec *s, int home_tree, struct err *e) MUST_CHECK;

#endif
