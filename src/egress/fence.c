/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/fence.h"

#include "base/cleanup.h"
#include "egress/fds.h"
#include "sys/caps.h"
#include "sys/landlock.h"
#include "sys/seccomp_list.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#if SANITIZED
/* Looking for leaks wants to read /proc, which is out of reach when the process ends. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "detect_leaks=0";
}
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
	/* a new policy is looked at, then mapped */
	SYS_fstat,
	/* memory; mapping is looked at by every list */
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
};

#define SEND_FLAGS (MSG_NOSIGNAL | MSG_DONTWAIT | MSG_MORE)

static struct seccomp_rule rules[] = {
	/* To itself alone, by abort(): as an ordinary user it runs beside everything that is this user's. */
	{ SYS_tgkill, { SECCOMP_IS(0, 0 /* filled in */) } },
	/* MSG_FASTOPEN is connect() by another name: a socket that coffer-dial has connected, and whose server has reset it,
	 * would go wherever the next two messages say. */
	{ SYS_sendto, { SECCOMP_ONLY_BITS(3, SEND_FLAGS) } },
	{ SYS_sendmsg, { SECCOMP_ONLY_BITS(2, SEND_FLAGS) } },
	{ SYS_sendmmsg, { SECCOMP_ONLY_BITS(3, SEND_FLAGS) } },
	{ SYS_setsockopt, { SECCOMP_IS(1, SOL_SOCKET), SECCOMP_IS(2, SO_LINGER) } },
	{ SYS_setsockopt, { SECCOMP_IS(1, IPPROTO_TCP), SECCOMP_IS(2, TCP_NODELAY) } },
	/* Not F_SETFL: the journal stays append-only, through whatever copy of its descriptor. Nor F_SETOWN. */
	{ SYS_fcntl, { SECCOMP_IS(1, F_GET_SEALS) } },
	{ SYS_fcntl, { SECCOMP_IS(1, F_SETPIPE_SZ) } },
};

struct seccomp_list fence_list(void)
{
	rules[0].must[0].value = (uint32_t)getpid();
	return (struct seccomp_list){ calls, ARRAY_SIZE(calls), rules, ARRAY_SIZE(rules) };
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
	struct seccomp_list list;
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
	list = fence_list();
	return seccomp_list_install(&list, e);
}
