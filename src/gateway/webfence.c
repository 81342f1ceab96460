/* SPDX-License-Identifier: Apache-2.0 */
/* How coffer-web locks itself in: it can use the descriptors that it is handed, and nothing else. */
#include "base/cleanup.h"
#include "gateway/webserve.h"
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

static struct seccomp_rule rules[] = {
	/* To itself alone, by abort(). */
	{ SYS_tgkill, { SECCOMP_IS(0, 0 /* filled in */) } },
	/* MSG_FASTOPEN is connect() by another name. */
	{ SYS_sendto, { SECCOMP_ONLY_BITS(3, SEND_FLAGS) } },
	{ SYS_sendmsg, { SECCOMP_ONLY_BITS(2, SEND_FLAGS) } },
	{ SYS_setsockopt, { SECCOMP_IS(1, IPPROTO_TCP), SECCOMP_IS(2, TCP_NODELAY) } },
};

static int limit(struct err *e)
{
	struct rlimit files, core = { 0, 0 };

	if (getrlimit(RLIMIT_NOFILE, &files) < 0)
		return err_sys(e, -errno, "cannot limit coffer-web");
	files.rlim_max = files.rlim_max < 2ul * WEB_CONNS ? files.rlim_max : 2ul * WEB_CONNS;
	files.rlim_cur = files.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &files) < 0 || setrlimit(RLIMIT_CORE, &core) < 0)
		return err_sys(e, -errno, "cannot limit coffer-web");
	return 0;
}

int web_fence(struct err *e)
{
	struct seccomp_list list = { calls, ARRAY_SIZE(calls), rules, ARRAY_SIZE(rules) };
	uint64_t have = 0;
	int r = limit(e);

	if (r < 0)
		return r;
	if (prctl(PR_SET_DUMPABLE, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(e, -errno, "cannot confine coffer-web");
	r = caps_effective(&have, e);
	if (r == 0 && have)
		r = caps_drop_all_but(0, e);
	/* Without Landlock the filter is the wall: it knows no call that opens anything. */
	if (r == 0)
		r = landlock_apply(NULL, 0, e);
	if (r < 0)
		return r;
	rules[0].must[0].value = (uint32_t)getpid();
	return seccomp_list_install(&list, e);
}
