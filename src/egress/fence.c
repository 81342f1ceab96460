/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/fence.h"

#include "base/cleanup.h"
#include "egress/fds.h"
#include "sys/caps.h"
#include "sys/landlock.h"
#include "sys/seccomp.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#else
/* Looking for leaks wants to read /proc, which is out of reach when the process ends. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "detect_leaks=0";
}
#endif

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#define X32_BIT 0x40000000u
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#define X32_BIT 0x80000000u /* there is none */
#endif

#define NOFILE_MAX 65536

static const uint16_t calls[] = {
	/* the loop */
	SYS_epoll_pwait,
	SYS_epoll_ctl,
	SYS_clock_gettime,
	SYS_restart_syscall,
#ifdef SYS_epoll_wait
	SYS_epoll_wait,
#endif
	/* sockets that are there: accept.c, relay.c, dns_udp.c, dialc.c, control.c */
	SYS_accept4,
	SYS_getsockname,
	SYS_getsockopt,
	SYS_setsockopt,
	SYS_shutdown,
	SYS_recvfrom,
	SYS_recvmsg,
	SYS_recvmmsg,
	SYS_sendto,
	SYS_sendmsg,
	SYS_sendmmsg,
	SYS_close,
	SYS_dup,
	/* the journal is only written; TLS reads and writes its sockets */
	SYS_read,
	SYS_write,
	SYS_writev,
	/* pipes.c */
	SYS_pipe2,
	SYS_splice,
	/* a new policy is looked at, then mapped */
	SYS_fstat,
	/* memory; mapping is looked at below */
	SYS_brk,
	SYS_munmap,
	SYS_mremap,
	SYS_madvise,
	SYS_getrandom,
	SYS_futex,
	SYS_sysinfo, /* how much memory there is: asked by qsort(), which OpenSSL uses when it is set up */
	/* the end */
	SYS_exit_group,
	SYS_exit,
	SYS_rt_sigreturn,
	SYS_rt_sigprocmask,
	SYS_getpid,
	SYS_gettid,
	SYS_tgkill,
};

#define STMT(code, k) ((struct sock_filter)BPF_STMT((code), (k)))
#define JUMP(op, k, yes, no) ((struct sock_filter)BPF_JUMP((BPF_JMP | BPF_K | (op)), (k), (yes), (no)))
#define LOAD(what) STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, what))
#define LOAD_ARG(i)                    \
	STMT(BPF_LD | BPF_W | BPF_ABS, \
	     (uint32_t)offsetof(struct seccomp_data, args) + (uint32_t)sizeof(uint64_t) * (i))
#define KILL STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
#define ALLOW STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static int install_filter(struct err *e)
{
	struct sock_filter f[ARRAY_SIZE(calls) * 2 + 40];
	size_t n = 0;

	f[n++] = LOAD(arch);
	f[n++] = JUMP(BPF_JEQ, NATIVE_ARCH, 1, 0);
	f[n++] = KILL;
	f[n++] = LOAD(nr);
	f[n++] = JUMP(BPF_JGE, X32_BIT, 0, 1);
	f[n++] = KILL;
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		f[n++] = JUMP(BPF_JEQ, calls[i], 0, 1);
		f[n++] = ALLOW;
	}
	/* Memory is never code. */
	f[n++] = JUMP(BPF_JEQ, SYS_mmap, 1, 0);
	f[n++] = JUMP(BPF_JEQ, SYS_mprotect, 0, 4);
	f[n++] = LOAD_ARG(2);
	f[n++] = JUMP(BPF_JSET, PROT_EXEC, 0, 1);
	f[n++] = KILL;
	f[n++] = ALLOW;
	/* Not F_SETFL: the journal stays append-only, through whatever copy of its descriptor. */
	f[n++] = JUMP(BPF_JEQ, SYS_fcntl, 0, 4);
	f[n++] = LOAD_ARG(1);
	f[n++] = JUMP(BPF_JEQ, F_GET_SEALS, 1, 0);
	f[n++] = JUMP(BPF_JEQ, F_SETPIPE_SZ, 0, 1);
	f[n++] = ALLOW;
	f[n++] = KILL;
	return seccomp_install(f, n, e);
}

int fence_limits(struct err *e)
{
	struct rlimit files, core = { 0, 0 };

	if (getrlimit(RLIMIT_NOFILE, &files) < 0)
		return err_sys(e, -errno, "cannot limit coffer-egress");
	files.rlim_max = files.rlim_max < NOFILE_MAX ? files.rlim_max : NOFILE_MAX;
	files.rlim_cur = files.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &files) < 0 || setrlimit(RLIMIT_CORE, &core) < 0)
		return err_sys(e, -errno, "cannot limit coffer-egress");
	return 0;
}

int fence_close(struct err *e)
{
	uint64_t have = 0;
	int r;

	if (prctl(PR_SET_DUMPABLE, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(e, -errno, "cannot confine coffer-egress");
	/* Where there is none, no_new_privs keeps it so. */
	r = caps_effective(&have, e);
	if (r == 0 && have)
		r = caps_drop_all_but(0, e);
	if (r < 0)
		return r;
	/* Without Landlock the filter is the wall: it knows no call that opens anything. */
	r = landlock_apply(NULL, 0, e);
	if (r < 0)
		return r;
	return SANITIZED ? 0 : install_filter(e);
}
