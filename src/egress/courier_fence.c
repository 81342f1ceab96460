/* SPDX-License-Identifier: Apache-2.0 */
/* How coffer-courier locks itself in: U5 of courier.h. */
#include "egress/courier.h"

#include "base/cleanup.h"
#include "sys/caps.h"
#include "sys/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

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
	/* sockets; making them is looked at below */
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

#define SOCKET(family, type)                                                                           \
	{                                                                                              \
		SYS_socket,                                                                            \
		{                                                                                      \
			SECCOMP_IS(0, family), { 1, ~(uint32_t)(SOCK_CLOEXEC | SOCK_NONBLOCK), type }, \
				SECCOMP_IS(2, 0)                                                       \
		}                                                                                      \
	}

static struct seccomp_rule rules[] = {
	/* To itself alone, by abort(): as an ordinary user it runs beside everything that is this user's. */
	{ SYS_tgkill, { SECCOMP_IS(0, 0 /* filled in */) } },
	/* TCP and UDP over IP, and no other protocol of those families. */
	SOCKET(AF_INET, SOCK_STREAM),
	SOCKET(AF_INET, SOCK_DGRAM),
	SOCKET(AF_INET6, SOCK_STREAM),
	SOCKET(AF_INET6, SOCK_DGRAM),
};

struct seccomp_list courier_fence_list(void)
{
	rules[0].must[0].value = (uint32_t)getpid();
	return (struct seccomp_list){ calls, ARRAY_SIZE(calls), rules, ARRAY_SIZE(rules) };
}

static int set_limits(struct err *e)
{
	static const struct {
		__rlimit_resource_t what;
		rlim_t most;
	} of[] = {
		{ RLIMIT_CORE, 0 },
		{ RLIMIT_NOFILE, NOFILE_MAX },
		{ RLIMIT_FSIZE, 0 },
#if !SANITIZED
		{ RLIMIT_DATA, DATA_MAX }
#endif
	};

	for (size_t i = 0; i < ARRAY_SIZE(of); i++) {
		struct rlimit l;

		if (getrlimit(of[i].what, &l) < 0)
			return err_sys(e, -errno, "cannot limit coffer-courier");
		l.rlim_max = l.rlim_max < of[i].most ? l.rlim_max : of[i].most;
		l.rlim_cur = l.rlim_max;
		if (setrlimit(of[i].what, &l) < 0)
			return err_sys(e, -errno, "cannot limit coffer-courier");
	}
	return 0;
}

int courier_fence(struct err *e)
{
	struct seccomp_list list;
	uint64_t have = 0;
	int r = set_limits(e);

	if (r < 0)
		return r;
	if (prctl(PR_SET_DUMPABLE, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(e, -errno, "cannot confine coffer-courier");
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
	list = courier_fence_list();
	return seccomp_list_install(&list, e);
}
