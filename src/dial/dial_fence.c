/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system calls of coffer-dial (dial.L6): sockets of TCP and UDP over IP, and no call that opens or
 * executes a file.
 */
#include "dial/dial_int.h"

#include "base/cleanup.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#define NOFILE_MAX 65536

static const uint16_t calls[] = {
	/* the loop */
	SYS_epoll_pwait,
	SYS_epoll_ctl,
	SYS_clock_gettime,
	SYS_gettimeofday,
	SYS_restart_syscall,
#ifdef SYS_epoll_wait
	SYS_epoll_wait,
#endif
	/*
	 * existing sockets; the rules below restrict creating them. The one that queries routes (dial_race.h) was
	 * opened before; without capabilities it changes none.
	 */
	SYS_connect,
	SYS_getsockname,
	SYS_getpeername,
	SYS_setsockopt,
	SYS_getsockopt,
	SYS_shutdown,
	SYS_sendto,
	SYS_sendmsg,
	SYS_sendmmsg,
	SYS_recvfrom,
	SYS_recvmsg,
	SYS_recvmmsg,
	SYS_read,
	SYS_write,
	SYS_writev,
	SYS_close,
	/* the size of a new policy, before it is mapped */
	SYS_pread64,
	SYS_fstat,
	/* memory; every list filters mmap() itself */
	SYS_brk,
	SYS_munmap,
	SYS_mremap,
	SYS_madvise,
	SYS_getrandom,
	SYS_futex,
	/* the end */
	SYS_exit_group,
	SYS_exit,
	SYS_rt_sigreturn,
	SYS_rt_sigprocmask,
	SYS_getpid,
	SYS_gettid,
};

static const struct seccomp_rule rules[] = {
	/* TCP and UDP over IP, and no other protocol of those families. */
	SECCOMP_SOCKET(AF_INET, SOCK_STREAM),
	SECCOMP_SOCKET(AF_INET, SOCK_DGRAM),
	SECCOMP_SOCKET(AF_INET6, SOCK_STREAM),
	SECCOMP_SOCKET(AF_INET6, SOCK_DGRAM),
	/* Not F_SETOWN and F_SETSIG, which send signals, nor F_SETFL: the journal stays append-only. */
	{ SYS_fcntl, { SECCOMP_IS(1, F_GET_SEALS) } },
};

static const struct fence_limit limits[] = {
	{ RLIMIT_NOFILE, NOFILE_MAX },
};

const struct fence dial_fence = {
	.who = "coffer-dial",
	.limits = limits,
	.n_limits = ARRAY_SIZE(limits),
	.calls = { calls, ARRAY_SIZE(calls), rules, ARRAY_SIZE(rules), .aborts = true },
};
