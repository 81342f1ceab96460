/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The child that compiles a changed policy (net_compile.h): closes what it has of the guard, confines itself, and only then
 * opens and parses the policy's files. It must not return into the guard's code. Files are named by paths in files, and
 * may be links, so that which ones there are is known only here, behind the fence.
 */
#include "netd/serve/net_compile.h"

#include "base/fd.h"
#include "netd/serve/net_int.h"
#include "sys/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define NOFILE_MAX 64
#define DATA_MAX \
	(4ULL << 30) /* the largest blocklist as text, as hashes, and in the bundle while that grows */

static const uint16_t calls[] = {
	/* which file a path leads to, and who may write to it: config_owner.c */
	SYS_newfstatat,
	SYS_fstat,
	SYS_statx,
	SYS_readlinkat,
#ifdef SYS_stat
	SYS_stat,
	SYS_lstat,
	SYS_readlink,
#endif
	SYS_getcwd,
	SYS_geteuid,
	SYS_read,
	SYS_close,
	/* memory; every list filters mmap() itself */
	SYS_brk,
	SYS_munmap,
	SYS_mremap,
	SYS_madvise,
	SYS_getrandom,
	SYS_futex,
	SYS_sysinfo, /* qsort() queries the amount of memory */
	SYS_clock_gettime,
	SYS_restart_syscall,
	/* the end */
	SYS_exit_group,
	SYS_exit,
	SYS_rt_sigreturn,
	SYS_rt_sigprocmask,
	SYS_getpid,
	SYS_gettid,
};

#define OPEN_CHANGES (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND | (O_TMPFILE & ~O_DIRECTORY))

static const struct seccomp_rule rules[] = {
	{ SYS_openat, { SECCOMP_NO_BITS(2, OPEN_CHANGES) } },
	{ SYS_write, { SECCOMP_IS(0, NET_COMPILE_RESULT) } },
	{ SYS_write, { SECCOMP_IS(0, NET_COMPILE_PROXIES) } },
};

static const struct fence_limit limits[] = {
	{ RLIMIT_NOFILE, NOFILE_MAX },
	{ RLIMIT_FSIZE, NET_COMPILED_MAX },
	{ RLIMIT_DATA, DATA_MAX },
};

/* A policy names its files by any path. */
static const struct landlock_rule paths[] = { { "/", LANDLOCK_READ_EXEC } };

const struct fence net_compile_fence = {
	.who = "the process that compiles the policy",
	.limits = limits,
	.n_limits = ARRAY_SIZE(limits),
	/* Host root's: a policy may be in a directory that only its owner may enter, such as somebody's home. With a list that
	 * opens for reading only it writes nothing. */
	.caps = 1ULL << CAP_DAC_OVERRIDE,
	.paths = paths,
	.n_paths = ARRAY_SIZE(paths),
	.calls = { calls, ARRAY_SIZE(calls), rules, ARRAY_SIZE(rules), .aborts = true },
};

/* net_compile.C1: the guard has the wall's sockets, the log and the run's lock open. */
static bool keep_two_files(const int fds[2])
{
	int result = fcntl(fds[0], F_DUPFD_CLOEXEC, NET_COMPILE_FD_END),
	    proxies = fcntl(fds[1], F_DUPFD_CLOEXEC, NET_COMPILE_FD_END);

	return result >= 0 && proxies >= 0 && dup2(result, NET_COMPILE_RESULT) >= 0 &&
	       dup2(proxies, NET_COMPILE_PROXIES) >= 0 &&
	       syscall(SYS_close_range, NET_COMPILE_FD_END, ~0U, 0) == 0;
}

static int confine_compiler(pid_t parent, struct err *e)
{
	prctl(PR_SET_NAME, "coffer-compile");
	spawn_plain_signals(SPAWN_SIGNAL(SIGXFSZ));
	spawn_die_with(parent);
	return fence_up(&net_compile_fence, e);
}

/* Exits with success if the whole result is written. */
static _Noreturn void hand_back(const struct net_compiled *c, const char *bundle)
{
	autobuf struct buf b = BUF_INIT;

	net_compiled_begin(c, &b);
	_exit(buf_error(&b) || fd_write_all(NET_COMPILE_RESULT, b.data, b.len) < 0 ||
	      (c->bundle_len && fd_write_all(NET_COMPILE_RESULT, bundle, c->bundle_len) < 0));
}

static _Noreturn void hand_back_error(const struct err *e)
{
	struct net_compiled c = { .outcome = NET_COMPILED_BROKEN };

	snprintf(c.error, sizeof(c.error), "%s", e->msg[0] ? e->msg : "unknown");
	hand_back(&c, NULL);
}

static int pack_new_policy(const struct config_policy *cp, struct net_compiled *c, struct buf *bundle,
			   struct err *e)
{
	int r = policy_needs_proxies(cp->policy) ? net_give_proxies(NET_COMPILE_PROXIES, cp, e) : 0;

	r = r < 0 ? r : policy_pack(cp->policy, bundle, e);
	if (r < 0)
		return r;
	if (bundle->len > NET_COMPILED_BUNDLE_MAX)
		return err_set(e, -EFBIG, "the compiled policy has more than %u MiB",
			       NET_COMPILED_BUNDLE_MAX >> 20);
	c->outcome = NET_COMPILED_NEW;
	c->bundle_len = bundle->len;
	return 0;
}

static _Noreturn void compile_policy(const struct net_plan *p)
{
	struct net_compiled c = { .outcome = NET_COMPILED_SAME };
	struct config_policy cp = { 0 };
	struct buf bundle = BUF_INIT;
	struct err e = ERR_INIT;
	bool same = false;
	int r = net_plan_load(p, &cp, &same, &e);

	if (r == 0 && cp.files.n > NET_COMPILED_FILES_MAX)
		r = err_set(&e, -E2BIG, "the policy names %zu files; at most %d can be watched", cp.files.n,
			    NET_COMPILED_FILES_MAX);
	if (r == 0 && !same)
		r = pack_new_policy(&cp, &c, &bundle, &e);
	if (r < 0)
		hand_back_error(&e);
	c.files = cp.files;
	hand_back(&c, bundle.data);
}

_Noreturn void net_compile_child(const struct net_plan *p, enum net_compile_job job, const int fds[2],
				 pid_t parent)
{
	const struct net_compiled nothing = { .outcome = NET_COMPILED_SAME };
	struct err e = ERR_INIT;

	if (!keep_two_files(fds))
		_exit(1);
	if (confine_compiler(parent, &e) < 0)
		hand_back_error(&e);
	if (job == NET_COMPILE_POLICY)
		compile_policy(p);
	if (net_give_proxies(NET_COMPILE_PROXIES, &p->cp, &e) < 0)
		hand_back_error(&e);
	hand_back(&nothing, NULL);
}
