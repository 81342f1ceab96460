/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Other doors into the same kernel: 32-bit calls by int 0x80, x32 numbers, and a sweep over the
 * 64-bit ones. A filter that knows only the 64-bit numbers is walked around by the first two.
 */
#include "probe.h"

#include <errno.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#if defined(__x86_64__)
static long int80(long nr, long b, long c, long d)
{
	long ret;

	__asm__ volatile("int $0x80"
			 : "=a"(ret)
			 : "a"(nr), "b"(b), "c"(c), "d"(d)
			 : "memory", "r8", "r9", "r10", "r11");
	if (ret < 0 && ret > -4096) {
		errno = (int)-ret;
		return -1;
	}
	return ret;
}

static volatile sig_atomic_t caught;

static void on_segv(int sig)
{
	caught = sig;
	_exit(77);
}

/* A kernel without 32-bit calls raises SIGSEGV. */
static enum verdict try_int80(long nr, long b, long c, long d, const char *what)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		signal(SIGSEGV, on_segv);
		_exit(int80(nr, b, c, d) >= 0 ? 42 : errno);
	}
	status = wait_exit(pid);
	if (status == 77)
		return in_control ? not_here("this kernel has no 32-bit calls") : held_for("SIGSEGV");
	if (status == 42)
		return broken("%s", what);
	if (status >= 128)
		return held_for("%s", status == 128 + SIGSYS ? "SIGSYS" : "killed");
	errno = status;
	return held();
}

static enum verdict p_i386_getpid(void)
{
	return try_int80(20, 0, 0, 0, "made a 32-bit call");
}

static enum verdict p_i386_unshare(void)
{
	return try_int80(310, CLONE_NEWUSER, 0, 0, "made a user namespace by a 32-bit call");
}

static enum verdict p_i386_socketcall(void)
{
	/* the arguments must lie in the lower 4 GiB */
	unsigned *args =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);

	if (args == MAP_FAILED)
		return probe_error("mmap");
	args[0] = AF_VSOCK;
	args[1] = SOCK_STREAM;
	args[2] = 0;
	return try_int80(102, 1, (long)args, 0, "opened a socket by a 32-bit call");
}

static enum verdict p_x32_getpid(void)
{
	return judge_optional(syscall(0x40000000L | SYS_getpid), "made an x32 call");
}

static enum verdict p_x32_unshare(void)
{
	return judge_optional(syscall(0x40000000L | SYS_unshare, CLONE_NEWUSER),
			      "made a user namespace by an x32 call");
}
#else
static enum verdict p_i386_getpid(void)
{
	return not_here("only on x86-64");
}
#define p_i386_unshare p_i386_getpid
#define p_i386_socketcall p_i386_getpid
#define p_x32_getpid p_i386_getpid
#define p_x32_unshare p_i386_getpid
#endif

/*
 * Calls that no program in a sandbox needs, with arguments that cannot work: EPERM or ENOSYS is the filter
 * (or the missing permission), anything else means that the kernel's code was reached.
 */
static enum verdict p_call_sweep(void)
{
	static const struct {
		long nr;
		const char *name;
	} calls[] = {
		{ SYS_finit_module, "finit_module" },
		{ SYS_fsmount, "fsmount" },
		{ SYS_fsconfig, "fsconfig" },
		{ SYS_move_mount, "move_mount" },
		{ SYS_open_by_handle_at, "open_by_handle_at" },
		{ SYS_fanotify_mark, "fanotify_mark" },
		{ SYS_io_uring_enter, "io_uring_enter" },
		{ SYS_io_uring_register, "io_uring_register" },
		{ SYS_bpf, "bpf" },
		{ SYS_perf_event_open, "perf_event_open" },
		{ SYS_userfaultfd, "userfaultfd" },
		{ SYS_keyctl, "keyctl" },
		{ SYS_quotactl_fd, "quotactl_fd" },
		{ SYS_swapoff, "swapoff" },
		{ SYS_mount_setattr, "mount_setattr" },
		{ SYS_setns, "setns" },
		{ SYS_lookup_dcookie, "lookup_dcookie" },
#ifdef SYS_uselib
		{ SYS_uselib, "uselib" },
		{ SYS_ustat, "ustat" },
		{ SYS_sysfs, "sysfs" },
#endif
#ifdef SYS_kexec_file_load
		{ SYS_kexec_file_load, "kexec_file_load" },
#endif
	};

	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		long r = syscall(calls[i].nr, -1L, -1L, -1L, -1L, -1L, -1L);

		if (r >= 0 || (errno != ENOSYS && errno != EPERM))
			return broken("%s reached the kernel (%s)", calls[i].name,
				      r < 0 ? errno_name(errno) : "done");
	}
	return held_for("all of %zu calls", ARRAY_SIZE(calls));
}

const struct probe probes_abi[] = {
	{ "i386_getpid", p_i386_getpid, CTL_SAME },
	{ "i386_unshare", p_i386_unshare, CTL_SAME },
	{ "i386_socketcall", p_i386_socketcall, CTL_SAME },
	{ "x32_getpid", p_x32_getpid, CTL_SAME },
	{ "x32_unshare", p_x32_unshare, CTL_SAME },
	{ "call_sweep", p_call_sweep, CTL_SAME, PF_GRANTABLE },
	{ 0 },
};
