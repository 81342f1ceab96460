/* SPDX-License-Identifier: Apache-2.0 */
#include "vault/fence.h"

#include "base/cleanup.h"
#include "sys/caps.h"
#include "sys/landlock.h"

#include <errno.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
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
	/* channels that are there */
	SYS_recvfrom,
	SYS_recvmsg,
	SYS_close,
	/* files that it is handed: keys and values, the sealed file, a file to search */
	SYS_read,
	SYS_pread64,
	SYS_write,
	SYS_pwrite64,
	SYS_fsync,
	/* memory; mapping is looked at by every list */
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

static struct seccomp_rule rules[] = {
	/* To itself alone, by abort(): as an ordinary user it runs beside everything that is this user's. */
	{ SYS_tgkill, { SECCOMP_IS(0, 0 /* filled in */) } },
	{ SYS_sendto, { SECCOMP_ONLY_BITS(3, SEND_FLAGS) } },
	{ SYS_sendmsg, { SECCOMP_ONLY_BITS(2, SEND_FLAGS) } },
	/* A terminal's echo and nothing else of it: TIOCSTI would type commands. */
	{ SYS_ioctl, { SECCOMP_IS(1, TCGETS) } },
	{ SYS_ioctl, { SECCOMP_IS(1, TCSETS) } },
	{ SYS_ioctl, { SECCOMP_IS(1, TCSETSW) } },
	{ SYS_ioctl, { SECCOMP_IS(1, TCSETSF) } },
};

struct seccomp_list vault_fence_list(void)
{
	rules[0].must[0].value = (uint32_t)getpid();
	return (struct seccomp_list){ calls, ARRAY_SIZE(calls), rules, ARRAY_SIZE(rules) };
}

int vault_fence(struct err *e)
{
	struct rlimit none = { 0, 0 };
	struct seccomp_list list;
	uint64_t have = 0;
	int r;

	if (setrlimit(RLIMIT_CORE, &none) < 0 || prctl(PR_SET_DUMPABLE, 0) < 0 ||
	    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(e, -errno, "cannot confine coffer-vault");
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
	list = vault_fence_list();
	return seccomp_list_install(&list, e);
}
