/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fence_up() for real, in children: what is gone afterwards, what was kept, and that each step which the kernel refuses is an
 * error. A filter of the test's own plays the kernel that refuses.
 */
#include "base/cleanup.h"
#include "sys/fence/fence.h"
#include "sys/fence/seccomp.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { YES = 0, NO = 1, DIED = 2, BROKEN = 3 };
enum { NR_LANDLOCK_CREATE = 444, NR_LANDLOCK_RESTRICT = 446 };

static const uint16_t calls[] = {
	SYS_exit_group, SYS_prctl, SYS_prlimit64, SYS_capget, SYS_openat, SYS_close
};
static const struct fence_limit limits[] = { { RLIMIT_NOFILE, 20 }, { RLIMIT_FSIZE, 4096 } };

static struct fence fence = {
	.who = "the test",
	.limits = limits,
	.n_limits = ARRAY_SIZE(limits),
	.calls = { calls, ARRAY_SIZE(calls), NULL, 0, .aborts = true },
};

static int end_of(pid_t pid)
{
	int status = 0;

	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return BROKEN;
	if (WIFSIGNALED(status))
		return WTERMSIG(status) == SIGSYS ? DIED : BROKEN;
	return WEXITSTATUS(status);
}

/* The result of `holds` in a child behind the fence, or without one. */
static int ask(const struct fence *f, bool (*holds)(void))
{
	struct err e = ERR_INIT;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		if (f && fence_up(f, &e) < 0)
			_exit(BROKEN);
		syscall(SYS_exit_group, holds() ? YES : NO);
	}
	return end_of(pid);
}

static bool limit_is(__rlimit_resource_t what, rlim_t most)
{
	struct rlimit l;

	return getrlimit(what, &l) == 0 && l.rlim_cur == most && l.rlim_max == most;
}

static bool is_limited(void)
{
	return limit_is(RLIMIT_CORE, 0) && limit_is(RLIMIT_NOFILE, 20) && limit_is(RLIMIT_FSIZE, 4096);
}

static bool is_dumpable(void)
{
	return prctl(PR_GET_DUMPABLE) == 1;
}

static bool has_new_privs(void)
{
	return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0;
}

static uint64_t permitted(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct half[2] = { 0 };

	if (syscall(SYS_capget, &head, half) < 0)
		return ~0ULL;
	return half[0].permitted | (uint64_t)half[1].permitted << 32;
}

static bool has_caps(void)
{
	return permitted() != 0;
}

static bool has_chown_alone(void)
{
	return permitted() == 1ULL << CAP_CHOWN;
}

static bool opens_root(void)
{
	return syscall(SYS_openat, AT_FDCWD, "/", O_RDONLY | O_CLOEXEC) >= 0;
}

static bool opens_proc(void)
{
	return syscall(SYS_openat, AT_FDCWD, "/proc", O_RDONLY | O_CLOEXEC) >= 0;
}

static bool asks_parent(void)
{
	return syscall(SYS_getppid) > 0;
}

static bool signals_init(void)
{
	return syscall(SYS_tgkill, 1, 1, 0) == 0 || errno == EPERM;
}

static void check_gone(void)
{
	CHECK(ask(NULL, is_limited) == NO);
	CHECK(ask(&fence, is_limited) == YES);
	CHECK(ask(NULL, is_dumpable) == YES);
	CHECK(ask(&fence, is_dumpable) == NO);
	CHECK(ask(NULL, has_new_privs) == YES);
	CHECK(ask(&fence, has_new_privs) == NO);
	CHECK(ask(&fence, has_caps) == NO);
	CHECK(ask(NULL, opens_root) == YES);
	if (landlock_abi() >= LANDLOCK_MIN_ABI)
		CHECK(ask(&fence, opens_root) == NO);
	else
		tap_skip("paths are fenced by Landlock", "this kernel has no Landlock");
	CHECK(ask(NULL, asks_parent) == YES);
	CHECK(ask(NULL, signals_init) == YES);
	if (SANITIZED)
		return tap_skip("calls are fenced by the filter", "none is installed under sanitizers");
	CHECK(ask(&fence, asks_parent) == DIED);
	CHECK(ask(&fence, signals_init) == DIED);
}

static void check_kept(void)
{
	const struct landlock_rule proc = { "/proc", LANDLOCK_READ_EXEC };
	const struct fence_limit high[] = { { RLIMIT_NOFILE, RLIM_INFINITY } };
	struct fence f = fence;

	f.paths = &proc;
	f.n_paths = 1;
	f.caps = 1ULL << CAP_CHOWN;
	CHECK(ask(&f, opens_proc) == YES);
	if (landlock_abi() >= LANDLOCK_MIN_ABI)
		CHECK(ask(&f, opens_root) == NO);
	if (has_caps())
		CHECKF(ask(&f, has_chown_alone) == YES, "a capability is kept when it is named");
	else
		CHECKF(ask(&f, has_caps) == NO, "a missing capability is not gained by its name");
	f.limits = high;
	f.n_limits = 1;
	CHECKF(ask(&f, opens_proc) == YES, "a limit above the hard limit becomes the hard limit");
}

/* --- a kernel that refuses ------------------------------------------------------------------------------------- */

static void refuse(uint32_t nr, uint32_t code)
{
	const struct sock_filter insns[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | code),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct err e = ERR_INIT;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || seccomp_install(insns, ARRAY_SIZE(insns), &e) < 0)
		_exit(BROKEN);
}

/* Is it an error, with a word about it and no filter yet? */
static int fails(const struct fence *f, uint32_t nr, uint32_t code, int want)
{
	struct err e = ERR_INIT;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		int r;

		refuse(nr, code);
		r = fence_up(f, &e);
		syscall(SYS_exit_group, r == want && (r == 0 || (e.msg[0] && asks_parent())) ? YES : NO);
	}
	return end_of(pid);
}

static void check_refused(void)
{
	static const struct {
		const char *step;
		uint32_t nr;
	} steps[] = {
		{ "limits", SYS_prlimit64 },	{ "not dumpable, no new privileges", SYS_prctl },
		{ "capabilities", SYS_capget }, { "Landlock", NR_LANDLOCK_RESTRICT },
		{ "the filter", SYS_seccomp },
	};
	struct fence f = fence;

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		if ((steps[i].nr == NR_LANDLOCK_RESTRICT && landlock_abi() < LANDLOCK_MIN_ABI) ||
		    (steps[i].nr == SYS_seccomp && SANITIZED))
			tap_skip(steps[i].step, "it is not in force here");
		else
			CHECKF(fails(&f, steps[i].nr, EPERM, -EPERM) == YES,
			       "a refused step of the fence is an error: %s", steps[i].step);
	}
	if (has_caps())
		CHECKF(fails(&f, SYS_capset, EPERM, -EPERM) == YES,
		       "a refused drop of capabilities is an error");
	CHECKF(fails(&f, NR_LANDLOCK_CREATE, ENOSYS, 0) == YES,
	       "the filter alone is the wall where Landlock is missing");
	f.no_landlock = "it opens paths";
	CHECKF(fails(&f, NR_LANDLOCK_CREATE, ENOSYS, -ENOTSUP) == YES,
	       "a program that opens paths is refused without Landlock");
}

int main(void)
{
	check_gone();
	check_kept();
	check_refused();
	return tap_done();
}
