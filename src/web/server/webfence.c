/* SPDX-License-Identifier: Apache-2.0 */
/* The fence of coffer-web: it can use the descriptors that are passed to it, and nothing else. */
#include "base/cleanup.h"
#include "web/server/webserve.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/syscall.h>

static const uint16_t web_calls[] = {
	/* the loop */
	SYS_epoll_pwait,
	SYS_epoll_ctl,
	SYS_clock_gettime,
	SYS_restart_syscall,
#ifdef SYS_epoll_wait
	SYS_epoll_wait,
#endif
	/* use of existing sockets and pipes; memory files are read */
	SYS_accept4,
	SYS_getsockopt,
	SYS_shutdown,
	SYS_recvfrom,
	SYS_recvmsg,
	SYS_close,
	SYS_read,
	SYS_lseek,
	SYS_write, /* error messages to stderr */
	/* memory; seccomp.c checks mmap for every list */
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

static const struct seccomp_rule web_call_rules[] = {
	/* MSG_FASTOPEN would connect. */
	{ SYS_sendto, { SECCOMP_ONLY_BITS(3, SEND_FLAGS) } },
	{ SYS_sendmsg, { SECCOMP_ONLY_BITS(2, SEND_FLAGS) } },
	{ SYS_setsockopt, { SECCOMP_IS(1, IPPROTO_TCP), SECCOMP_IS(2, TCP_NODELAY) } },
};

static const struct fence_limit web_limits[] = {
	{ RLIMIT_NOFILE, 2 * WEB_CONNS + 64 },
};

const struct fence web_fence = {
	.who = "coffer-web",
	.limits = web_limits,
	.n_limits = ARRAY_SIZE(web_limits),
	.calls = { web_calls, ARRAY_SIZE(web_calls), web_call_rules, ARRAY_SIZE(web_call_rules),
		   .aborts = true },
};
