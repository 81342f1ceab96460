/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Confines coffer-unpack before it reads a byte of the archive (unpack.K1). Nothing here may fail silently: the process either
 * has a root of its own or Landlock, or it ends.
 */
#include "sandbox/image/unpack.h"

#include "base/fd.h"
#include "sys/fence/fence.h"
#include "sys/ns.h"

#include <errno.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define MEMORY_MAX (1ULL << 30)
#define NOFILE_MAX 64
#define CAP_BIT(c) (1ULL << (c))

/* An ordinary user may chroot only in a user namespace of its own, in which its ids are mapped to themselves. */
static bool enter_own_userns(void)
{
	char map[64];
	uid_t uid = geteuid();
	gid_t gid = getegid();

	if (unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWIPC) < 0)
		return false;
	if (ns_deny_setgroups("/proc/self", NULL) < 0)
		return false;
	snprintf(map, sizeof(map), "%u %u 1\n", gid, gid);
	if (ns_map_ids("/proc/self", true, map, NULL) < 0)
		return false;
	snprintf(map, sizeof(map), "%u %u 1\n", uid, uid);
	return ns_map_ids("/proc/self", false, map, NULL) == 0;
}

/*
 * Makes the directory the root of this process. False: it cannot, and Landlock must confine it. The network and IPC namespaces
 * are a second layer to the filter, which allows no socket: host root goes on without them, unless it may not unshare at all.
 */
static bool change_root_to_layer(const struct unpack_opts *o)
{
	if (o->owners ? unshare(CLONE_NEWNET | CLONE_NEWIPC) < 0 && errno == EPERM : !enter_own_userns())
		return false;
	return chroot(".") == 0 && chdir("/") == 0;
}

/* System calls for filling a directory, beside those of memory allocation. */
static const uint16_t calls[] = {
	SYS_read,	SYS_write,     SYS_close,      SYS_lseek,     SYS_openat,	  SYS_openat2,
	SYS_mkdirat,	SYS_symlinkat, SYS_linkat,     SYS_unlinkat,  SYS_renameat2,	  SYS_newfstatat,
	SYS_fstat,	SYS_statx,     SYS_getdents64, SYS_fchmod,    SYS_fchmodat,	  452 /* fchmodat2 */,
	SYS_fchown,	SYS_fchownat,  SYS_utimensat,  SYS_fsetxattr, SYS_fcntl,	  SYS_dup,
	SYS_brk,	SYS_munmap,    SYS_mremap,     SYS_madvise,   SYS_getrandom,	  SYS_futex,
	SYS_exit_group, SYS_exit,      SYS_fstatfs,    SYS_getpid,    SYS_rt_sigprocmask,
};

static const struct seccomp_rule rules[] = {
	/* mknod for the device 0:0 only: the overlay's whiteout. */
	{ SYS_mknodat, { SECCOMP_IS(2, S_IFCHR), SECCOMP_IS(3, 0) } },
};

int unpack_fence(const struct unpack_opts *o, struct err *e)
{
	/* Capabilities for files of other owners in the directory, whatever modes the archive gives their parents. */
	const uint64_t keep =
		o->owners ? CAP_BIT(CAP_CHOWN) | CAP_BIT(CAP_DAC_OVERRIDE) | CAP_BIT(CAP_FOWNER) : 0;
	const struct fence_limit limits[] = {
		{ RLIMIT_AS, MEMORY_MAX },
		{ RLIMIT_FSIZE, o->bytes_max },
		{ RLIMIT_NOFILE, NOFILE_MAX },
	};
	const struct landlock_rule dir = { ".", LANDLOCK_LAYER };
	struct fence f = {
		.who = "the unpacker",
		.limits = limits,
		.n_limits = ARRAY_SIZE(limits),
		.caps = keep,
		.paths = &dir,
		.n_paths = 1,
		.calls = { calls, ARRAY_SIZE(calls), rules, ARRAY_SIZE(rules) },
	};
	int r;

	if (fchdir(UNPACK_DIR) < 0 || syscall(SYS_close_range, UNPACK_REPLY + 1, ~0U, 0) < 0)
		return err_sys(e, -errno, "cannot enter the directory to unpack to");
	if (!change_root_to_layer(o))
		f.no_landlock =
			"this host has neither Landlock nor user namespaces"; /* so Landlock is required (fence.F1) */
	r = fence_up(&f, e);
	return r == -ENOTSUP ? err_hint(e, r, "`coffer doctor` tells how to get one of them") : r;
}
