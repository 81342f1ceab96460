/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system calls that coffer-egress may make once it is confined, each with the file that needs it. No call
 * that opens a path, makes a socket or connects one belongs here.
 */
#include "egress/core/egress_fence.h"

#include "base/cleanup.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/syscall.h>

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
	/* existing sockets: accept.c, intake_messages.c, relay.c, dns_udp.c, dialc.c, control.c */
	SYS_accept4,
	SYS_getsockname,
	SYS_getsockopt,
	SYS_shutdown,
	SYS_recvfrom,
	SYS_recvmsg,
	SYS_recvmmsg,
	SYS_close,
	SYS_dup,
	/* the journal is only written; TLS reads and writes its sockets */
	SYS_read,
	SYS_write,
	SYS_writev,
	/* pipes.c */
	SYS_pipe2,
	SYS_splice,
	/* the size of a new policy, before it is mapped */
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

#define SEND_FLAGS (MSG_NOSIGNAL | MSG_DONTWAIT | MSG_MORE)

static const struct seccomp_rule rules[] = {
	/*
	 * MSG_FASTOPEN is connect() by another name: a socket that coffer-dial has connected, and that its
	 * server has reset, would connect to the address in the next messages.
	 */
	{ SYS_sendto, { SECCOMP_ONLY_BITS(3, SEND_FLAGS) } },
	{ SYS_sendmsg, { SECCOMP_ONLY_BITS(2, SEND_FLAGS) } },
	{ SYS_sendmmsg, { SECCOMP_ONLY_BITS(3, SEND_FLAGS) } },
	{ SYS_setsockopt, { SECCOMP_IS(1, SOL_SOCKET), SECCOMP_IS(2, SO_LINGER) } },
	{ SYS_setsockopt, { SECCOMP_IS(1, IPPROTO_TCP), SECCOMP_IS(2, TCP_NODELAY) } },
	/* Not F_SETFL: the journal stays append-only through every copy of its descriptor. Nor F_SETOWN. */
	{ SYS_fcntl, { SECCOMP_IS(1, F_GET_SEALS) } },
	{ SYS_fcntl, { SECCOMP_IS(1, F_SETPIPE_SZ) } },
};

static const struct fence_limit limits[] = {
	{ RLIMIT_NOFILE, NOFILE_MAX },
};

const struct fence egress_fence = {
	.who = "coffer-egress",
	.limits = limits,
	.n_limits = ARRAY_SIZE(limits),
	.calls = { calls, ARRAY_SIZE(calls), rules, ARRAY_SIZE(rules), .aborts = true },
};
