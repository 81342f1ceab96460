/* SPDX-License-Identifier: Apache-2.0 */
/* The root for runsc, and the small one of runsc's own around it: rootfs_finish_guest(). */
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
 * runsc would make the place of a bind, and where a sandbox may have written before it would stay behind;
 * over one of another kind it fails without a word. So it must be there, as what it has to be. What is a
 * mount of its own for runsc stands beside the root.
 */
static int need_bind_place(const struct spec *s, const struct bind *b, struct err *e)
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

static int build_shared_home(const struct spec *s, struct trees *t, struct err *e)
{
	/* Made by runsc it would belong to an id that an ordinary user cannot remove it with. */
	int r = spec_has_root_layer(s) ? rootfs_image_home(s, e) : 0;

	if (r < 0)
		return r;
	r = mnt_set(t->home, "", MNT_RW, true);
	if (r == 0)
		r = mnt_attach(t->home, AT_FDCWD, ".." GV_HOME);
	return r < 0 ? rootfs_fail(e, r, "home") : 0;
}

/* What the host may change while the sandbox runs: beside the root, each a mount of its own for runsc. */
static int build_shared(const struct spec *s, struct trees *t, struct err *e)
{
	char at[32] = "..";
	int r = t->home >= 0 ? build_shared_home(s, t, e) : 0;

	if (r < 0)
		return r;
	for (size_t i = 0; i < s->n_binds; i++) {
		const struct bind *b = &s->binds[i];

		r = need_bind_place(s, b, e);
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

/* What runsc itself needs of a system. */
static int build_runsc_view(const struct spec *s, struct err *e)
{
	static const char *const nodes[] = { "null", "zero", "urandom" };
	char src[32], dst[40];
	int r;

	if (mount("proc", "../proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
		return rootfs_fail(e, -errno, "/proc");
	/* By what it finds there runsc takes any network namespace for the host's, and refuses it. */
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

/* The layer holds what it is made of; runsc has no business with the parts. */
static int forget_layers(const struct spec *s, struct err *e)
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
		r = forget_layers(s, e);
	if (r == 0)
		r = rootfs_masks(s, gv_workspace_in_root(s) ? "workspace" : ".." GV_WORKSPACE, e);
	if (r == 0 && spec_has_ca(s))
		r = rootfs_ca(s, t, true, e);
	if (r == 0)
		r = build_shared(s, t, e);
	if (r == 0)
		r = build_runsc_view(s, e);
	if (r < 0)
		return r;
	umask(022);
	if (chdir("..") < 0)
		return rootfs_fail(e, -errno, "runsc's root");
	return mnt_pivot_here(e);
}
