/* SPDX-License-Identifier: Apache-2.0 */
/* How coffer-unpack locks itself in: K1 of unpack.h. */
#include "sandbox/unpack.h"

#include "base/fd.h"
#include "sys/caps.h"
#include "sys/landlock.h"
#include "sys/ns.h"
#include "sys/seccomp_list.h"

#include <errno.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define MEMORY_MAX (1ULL << 30)
#define CAP_BIT(c) (1ULL << (c))

static int set_limit(__rlimit_resource_t what, uint64_t value, struct err *e)
{
	struct rlimit l = { value, value }, now;

	if (getrlimit(what, &now) == 0 && now.rlim_max < value)
		l = (struct rlimit){ now.rlim_max, now.rlim_max };
	return setrlimit(what, &l) < 0 ? err_sys(e, -errno, "cannot limit the unpacker") : 0;
}

static int set_limits(const struct unpack_opts *o, struct err *e)
{
	int r = set_limit(RLIMIT_CORE, 0, e);

	if (r == 0 && !SANITIZED) /* whose shadow is larger than any limit */
		r = set_limit(RLIMIT_AS, MEMORY_MAX, e);
	if (r == 0)
		r = set_limit(RLIMIT_FSIZE, o->bytes_max, e);
	if (r == 0)
		r = set_limit(RLIMIT_NOFILE, 64, e);
	return r;
}

/* An ordinary user may change the root only in a user namespace of its own, where it stays who it is. */
static bool own_namespace(void)
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

/* True when the directory is all that this process can name. */
static bool change_root(const struct unpack_opts *o)
{
	if (o->owners ? unshare(CLONE_NEWNET | CLONE_NEWIPC) < 0 && errno == EPERM : !own_namespace())
		return false;
	return chroot(".") == 0 && chdir("/") == 0;
}

/* Everything that filling a directory takes, beside what memory allocation does. */
static const uint16_t calls[] = {
	SYS_read,	SYS_write,     SYS_close,      SYS_lseek,     SYS_openat,	  SYS_openat2,
	SYS_mkdirat,	SYS_symlinkat, SYS_linkat,     SYS_unlinkat,  SYS_renameat2,	  SYS_newfstatat,
	SYS_fstat,	SYS_statx,     SYS_getdents64, SYS_fchmod,    SYS_fchmodat,	  452 /* fchmodat2 */,
	SYS_fchown,	SYS_fchownat,  SYS_utimensat,  SYS_fsetxattr, SYS_fcntl,	  SYS_dup,
	SYS_brk,	SYS_munmap,    SYS_mremap,     SYS_madvise,   SYS_getrandom,	  SYS_futex,
	SYS_exit_group, SYS_exit,      SYS_fstatfs,    SYS_getpid,    SYS_rt_sigprocmask,
};

static const struct seccomp_rule rules[] = {
	/* The one device that is none. */
	{ SYS_mknodat, { SECCOMP_IS(2, S_IFCHR), SECCOMP_IS(3, 0) } },
};

int unpack_fence(const struct unpack_opts *o, struct err *e)
{
	/* Others' files inside the directory are ours to make, whatever modes the archive gives their parents. */
	const uint64_t keep =
		o->owners ? CAP_BIT(CAP_CHOWN) | CAP_BIT(CAP_DAC_OVERRIDE) | CAP_BIT(CAP_FOWNER) : 0;
	const struct landlock_rule rule = { ".", LANDLOCK_LAYER };
	uint64_t have = 0;
	bool rooted;
	int r, abi;

	if (fchdir(UNPACK_DIR) < 0 || syscall(SYS_close_range, UNPACK_REPLY + 1, ~0U, 0) < 0)
		return err_sys(e, -errno, "cannot enter the directory to unpack to");
	rooted = change_root(o);
	r = set_limits(o, e);
	if (r < 0)
		return r;
	if (prctl(PR_SET_DUMPABLE, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(e, -errno, "cannot confine the unpacker");
	/* Where there is none, no_new_privs keeps it so. */
	r = caps_effective(&have, e);
	if (r == 0 && have)
		r = caps_drop_all_but(have & keep, e);
	if (r < 0)
		return r;
	abi = landlock_apply(&rule, 1, e);
	if (abi < 0)
		return abi;
	if (!rooted && abi == 0) {
		err_set(e, -ENOTSUP,
			"the unpacker cannot be confined: this host has neither Landlock nor user namespaces");
		return err_hint(e, -ENOTSUP, "`coffer doctor` tells how to get one of them");
	}
	return seccomp_list_install(
		&(struct seccomp_list){ calls, ARRAY_SIZE(calls), rules, ARRAY_SIZE(rules) }, e);
}
