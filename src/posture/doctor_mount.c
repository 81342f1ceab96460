/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of the file systems that a sandbox mounts for itself: each is mounted in a child's own namespaces,
 * so that nothing is visible outside and nothing remains.
 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "posture/checks.h"
#include "posture/probe.h"
#include "posture/scratch.h"
#include "sys/mnt.h"
#include "sys/ns.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define PRIVATE_NS (CLONE_NEWUSER | CLONE_NEWNS)

static int make_mounts_private(struct err *e)
{
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return err_sys(e, -errno, "cannot mount anything in a mount namespace");
	return 0;
}

static int probe_proc(void *arg, struct err *e)
{
	int r = make_mounts_private(e);

	(void)arg;
	if (r < 0)
		return r;
	if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
		return err_sys(e, -errno, "a private /proc cannot be mounted");
	return access("/proc/1/stat", R_OK) < 0 ? err_sys(e, -errno, "a private /proc is empty") : 0;
}

void check_proc(struct finding *f)
{
	struct err e = ERR_INIT;

	if (probe_run(PRIVATE_NS | CLONE_NEWPID, probe_proc, NULL, &e) < 0)
		finding_set(f, DOCTOR_FAIL, "%s", e.msg);
	else
		finding_set(f, DOCTOR_OK, "a private one can be mounted");
}

static int probe_private_fs(void *arg, struct err *e)
{
	int r = make_mounts_private(e);

	(void)arg;
	if (r < 0)
		return r;
	r = mnt_tmpfs("/tmp", 1 << 20, 64, 0755);
	if (r < 0)
		return err_sys(e, r, "a tmpfs cannot be mounted");
	if (mkdir("/tmp/pts", 0755) < 0)
		return err_sys(e, -errno, "nothing can be made on a tmpfs");
	if (mount("devpts", "/tmp/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666") < 0)
		return err_sys(e, -errno, "private terminals (devpts) cannot be mounted");
	return 0;
}

void check_private_fs(struct finding *f)
{
	struct err e = ERR_INIT;

	if (probe_run(PRIVATE_NS, probe_private_fs, NULL, &e) < 0)
		finding_set(f, DOCTOR_FAIL, "%s", e.msg);
	else
		finding_set(f, DOCTOR_OK, "tmpfs and devpts can be mounted");
}

/* A changed file must be copied up and a deleted one must be gone, while the lower layer keeps both. */
static int probe_overlay(void *arg, struct err *e)
{
	const struct scratch *s = arg;
	int r = make_mounts_private(e);
	int fd;

	if (r < 0)
		return r;
	/*
	 * By path, because the fd refers to the caller's mount namespace, in which the child may not mount.
	 */
	if (chdir(s->path) < 0)
		return err_sys(e, -errno, "cannot enter %s", s->path);
	if (mount("overlay", "merged", "overlay", MS_NOSUID | MS_NODEV,
		  "lowerdir=lower,upperdir=upper,workdir=work,userxattr") < 0)
		return err_sys(e, -errno, "an overlay on %s cannot be mounted", s->parent);
	fd = open("merged/changed", O_WRONLY | O_TRUNC | O_CLOEXEC);
	if (fd < 0 || unlink("merged/deleted") < 0)
		return err_sys(e, -errno, "an overlay on %s was mounted, but cannot be written", s->parent);
	fd_close(fd);
	if (access("lower/deleted", F_OK) < 0 || access("upper/changed", F_OK) < 0 ||
	    access("merged/deleted", F_OK) == 0)
		return err_set(e, -EIO, "an overlay on %s was mounted, but does not keep the original apart",
			       s->parent);
	return 0;
}

static int make_overlay_dirs(const struct scratch *s)
{
	static const char *const dirs[] = { "lower", "upper", "work", "merged" };
	static const char *const files[] = { "lower/changed", "lower/deleted" };

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		if (mkdirat(s->fd, dirs[i], 0700) < 0)
			return -errno;
	}
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		int fd = openat(s->fd, files[i], O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

		if (fd < 0)
			return -errno;
		fd_close(fd);
	}
	return 0;
}

void check_overlay(struct finding *f)
{
	CLEANUP(scratch_remove) struct scratch s = SCRATCH_INIT;
	struct err e = ERR_INIT;
	int r = scratch_make(&s, &e);

	if (r == 0) {
		r = make_overlay_dirs(&s);
		if (r < 0)
			err_sys(&e, r, "cannot write to %s", s.path);
	}
	if (r == 0)
		r = probe_run(PRIVATE_NS, probe_overlay, &s, &e);
	if (r < 0)
		finding_set(f, DOCTOR_FAIL, "%s", e.msg);
	else
		finding_set(f, DOCTOR_OK, "works on %s", s.parent);
}

struct idmap_try {
	const struct scratch *scratch;
	int userns;
};

static int probe_idmap(void *arg, struct err *e)
{
	const struct idmap_try *t = arg;
	autoclose int tree = mnt_tree(AT_FDCWD, t->scratch->path, false);
	int r = tree < 0 ? tree : mnt_idmap(tree, t->userns);

	return r < 0 ? err_sys(e, r, "the file system of %s does not support them", t->scratch->parent) : 0;
}

#define IDMAP_MAP "0 524288 65536\n" /* the ids that sandboxes of the host's root use */

static int try_idmap(const struct scratch *s, struct err *e)
{
	autoclose int pidfd = -1, userns = -1;
	struct idmap_try t = { .scratch = s };
	char proc[32], path[48];
	int pid = probe_hold_userns(&pidfd, e), r;

	if (pid < 0)
		return pid;
	snprintf(proc, sizeof(proc), "/proc/%d", pid);
	snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
	r = ns_map_ids(proc, false, IDMAP_MAP, e);
	if (r == 0)
		r = ns_map_ids(proc, true, IDMAP_MAP, e);
	if (r == 0) {
		userns = open(path, O_RDONLY | O_CLOEXEC);
		t.userns = userns;
		r = userns < 0 ? err_sys(e, -errno, "cannot open a user namespace")
			       : probe_run(CLONE_NEWNS, probe_idmap, &t, e);
	}
	probe_end_userns(pidfd);
	return r;
}

void check_idmap(struct finding *f)
{
	CLEANUP(scratch_remove) struct scratch s = SCRATCH_INIT;
	struct err e = ERR_INIT;
	int r;

	if (!check_is_root()) {
		finding_set(f, DOCTOR_INFO, "only root's sandboxes use them");
		return;
	}
	if (check_no_place(f, &s))
		return;
	r = try_idmap(&s, &e);
	if (r < 0)
		finding_set(f, DOCTOR_FAIL, "%s", e.msg);
	else
		finding_set(f, DOCTOR_OK, "work on %s", s.parent);
}
