/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system calls of coffer-netd: its socket to the guard, and reading two open files. Nothing here may open, write or name a file, make a
 * socket or a process, or send a signal.
 */
#include "netd/read/netd_fence.h"

#include "base/cleanup.h"

#include <sys/syscall.h>

static const uint16_t calls[] = {
	/* the socket to the guard */
	SYS_ppoll,
#ifdef SYS_poll
	SYS_poll,
#endif
	SYS_sendmsg,
	SYS_recvmsg,
	SYS_close,
	/* the journals */
	SYS_pread64,
	SYS_lseek,
	SYS_clock_gettime,
	SYS_gettimeofday,
	SYS_restart_syscall,
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

static const struct fence_limit limits[] = {
	{ RLIMIT_NOFILE, 16 },
	{ RLIMIT_FSIZE, 0 },
	{ RLIMIT_DATA, 64u << 20 },
};

const struct fence netd_fence = {
	.who = "coffer-netd",
	.limits = limits,
	.n_limits = ARRAY_SIZE(limits),
	.calls = { calls, ARRAY_SIZE(calls), NULL, 0, .aborts = true },
};
