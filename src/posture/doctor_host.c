/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of the kernel: version, system calls, seccomp, Landlock, control groups; and of the disk. A check
 * must leave nothing on the host.
 */
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "posture/checks.h"
#include "posture/probe.h"
#include "posture/scratch.h"
#include "sys/cgroup/cgroup.h"
#include "sys/fence/landlock.h"
#include "sys/loopfs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/filter.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

/* Older kernels lack mount_setattr(), or overlay mounts in a user namespace. */
#define KERNEL_MAJOR 5
#define KERNEL_MINOR 12

void check_kernel(struct finding *f)
{
	struct utsname u = { 0 };
	char *dot = NULL;
	long major, minor;

	uname(&u);
	major = strtol(u.release, &dot, 10);
	minor = *dot == '.' ? strtol(dot + 1, NULL, 10) : 0;
	if (major == 0)
		finding_set(f, DOCTOR_WARN, "the kernel's version cannot be determined");
	else if (major < KERNEL_MAJOR || (major == KERNEL_MAJOR && minor < KERNEL_MINOR))
		finding_set(f, DOCTOR_FAIL, "Linux %.100s is too old", u.release);
	else
		finding_set(f, DOCTOR_OK, "Linux %.100s, %.20s", u.release, u.machine);
}

static bool has_pidfd(void)
{
	int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);

	fd_close(fd);
	return fd >= 0;
}

static bool has_close_range(void)
{
	return syscall(SYS_close_range, 1u << 29, 1u << 29, CLOSE_RANGE_CLOEXEC) == 0;
}

static bool has_openat2(void)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_BENEATH };
	int fd = (int)syscall(SYS_openat2, AT_FDCWD, ".", &how, sizeof(how));

	fd_close(fd);
	return fd >= 0;
}

static bool has_clone3(void)
{
	return probe_run(0, NULL, NULL, NULL) == 0;
}

static bool has_mount_setattr(void)
{
	/* A kernel with this call refuses the size 0; one without it returns ENOSYS. */
	return syscall(SYS_mount_setattr, -1, "", 0, NULL, 0) < 0 && errno != ENOSYS;
}

void check_syscalls(struct finding *f)
{
	static const struct {
		const char *name;
		bool (*has)(void);
	} calls[] = {
		{ "clone3", has_clone3 },
		{ "pidfd_open", has_pidfd },
		{ "close_range", has_close_range },
		{ "openat2", has_openat2 },
		{ "mount_setattr", has_mount_setattr },
	};
	autobuf struct buf have = BUF_INIT, lack = BUF_INIT;

	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		struct buf *b = calls[i].has() ? &have : &lack;

		buf_addf(b, "%s%s", b->len ? ", " : "", calls[i].name);
	}
	if (lack.len)
		finding_set(f, DOCTOR_FAIL, "missing: %s", buf_cstr(&lack));
	else
		finding_set(f, DOCTOR_OK, "%s", buf_cstr(&have));
}

static int use_seccomp(void *arg, struct err *e)
{
	struct sock_filter allow[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
	struct sock_fprog prog = { .len = 1, .filter = allow };

	(void)arg;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(e, -errno, "no_new_privs cannot be set");
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) < 0)
		return err_sys(e, -errno, "a filter cannot be installed");
	return 0;
}

void check_seccomp(struct finding *f)
{
	struct err e = ERR_INIT;

	if (probe_run(0, use_seccomp, NULL, &e) < 0)
		finding_set(f, DOCTOR_FAIL, "%s", e.msg);
	else
		finding_set(f, DOCTOR_OK, "a filter was installed");
}

void check_landlock(struct finding *f)
{
	int abi = landlock_abi();

	if (abi <= 0)
		finding_set(f, DOCTOR_WARN, "the kernel has none, or it is switched off");
	else
		finding_set(f, DOCTOR_OK, "version %d of its interface", abi);
}

void check_cgroup(struct finding *f)
{
	static const struct {
		enum cgroup_ctl ctl;
		const char *name;
	} wanted[] = { { CGROUP_MEMORY, "memory" }, { CGROUP_CPU, "cpu" }, { CGROUP_PIDS, "pids" } };
	autobuf struct buf have = BUF_INIT, lack = BUF_INIT;
	struct cgroup_host host = { 0 };
	const char *why = NULL; /* the first cause, usually the same for all */
	struct err e = ERR_INIT;

	if (cgroup_host_probe(&host, &e) < 0) {
		finding_set(f, DOCTOR_WARN, "%s", e.msg);
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
		struct buf *b = host.usable[wanted[i].ctl] ? &have : &lack;

		buf_addf(b, "%s%s", b->len ? ", " : "", wanted[i].name);
		if (b == &lack && !why)
			why = host.why[wanted[i].ctl];
	}
	if (why)
		finding_set(f, DOCTOR_WARN, "version %d; not usable: %s (%s)", host.version, buf_cstr(&lack),
			    why);
	else
		finding_set(f, DOCTOR_OK, "version %d; %s", host.version, buf_cstr(&have));
}

void check_disk(struct finding *f)
{
	CLEANUP(scratch_remove) struct scratch s = SCRATCH_INIT;
	struct err e = ERR_INIT;
	struct statfs fs = { 0 };
	uint64_t room;
	char text[16];

	if (scratch_make(&s, &e) < 0 || fstatfs(s.fd, &fs) < 0) {
		finding_set(f, DOCTOR_FAIL, "%s", e.msg[0] ? e.msg : "its free space cannot be determined");
		return;
	}
	room = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize;
	str_from_size(room, text);
	/* A run stores its metadata, log and layers there: without free space none is started. */
	if (room < (1u << 20) || (fs.f_files && !fs.f_ffree))
		finding_set(f, DOCTOR_FAIL, "%s and %llu files free on %s: it is full", text,
			    (unsigned long long)fs.f_ffree, s.parent);
	else if (room < (64u << 20))
		finding_set(f, DOCTOR_WARN, "only %s free on %s", text, s.parent);
	else
		finding_set(f, DOCTOR_OK, "%s free on %s", text, s.parent);
}

#define IMAGE_BYTES (16u << 20)
#define IMAGE_INODES 256

static int use_loopfs(void *arg, struct err *e)
{
	const struct scratch *s = arg;
	autoclose int fd = -1;
	int r = loopfs_make(s->fd, "image", IMAGE_BYTES, IMAGE_INODES, e);

	if (r < 0)
		return r;
	fd = loopfs_mount(s->fd, "image", e);
	return fd < 0 ? fd : 0;
}

bool check_no_place(struct finding *f, struct scratch *s)
{
	struct err e = ERR_INIT;

	if (scratch_make(s, &e) == 0)
		return false;
	finding_set(f, DOCTOR_INFO, "not tried, because the state directory cannot be used");
	return true;
}

void check_disk_limit(struct finding *f)
{
	CLEANUP(scratch_remove) struct scratch s = SCRATCH_INIT;
	struct err e = ERR_INIT;
	struct statfs fs;
	int r;

	if (!check_is_root()) {
		finding_set(f, DOCTOR_INFO, "watched by coffer: only root can have the kernel keep it");
		return;
	}
	if (check_no_place(f, &s))
		return;
	if (fstatfs(s.fd, &fs) == 0 && (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize < IMAGE_BYTES) {
		finding_set(f, DOCTOR_INFO, "not tried, because too little space is left on %s", s.parent);
		return;
	}
	r = probe_run(0, use_loopfs, &s, &e);
	if (r < 0)
		finding_set(f, DOCTOR_WARN, "watched by coffer, not kept by the kernel: %s", e.msg);
	else
		finding_set(f, DOCTOR_OK, "kept by the kernel: a file system in a file was made and mounted");
}

void check_kvm(struct finding *f)
{
	autoclose int fd = open("/dev/kvm", O_RDWR | O_CLOEXEC);

	if (fd >= 0)
		finding_set(f, DOCTOR_OK, "usable");
	else
		finding_set(f, DOCTOR_INFO, "/dev/kvm: %s", strerror(errno));
}
