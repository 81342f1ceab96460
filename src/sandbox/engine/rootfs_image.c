/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The root of a sandbox that brings its own: the layers of an image, or a directory, under a layer of the run's own.
 *
 * All names in it are an attacker's, and the host's root is still mounted while it is built (rootfs.R4). The kernel resolves
 * paths beneath the new root (RESOLVE_*), and files are made and mounted through the resulting descriptors. Where a mount
 * needs a name (proc, devpts, tmpfs), a descriptor of that directory is held until exec: a name that the overlay has looked
 * up and that is in use does not change, whatever happens to the layer below.
 *
 * A required directory that is a link or a file in the image is refused, not followed: no ordinary image has that, and each
 * link followed would be another way to mislead the builder.
 */
#include "sandbox/engine/rootfs_int.h"

#include "base/fd.h"
#include "base/str.h"
#include "sandbox/engine/rootfs.h"
#include "sys/mnt.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>

#define INSIDE (RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS)
#define STAGE_FILES "agent" /* the stage's directory that covers SPEC_FILES_DIR of the new root */

/* Directories that are mount targets. */
static const char *const mount_dirs[] = { "proc", "sys", "dev", "tmp", "workspace" };

static int refuse_target(struct err *e, int code, const char *path)
{
	char shown[256];

	str_safe(path, shown, sizeof(shown));
	if (code == -ELOOP || code == -ENOTDIR || code == -EEXIST)
		return err_set(e, -EINVAL, "the root file system has a link or a file where /%s should be",
			       shown);
	return err_sys(e, code, "cannot make /%s in the sandbox's root file system", shown);
}

/*
 * The builder is root of its user namespace. Where that is a subordinate id of the caller's, new files are given to the
 * command's user, who is the caller outside and must be able to remove them.
 */
static int chown_to_command(const struct spec *s, int dir, const char *name)
{
	if (!s->ids.range || s->ids.host_root)
		return 0;
	return fchownat(dir, name, s->uid, s->gid, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

/* An O_PATH descriptor of a directory beneath the current one; it and its parents are made where missing. */
static int open_or_make_dir(const struct spec *s, const char *path, uint64_t resolve)
{
	char part[PATH_MAX];
	autoclose int at = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int fd = fd_openat2(AT_FDCWD, path, O_PATH | O_DIRECTORY, 0, resolve);

	if (fd != -ENOENT)
		return fd;
	for (const char *p = path; at >= 0;) {
		size_t n = strcspn(p, "/"), whole = (size_t)(p - path) + n;

		if (whole >= sizeof(part))
			return -ENAMETOOLONG;
		memcpy(part, path, whole);
		part[whole] = '\0';
		fd = fd_openat2(AT_FDCWD, part, O_PATH | O_DIRECTORY, 0, resolve);
		if (fd == -ENOENT) {
			if (mkdirat(at, part + (p - path), 0755) < 0)
				return -errno;
			fd = chown_to_command(s, at, part + (p - path));
			if (fd < 0)
				return fd;
			fd = openat(at, part + (p - path), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
			if (fd < 0)
				return -errno;
		}
		if (fd < 0)
			return fd;
		if (!path[whole])
			return fd;
		fd_close(at);
		at = fd;
		p = path + whole + 1;
	}
	return -errno;
}

/* A file to mount on: an existing one, or a new empty one. A link is replaced in the run's own layer. */
static int open_or_make_file(const struct spec *s, int dir, const char *name)
{
	struct stat st;
	int r;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
		if (S_ISREG(st.st_mode)) {
			r = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
			return r < 0 ? -errno : r;
		}
		if (S_ISDIR(st.st_mode))
			return -EEXIST;
		if (unlinkat(dir, name, 0) < 0)
			return -errno;
	}
	autoclose int made = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (made < 0)
		return -errno;
	r = chown_to_command(s, dir, name);
	return r < 0 ? r : TAKE_FD(made);
}

int rootfs_image_place(const struct spec *s, const char *path, bool is_dir, struct err *e)
{
	const char *slash = strrchr(path, '/');
	char parent[PATH_MAX] = ".";
	autoclose int dir = -1, fd = -1;

	if (is_dir) {
		fd = open_or_make_dir(s, path, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
		return fd < 0 ? refuse_target(e, fd, path) : 0;
	}
	if (slash && slash - path < (ptrdiff_t)sizeof(parent)) {
		memcpy(parent, path, (size_t)(slash - path));
		parent[slash - path] = '\0';
	}
	dir = open_or_make_dir(s, parent, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
	fd = dir < 0 ? dir : open_or_make_file(s, dir, slash ? slash + 1 : path);
	return fd < 0 ? refuse_target(e, fd, path) : 0;
}

static int attach_image_lowers(const struct spec *s, const int *lowers, struct buf *opts)
{
	buf_adds(opts, "lowerdir=");
	for (size_t i = 0; i < s->n_lowers; i++) {
		char name[24];
		int r;

		/* Short names, since all options together have one page. */
		snprintf(name, sizeof(name), "%zu", i);
		if (mkdir(name, 0700) < 0)
			return -errno;
		r = mnt_attach(lowers[i], AT_FDCWD, name);
		if (r < 0)
			return r;
		buf_addf(opts, "%s%zu", i ? ":" : "", i);
	}
	/* volatile: see rootfs_shown.c, for the workspace. */
	buf_adds(opts, ",upperdir=layers/root-upper,workdir=layers/root-work,userxattr,volatile");
	return buf_error(opts);
}

/* As for the workspace: the caller must be able to remove the directories that the kernel makes for itself. */
static int chown_overlay_work(const struct spec *s)
{
	static const char *const made[] = { "layers/root-work/work", "layers/root-work/work/incompat",
					    "layers/root-work/work/incompat/volatile" };

	for (size_t i = 0; s->ids.range && !s->ids.host_root && i < ARRAY_SIZE(made); i++) {
		if ((chown(made[i], s->uid, s->gid) < 0 || chmod(made[i], 0700) < 0) && errno != ENOENT)
			return -errno;
	}
	return 0;
}

static int mount_image_overlay(const struct spec *s, const int *lowers, struct err *e)
{
	autobuf struct buf opts = BUF_INIT;
	int r;

	if (chdir(STAGE) < 0)
		return rootfs_fail(e, -errno, "a new root");
	r = attach_image_lowers(s, lowers, &opts);
	if (r == 0 && mount("overlay", STAGE_ROOT, "overlay", MS_NOSUID | MS_NODEV, buf_cstr(&opts)) < 0)
		r = -errno;
	if (r == 0)
		r = chown_overlay_work(s);
	if (r < 0) {
		r = err_sys(e, r, "cannot mount a layer over the root file system %s", s->root_name);
		return err_hint(e, r,
				"COFFER_STATE names a place on another file system for images and layers");
	}
	return 0;
}

/* Writes the spec's files on the stage, below a directory that will cover one of the new root. */
static int stage_spec_files(const struct spec *s, struct err *e)
{
	for (size_t i = 0; i < s->files.n; i++) {
		const struct spec_file *f = &s->files.v[i];
		char path[PATH_MAX];
		autoclose int fd = -1;
		int r = str_starts(f->path, SPEC_FILES_DIR "/") ? 0 : -EINVAL;

		snprintf(path, sizeof(path), STAGE_FILES "%s", f->path + strlen(SPEC_FILES_DIR) * (r == 0));
		r = r < 0 ? r : rootfs_make_parents(path);
		fd = r < 0 ? -1 : open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0555);
		if (r == 0)
			r = fd < 0 ? -errno : fd_write_all(fd, f->text, f->len);
		if (r < 0)
			return rootfs_fail(e, r, f->path);
	}
	return 0;
}

/* Prepares the covers on the stage, where only this process has written. */
static int stage_etc_and_dev(const struct spec *s, struct err *e)
{
	static const struct {
		const char *path;
		mode_t mode;
	} dirs[] = { { "dev", 0755 }, { "dev/pts", 0755 }, { "dev/shm", 01777 }, { "empty", 0555 } };
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		/* runsc has a /dev of its own there */
		if (mkdir(dirs[i].path, dirs[i].mode) < 0 && errno != EEXIST)
			return rootfs_fail(e, -errno, dirs[i].path);
	}
	r = rootfs_prepare_dev(e);
	if (r < 0)
		return r;
	r = rootfs_write_names(s, "hosts", "hostname");
	if (r == 0)
		r = rootfs_write_text("resolv.conf", s->net == NET_NONE ? "" : ROOTFS_RESOLV);
	if (r == 0 && s->known_hosts)
		r = rootfs_write_text("ssh_known_hosts", s->known_hosts);
	return r < 0 ? rootfs_fail(e, r, "/etc") : stage_spec_files(s, e);
}

static int cover_with_staged(const char *src, int target)
{
	autoclose int tree = mnt_tree(AT_FDCWD, src, false);
	int r = tree < 0 ? tree : mnt_set(tree, "", MNT_RO, false);

	return r < 0 ? r : mnt_attach(tree, target, "");
}

/* Host names and the resolver are the sandbox's, whatever the image has. */
static int cover_etc_names(const struct spec *s, struct err *e)
{
	static const char *const names[] = { "hosts", "hostname", "resolv.conf" };
	autoclose int etc = open_or_make_dir(s, "etc", INSIDE);

	if (etc < 0)
		return refuse_target(e, etc, "etc");
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		autoclose int fd = open_or_make_file(s, etc, names[i]);
		char src[32];
		int r;

		/* An ordinary user cannot write to a directory of another owner, not even in a layer: then the file stays
		 * missing, or a link to another file of the same root. */
		if (fd == -EACCES || fd == -EPERM || fd == -EOVERFLOW)
			continue;
		snprintf(src, sizeof(src), "../%s", names[i]);
		r = fd < 0 ? fd : cover_with_staged(src, fd);
		if (r < 0)
			return err_sys(e, r, "cannot put /etc/%s in place", names[i]);
	}
	return 0;
}

/* ssh reads two files; the image's own one is left alone. */
static int cover_known_hosts(const struct spec *s, struct err *e)
{
	autoclose int dir = s->known_hosts ? open_or_make_dir(s, "etc/ssh", INSIDE) : -1, fd = -1;
	struct stat st;
	int r;

	if (!s->known_hosts)
		return 0;
	fd = dir < 0 ? dir
		     : open_or_make_file(s, dir,
					 fstatat(dir, "ssh_known_hosts", &st, AT_SYMLINK_NOFOLLOW) == 0
						 ? "ssh_known_hosts2"
						 : "ssh_known_hosts");
	/* As in cover_etc_names(). */
	if (fd == -EACCES || fd == -EPERM || fd == -EOVERFLOW)
		return 0;
	r = fd < 0 ? fd : cover_with_staged("../ssh_known_hosts", fd);
	return r < 0 ? err_sys(e, r, "cannot put /etc/ssh/ssh_known_hosts in place") : 0;
}

/* Covers what the image may have there. A failure is an error, since the command starts with these files. */
static int cover_spec_files(const struct spec *s, struct err *e)
{
	autoclose int dir = s->files.n ? open_or_make_dir(s, SPEC_FILES_DIR + 1, INSIDE) : -1;
	int r;

	if (!s->files.n)
		return 0;
	if (dir < 0)
		return refuse_target(e, dir, SPEC_FILES_DIR + 1);
	r = cover_with_staged("../" STAGE_FILES, dir);
	return r < 0 ? err_sys(e, r, "cannot put " SPEC_FILES_DIR " in place") : 0;
}

/* Makes a missing working directory, as docker does, unless it is below a directory that is mounted later. */
static int make_cwd(const struct spec *s, struct err *e)
{
	static const char *const mounted[] = { "/workspace", "/tmp", "/var/tmp", "/proc", "/sys", "/dev" };
	autoclose int fd = -1;

	if (!s->cwd || !s->cwd[1])
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(mounted); i++) {
		if (str_starts(s->cwd, mounted[i]))
			return 0;
	}
	fd = open_or_make_dir(s, s->cwd + 1, INSIDE);
	return fd < 0 ? refuse_target(e, fd, s->cwd + 1) : 0;
}

int rootfs_image_root(const struct spec *s, const int *lowers, struct err *e)
{
	int pins[ARRAY_SIZE(mount_dirs)];
	int r = mount_image_overlay(s, lowers, e);

	if (r == 0)
		r = stage_etc_and_dev(s, e);
	if (r < 0)
		return r;
	if (chdir(STAGE_ROOT) < 0)
		return rootfs_fail(e, -errno, "a new root");
	for (size_t i = 0; i < ARRAY_SIZE(mount_dirs); i++) {
		/* Not closed: see the head of this file. Exec closes them. */
		pins[i] = open_or_make_dir(s, mount_dirs[i], RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
		if (pins[i] < 0)
			return refuse_target(e, pins[i], mount_dirs[i]);
	}
	r = cover_etc_names(s, e);
	if (r == 0)
		r = cover_known_hosts(s, e);
	if (r == 0)
		r = cover_spec_files(s, e);
	if (r == 0)
		r = make_cwd(s, e);
	if (r < 0)
		return r;
	r = cover_with_staged("../empty", pins[1]);
	if (r == 0)
		r = cover_with_staged("../dev", pins[2]);
	return r < 0 ? rootfs_fail(e, r, "/sys and /dev") : 0;
}

int rootfs_image_home(const struct spec *s, struct err *e)
{
	const char *home = rootfs_home_of(s) + 1;
	autoclose int fd = open_or_make_dir(s, home, INSIDE);

	return fd < 0 ? refuse_target(e, fd, home) : 0;
}

int rootfs_image_scratch(const struct spec *s, int home_tree, struct err *e)
{
	autoclose int vartmp = fd_openat2(AT_FDCWD, "var/tmp", O_PATH | O_DIRECTORY | O_NOFOLLOW, 0,
					  RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
	autoclose int tree = vartmp < 0 ? -1 : mnt_tree(AT_FDCWD, "../vartmp", false);
	autoclose int home = -1;
	int r = mnt_bind("../tmp", "tmp");

	if (r == 0 && vartmp >= 0)
		r = tree < 0 ? tree : mnt_attach(tree, vartmp, "");
	if (r < 0)
		return rootfs_fail(e, r, "/tmp");
	if (home_tree < 0)
		return 0;
	home = open_or_make_dir(s, s->home_dir + 1, INSIDE);
	if (home < 0)
		return refuse_target(e, home, s->home_dir + 1);
	r = mnt_set(home_tree, "", MNT_RW, true);
	if (r == 0)
		r = mnt_attach(home_tree, home, "");
	return r < 0 ? rootfs_fail(e, r, s->home_dir) : 0;
}
