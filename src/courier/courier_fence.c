/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system calls of coffer-courier: courier.U5. None that opens a file, and sockets of TCP and UDP over IP
 * only.
 */
#include "courier/courier.h"

#include "base/cleanup.h"

#include <sys/socket.h>
#include <sys/syscall.h>

#define NOFILE_MAX 64
#define DATA_MAX (128ULL << 20)

static const uint16_t calls[] = {
	/* waiting: the loop for names and connections, then one socket */
	SYS_epoll_pwait,
	SYS_epoll_ctl,
	SYS_ppoll,
#ifdef SYS_epoll_wait
	SYS_epoll_wait,
#endif
#ifdef SYS_poll
	SYS_poll,
#endif
	SYS_clock_gettime,
	SYS_gettimeofday,
	SYS_restart_syscall,
	/* sockets; the rules below restrict creating them */
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
	/* certificates and key, on descriptors that came with the job */
	SYS_pread64,
	SYS_fstat,
	/* memory; every list filters mmap() itself */
	SYS_brk,
	SYS_munmap,
	SYS_mremap,
	SYS_madvise,
	SYS_getrandom,
	SYS_futex,
	SYS_sysinfo, /* qsort() queries the amount of memory; OpenSSL calls it during setup */
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
};

static const struct fence_limit limits[] = {
	{ RLIMIT_NOFILE, NOFILE_MAX },
	{ RLIMIT_FSIZE, 0 },
	{ RLIMIT_DATA, DATA_MAX },
};

const struct fence courier_fence = {
	.who = "coffer-courier",
	.limits = limits,
	.n_limits = ARRAY_SIZE(limits),
	.calls = { calls, ARRAY_SIZE(calls), rules, ARRAY_SIZE(rules), .aborts = true },
};
