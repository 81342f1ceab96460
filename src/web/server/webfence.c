/* SPDX-License-Identifier: Apache-2.0 */
/* How coffer-web locks itself in: it can use the descriptors that it is handed, and nothing else. */
#include "base/cleanup.h"
#include "web/server/webserve.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/syscall.h>

static const uint16_t calls[] = {
	/* the loop */
	SYS_epoll_pwait,
	SYS_epoll_ctl,
	SYS_clock_gettime,
	SYS_restart_syscall,
#ifdef SYS_epoll_wait
	SYS_epoll_wait,
#endif
	/* sockets and pipes that are there; memory files are read */
	SYS_accept4,
	SYS_getsockopt,
	SYS_shutdown,
	SYS_recvfrom,
	SYS_recvmsg,
	SYS_close,
	SYS_read,
	SYS_lseek,
	SYS_write, /* the last words, to stderr */
	/* memory; mapping is looked at by every list */
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

#define SEND_FLAGS (MSG_NOSIGNAL | MSG_DONTWAIT)

static const struct seccomp_rule rules[] = {
	/* MSG_FASTOPEN is connect() by another name. */
	{ SYS_sendto, { SECCOMP_ONLY_BITS(3, SEND_FLAGS) } },
	{ SYS_sendmsg, { SECCOMP_ONLY_BITS(2, SEND_FLAGS) } },
	{ SYS_setsockopt, { SECCOMP_IS(1, IPPROTO_TCP), SECCOMP_IS(2, TCP_NODELAY) } },
};

static const struct fence_limit limits[] = {
	{ RLIMIT_NOFILE, 2 * WEB_CONNS + 64 },
};

const struct fence web_fence = {
	.who = "coffer-web",
	.limits = limits,
	.n_limits = ARRAY_SIZE(limits),
	.calls = { calls, ARRAY_SIZE(calls), rules, ARRAY_SIZE(rules), .aborts = true },
};
