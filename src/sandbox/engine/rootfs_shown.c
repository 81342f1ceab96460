/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of a root that differ with every run: the workspace with its layer, the masks that hide files in
 * it, and binds. Nothing that the spec does not name may be shown.
 */
#include "base/fd.h"
#include "sandbox/engine/rootfs.h"
#include "sandbox/engine/rootfs_int.h"
#include "sys/mnt.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/*
 * volatile: without it the end of every run would write out all dirty data of the host's file system. The option forbids
 * mounting the layer again after a crash, which never happens: a layer is mounted once.
 */
static int mount_workspace_overlay(const struct spec *s, struct trees *t)
{
	/* The kernel makes these for itself, as root of this namespace. The caller must be able to remove them. */
	static const char *const made[] = { "../layers/work/work", "../layers/work/work/incompat",
					    "../layers/work/work/incompat/volatile" };
	const char *lower = t->from < 0 ? "../lower" : t->ws < 0 ? "../from" : "../from:../lower";
	char options[128];
	int r = t->ws < 0 ? 0 : mnt_attach(t->ws, AT_FDCWD, "../lower");

	if (r == 0 && t->from >= 0)
		r = mkdir("../from", 0700) < 0 ? -errno : mnt_attach(t->from, AT_FDCWD, "../from");
	if (r < 0)
		return r;
	snprintf(options, sizeof(options),
		 "lowerdir=%s,upperdir=../layers/upper,workdir=../layers/work,userxattr,volatile", lower);
	if (mount("overlay", "workspace", "overlay", MS_NOSUID | MS_NODEV, options) < 0)
		return -errno;
	for (size_t i = 0; s->ids.range && !s->ids.host_root && i < ARRAY_SIZE(made); i++) {
		if ((chown(made[i], s->uid, s->gid) < 0 || chmod(made[i], 0700) < 0) && errno != ENOENT)
			return -errno;
	}
	return 0;
}

static int mount_ephemeral_workspace(void)
{
	autoclose int upper = mnt_tree(AT_FDCWD, "../layers/upper", false);

	return upper < 0 ? upper : mnt_attach(upper, AT_FDCWD, "workspace");
}

int rootfs_workspace(const struct spec *s, struct trees *t, const char *bound_at, struct err *e)
{
	int r;

	switch (s->ws_mode) {
	case WS_OVERLAY:
		r = mount_workspace_overlay(s, t);
		if (r < 0) {
			r = err_sys(e, r, "cannot mount a layer over the workspace %s%s",
				    s->ws_path ? s->ws_path : s->over,
				    s->ids.host_root && r == -EINVAL
					    ? " (as root this needs Linux 5.19 or newer)"
					    : "");
			return err_hint(
				e, r,
				"-C DIR:ro shows it read-only, -C DIR:rw binds it through, or COFFER_STATE "
				"names a place on another file system for the layers");
		}
		return 0;
	case WS_EPHEMERAL:
		r = mount_ephemeral_workspace();
		return r < 0 ? rootfs_fail(e, r, "/workspace") : 0;
	case WS_RO:
	case WS_RW:
		r = mnt_set(t->ws, "", s->ws_mode == WS_RO ? MNT_RO : MNT_RW, true);
		if (r == 0)
			r = mnt_attach(t->ws, AT_FDCWD, bound_at);
		return r < 0 ? rootfs_fail(e, r, s->ws_path) : 0;
	default:
		BUG("unknown workspace mode");
	}
}

/* Makes the mount source that hides a path: an empty or redacted file, or the empty /sys. */
static int make_mask_source(const struct mask *m, size_t i, char *path, size_t cap)
{
	autoclose int fd = -1;

	if (m->is_dir) {
		snprintf(path, cap, "sys");
		return 0;
	}
	snprintf(path, cap, "../mask-%zu", i);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
	if (fd < 0)
		return -errno;
	return m->content ? fd_write_all(fd, m->content, m->content_len) : 0;
}

static int mount_mask(const struct spec *s, int ws_fd, size_t i)
{
	const struct mask *m = &s->masks[i];
	char src[64];
	autoclose int target = mnt_target(ws_fd, m->path);
	autoclose int tree = -1;
	int r;

	/* Gone since it was found: it may have been moved, and would be visible at its new name. */
	if (target < 0)
		return target == -ENOENT || target == -ENOTDIR ? -ESTALE : target;
	r = make_mask_source(m, i, src, sizeof(src));
	if (r < 0)
		return r;
	tree = mnt_tree(AT_FDCWD, src, false);
	if (tree < 0)
		return tree;
	r = mnt_set(tree, "", MNT_RO | MOUNT_ATTR_NOEXEC, false);
	if (r == 0)
		r = mnt_attach(tree, target, "");
	/* Not before: a tree whose root has no name left cannot be mounted. runsc mounts it again, so there the name stays. */
	if (r == 0 && !m->is_dir && s->runsc_fd < 0 && unlink(src) < 0)
		return -errno;
	return r;
}

int rootfs_mount_masks(const struct spec *s, const char *workspace, struct err *e)
{
	autoclose int ws = s->n_masks ? open(workspace, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
	int r;

	for (size_t i = 0; i < s->n_masks; i++) {
		r = mount_mask(s, ws, i);
		if (r < 0)
			return err_sys(e, r, "cannot hide %s of the workspace", s->masks[i].path);
	}
	return 0;
}

enum rootfs_place rootfs_bind_place(const struct spec *s, const char *dst)
{
	/* gVisor's tmpfs is in its own memory; for a bind below that, its gofer wants the target in the root. */
	enum rootfs_place scratch = s->runsc_fd >= 0 ? PLACE_ROOT : PLACE_SCRATCH;

	if (rootfs_is_below(dst, ROOTFS_WORKSPACE))
		return PLACE_SHARED;
	if (rootfs_is_below(dst, rootfs_home_of(s)) && (s->home_fd >= 0 || !spec_has_root_layer(s)))
		return s->home_fd >= 0 ? PLACE_SHARED : scratch;
	if (rootfs_is_below(dst, "/tmp") || rootfs_is_below(dst, "/var/tmp") ||
	    (rootfs_is_below(dst, "/run") && !spec_has_root_layer(s)))
		return scratch;
	return PLACE_ROOT;
}

int rootfs_bind_places(const struct spec *s, enum rootfs_place where, struct err *e)
{
	for (size_t i = 0; i < s->n_binds; i++) {
		const char *dst = s->binds[i].dst + 1;
		int r;

		if (rootfs_bind_place(s, s->binds[i].dst) != where)
			continue;
		/* On the scratch too: an image may have a link in its place, and then there is no scratch there. */
		if (spec_has_root_layer(s)) {
			r = rootfs_image_place(s, dst, s->binds[i].is_dir, e);
			if (r < 0)
				return r;
			continue;
		}
		if (access(dst, F_OK) == 0)
			continue;
		r = rootfs_make_parents(dst);
		if (r == 0 && s->binds[i].is_dir)
			r = mkdir(dst, 0755) < 0 ? -errno : 0;
		else if (r == 0)
			r = rootfs_make_empty(dst);
		if (r < 0)
			return err_sys(e, r, "cannot make a place for %s inside", s->binds[i].dst);
	}
	return 0;
}

int rootfs_binds(const struct spec *s, struct trees *t, struct err *e)
{
	autoclose int root = s->n_binds ? open(".", O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;

	for (size_t i = 0; i < s->n_binds; i++) {
		const struct bind *b = &s->binds[i];
		autoclose int target = mnt_target(root, b->dst);
		int r = target < 0 ? target : 0;

		if (r == 0)
			r = mnt_set(t->binds[i], "", b->writable ? MNT_RW : MNT_RO, true);
		if (r == 0)
			r = mnt_attach(t->binds[i], target, "");
		if (r < 0) {
			r = err_sys(e, r, "cannot show %s at %s", b->src, b->dst);
			return r != -ENOENT
				       ? r
				       : err_hint(
						 e, r,
						 "make %s in the workspace first, or name a place outside it",
						 b->dst);
		}
	}
	return 0;
}
