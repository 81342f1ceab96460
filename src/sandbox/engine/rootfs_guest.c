/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rootfs_finish_guest(): the guest's root for runsc, and around it the small root that runsc itself lives in.
 * runsc must not reach the parts of an overlay by a path.
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
 * runsc makes a missing target of a bind, which would remain in a directory that outlives the run; and with a target of the
 * wrong kind it fails without a message. So the target must be there, and of the right kind. Directories that are mounts of
 * their own for runsc are beside the root.
 */
static int check_bind_target(const struct spec *s, const struct bind *b, struct err *e)
{
	const char *home = rootfs_home_of(s), *top = "", *at = ".";
	bool shared = rootfs_bind_place(s, b->dst) == PLACE_SHARED;
	autoclose int dir = -1, target = -1;
	struct stat st;
	int r;

	if (shared && rootfs_is_below(b->dst, home)) {
		top = home;
		at = ".." GV_HOME;
	} else if (shared && !gv_workspace_in_root(s)) {
		top = ROOTFS_WORKSPACE;
		at = ".." GV_WORKSPACE;
	}
	dir = open(at, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (dir < 0)
		return rootfs_fail(e, -errno, at);
	target = mnt_target(dir, b->dst + strlen(top) + 1);
	r = target < 0 ? target : fstat(target, &st) < 0 ? -errno : 0;
	if (r == 0 && S_ISLNK(st.st_mode))
		r = -ELOOP;
	else if (r == 0 && S_ISDIR(st.st_mode) != b->is_dir)
		r = b->is_dir ? -ENOTDIR : -EISDIR;
	if (r == 0)
		return 0;
	err_sys(e, r, "cannot show %s at %s", b->src, b->dst);
	return r != -ENOENT
		       ? r
		       : err_hint(e, r, "make %s in the workspace first, or name a place outside it", b->dst);
}

static int mount_shared_home(const struct spec *s, struct trees *t, struct err *e)
{
	/* A directory that runsc makes belongs to a subordinate id, and an ordinary user could not remove it. */
	int r = spec_has_root_layer(s) ? rootfs_image_home(s, e) : 0;

	if (r < 0)
		return r;
	r = mnt_set(t->home, "", MNT_RW, true);
	if (r == 0)
		r = mnt_attach(t->home, AT_FDCWD, ".." GV_HOME);
	return r < 0 ? rootfs_fail(e, r, "home") : 0;
}

/* Mounts the trees that the host may change while the sandbox runs beside the root: each is a mount of its own for runsc. */
static int mount_shared(const struct spec *s, struct trees *t, struct err *e)
{
	char at[32] = "..";
	int r = t->home >= 0 ? mount_shared_home(s, t, e) : 0;

	if (r < 0)
		return r;
	for (size_t i = 0; i < s->n_binds; i++) {
		const struct bind *b = &s->binds[i];

		r = check_bind_target(s, b, e);
		if (r < 0)
			return r;
		snprintf(at + 2, sizeof(at) - 2, GV_BIND, i);
		if (b->is_dir)
			r = mkdir(at, 0755) < 0 ? -errno : 0;
		else
			r = rootfs_make_empty(at);
		if (r == 0)
			r = mnt_set(t->binds[i], "", b->writable ? MNT_RW : MNT_RO, true);
		if (r == 0)
			r = mnt_attach(t->binds[i], AT_FDCWD, at);
		if (r < 0)
			return err_sys(e, r, "cannot show %s at %s", b->src, b->dst);
	}
	return 0;
}

static int write_bundle(const struct spec *s)
{
	autobuf struct buf b = BUF_INIT;

	gv_config(s, &b);
	return buf_error(&b) ? -ENOMEM : rootfs_write_text(".." GV_BUNDLE "/config.json", buf_cstr(&b));
}

/* Mounts /proc and the devices that runsc itself needs, and writes its bundle. */
static int build_runsc_view(const struct spec *s, struct err *e)
{
	static const char *const nodes[] = { "null", "zero", "urandom" };
	char src[32], dst[40];
	int r;

	if (mount("proc", "../proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
		return rootfs_fail(e, -errno, "/proc");
	/* From the content of /proc/sys/net runsc concludes that this is the host's network namespace, and refuses it. */
	if (s->net != NET_NONE && !s->gv_hostnet) {
		r = mnt_bind("../sys", "../proc/sys/net");
		if (r < 0)
			return rootfs_fail(e, r, "/proc/sys/net");
	}
	for (size_t i = 0; i < ARRAY_SIZE(nodes); i++) {
		snprintf(src, sizeof(src), "/dev/%s", nodes[i]);
		snprintf(dst, sizeof(dst), "..%s", src);
		r = rootfs_make_empty(dst);
		if (r == 0)
			r = mnt_bind(src, dst);
		if (r < 0)
			return rootfs_fail(e, r, src);
	}
	r = write_bundle(s);
	return r < 0 ? rootfs_fail(e, r, "bundle") : 0;
}

/* An overlay keeps its parts itself; runsc must not reach them by a path. */
static int unmount_layers(const struct spec *s, struct err *e)
{
	if (s->ws_mode == WS_OVERLAY && s->ws_fd >= 0 && umount2("../lower", MNT_DETACH) < 0)
		return rootfs_fail(e, -errno, "the workspace");
	if (s->from_fd >= 0 && umount2("../from", MNT_DETACH) < 0)
		return rootfs_fail(e, -errno, "the workspace");
	if (spec_needs_layers(s) && umount2("../layers", MNT_DETACH) < 0)
		return rootfs_fail(e, -errno, "the workspace");
	for (size_t i = 0; i < s->n_lowers; i++) {
		char path[32];

		snprintf(path, sizeof(path), "../%zu", i);
		if (umount2(path, MNT_DETACH) < 0)
			return rootfs_fail(e, -errno, "the root's layers");
	}
	return 0;
}

int rootfs_finish_guest(const struct spec *s, struct trees *t, struct err *e)
{
	static const char *const dirs[] = { "ws", "proc", "dev", "sys", "etc", "bundle", "state" };
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		char path[32];

		snprintf(path, sizeof(path), STAGE "/%s", dirs[i]);
		if (mkdir(path, 0755) < 0)
			return rootfs_fail(e, -errno, dirs[i]);
	}
	r = rootfs_layers(s, t, ".." GV_WORKSPACE, e);
	if (r == 0)
		r = unmount_layers(s, e);
	if (r == 0)
		r = rootfs_mount_masks(s, gv_workspace_in_root(s) ? "workspace" : ".." GV_WORKSPACE, e);
	if (r == 0 && spec_has_ca(s))
		r = rootfs_ca(s, t, true, e);
	if (r == 0)
		r = mount_shared(s, t, e);
	if (r == 0)
		r = build_runsc_view(s, e);
	if (r < 0)
		return r;
	umask(022);
	if (chdir("..") < 0)
		return rootfs_fail(e, -errno, "runsc's root");
	return mnt_pivot_here(e);
}
