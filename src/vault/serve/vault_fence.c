/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system calls that coffer-vault may make after it is confined. It can open, create and execute nothing.
 */

#include "vault/serve/vault_fence.h"

#include "base/cleanup.h"

#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static const uint16_t calls[] = {
	/* waiting */
	SYS_ppoll,
#ifdef SYS_poll
	SYS_poll,
#endif
	SYS_clock_gettime,
	SYS_restart_syscall,
	/* existing channels */
	SYS_recvfrom,
	SYS_recvmsg,
	SYS_close,
	/* descriptors that it received: keys and values, the sealed file, a file to search */
	SYS_read,
	SYS_pread64,
	SYS_write,
	SYS_pwrite64,
	SYS_fsync,
	/* memory; mmap() is in every list */
	SYS_brk,
	SYS_munmap,
	SYS_mremap,
	SYS_madvise,
	SYS_mlock,
	SYS_munlock,
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

#define SEND_FLAGS (MSG_NOSIGNAL | MSG_DONTWAIT)

static const struct seccomp_rule rules[] = {
	{ SYS_sendto, { SECCOMP_ONLY_BITS(3, SEND_FLAGS) } },
	{ SYS_sendmsg, { SECCOMP_ONLY_BITS(2, SEND_FLAGS) } },
	/* The holes of a file to search. */
	{ SYS_lseek, { SECCOMP_IS(2, SEEK_DATA) } },
	{ SYS_lseek, { SECCOMP_IS(2, SEEK_HOLE) } },
	/* The terminal's echo and nothing else: TIOCSTI would type commands. */
	{ SYS_ioctl, { SECCOMP_IS(1, TCGETS) } },
	{ SYS_ioctl, { SECCOMP_IS(1, TCSETS) } },
	{ SYS_ioctl, { SECCOMP_IS(1, TCSETSW) } },
	{ SYS_ioctl, { SECCOMP_IS(1, TCSETSF) } },
};

const struct fence vault_fence = {
	.who = "coffer-vault",
	.calls = { calls, ARRAY_SIZE(calls), rules, ARRAY_SIZE(rules), .aborts = true },
};
