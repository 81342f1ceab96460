/* SPDX-License-Identifier: Apache-2.0 */
/* A list of calls in a real kernel: what is on it works, what is not ends the process, arguments count. */
#include "base/cleanup.h"
#include "sys/fence/seccomp.h"
#include "sys/fence/seccomp_list.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static const uint16_t calls[] = { SYS_exit_group, SYS_getpid };
static const struct seccomp_rule rules[] = {
	{ SYS_socket,
	  { SECCOMP_IS(0, AF_UNIX), { 1, ~(uint32_t)SOCK_CLOEXEC, SOCK_STREAM }, SECCOMP_IS(2, 0) } },
	{ SYS_fcntl, { SECCOMP_IS(1, F_GETFL) } },
	{ SYS_fcntl, { SECCOMP_IS(1, F_GETFD) } },
	{ SYS_dup3, { SECCOMP_ONLY_BITS(2, O_CLOEXEC) } },
};

enum { DIED = -1, NO_FILTER = 250 };

/* 0, an errno, or DIED by the filter. */
static int attempt_by(const struct seccomp_list *l, const long a[7])
{
	struct sock_filter insns[SECCOMP_LIST_MAX];
	struct err e = ERR_INIT;
	int status = 0;
	size_t n = 0;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		long r;

		if (l && (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
			  seccomp_list_compile(l, insns, ARRAY_SIZE(insns), &n, &e) < 0 ||
			  seccomp_install(insns, n, &e) < 0))
			_exit(NO_FILTER);
		r = syscall(a[0], a[1], a[2], a[3], a[4], a[5], a[6]);
		syscall(SYS_exit_group, r == -1 ? (long)errno : 0L);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return NO_FILTER;
	if (WIFSIGNALED(status))
		return WTERMSIG(status) == SIGSYS ? DIED : NO_FILTER;
	return WEXITSTATUS(status);
}

static int attempt(bool filtered, const long a[7])
{
	const struct seccomp_list l = { calls, ARRAY_SIZE(calls), rules, ARRAY_SIZE(rules) };

	return attempt_by(filtered ? &l : NULL, a);
}

static const struct {
	const char *what;
	long call[7];
	int inside;
} acts[] = {
	{ "a call on the list", { SYS_getpid }, 0 },
	{ "one that is not", { SYS_getppid }, DIED },
	{ "arguments that fit", { SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0 }, 0 },
	{ "the first does not", { SYS_socket, AF_INET, SOCK_STREAM, 0 }, DIED },
	{ "the second does not", { SYS_socket, AF_UNIX, SOCK_DGRAM, 0 }, DIED },
	{ "the third does not", { SYS_socket, AF_UNIX, SOCK_STREAM, 1 }, DIED },
	{ "the first of two rules", { SYS_fcntl, 1, F_GETFL }, 0 },
	{ "the second of two rules", { SYS_fcntl, 1, F_GETFD }, 0 },
	{ "neither", { SYS_fcntl, 1, F_SETFD, 0 }, DIED },
	{ "bits that are allowed", { SYS_dup3, 1, 100, O_CLOEXEC }, 0 },
	{ "none of them", { SYS_dup3, 1, 100, 0 }, 0 },
	{ "memory", { SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0 }, 0 },
	{ "code", { SYS_mmap, 0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0 }, DIED },
};

/* The same rules in a list that forbids: what they had allowed ends the process, and all else is possible. */
static void check_forbids(void)
{
	static const uint16_t no_calls[] = { SYS_getppid };
	const struct seccomp_list l = { no_calls,	   ARRAY_SIZE(no_calls), rules,
					ARRAY_SIZE(rules), .aborts = true,	 .forbids = true };
	static const struct {
		const char *what;
		long call[7];
		int inside;
	} forbidden[] = {
		{ "a call on it", { SYS_getppid }, DIED },
		{ "another", { SYS_getpid }, 0 },
		{ "arguments that fit a rule", { SYS_socket, AF_UNIX, SOCK_STREAM, 0 }, DIED },
		{ "arguments that do not", { SYS_socket, AF_UNIX, SOCK_DGRAM, 0 }, 0 },
		{ "the second of two rules", { SYS_fcntl, 1, F_GETFD }, DIED },
		{ "neither", { SYS_fcntl, 1, F_SETFD, 0 }, 0 },
		{ "code in memory",
		  { SYS_mmap, 0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0 },
		  0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(forbidden); i++)
		CHECKF(attempt_by(&l, forbidden[i].call) == forbidden[i].inside,
		       "a list that forbids judges the call: %s: %s", forbidden[i].what,
		       forbidden[i].inside == DIED ? "the end" : "possible");
#if defined(__x86_64__)
	CHECKF(attempt_by(&l, (const long[7]){ 0x40000000 | 39 }) == DIED,
	       "a list that forbids ends the process at a call of x32");
#endif
}

static void check_size(void)
{
	struct seccomp_list l = { calls, ARRAY_SIZE(calls), rules, ARRAY_SIZE(rules) };
	struct sock_filter insns[SECCOMP_LIST_MAX];
	size_t n = 0, again = 0;

	CHECK(seccomp_list_compile(&l, insns, ARRAY_SIZE(insns), &n, NULL) == 0 && n > 0);
	CHECKF(seccomp_list_compile(&l, insns, n, &again, NULL) == 0 && again == n,
	       "a list compiles into just enough room");
	CHECKF(seccomp_list_compile(&l, insns, n - 1, &again, NULL) == -ENOSPC,
	       "a list does not compile into less room");
}

int main(void)
{
	check_size();
	check_forbids();
	for (size_t i = 0; i < ARRAY_SIZE(acts); i++) {
		CHECKF(attempt(false, acts[i].call) == 0,
		       "control: the call is possible without the list: %s", acts[i].what);
		CHECKF(attempt(true, acts[i].call) == acts[i].inside, "the list judges the call: %s: %s",
		       acts[i].what, acts[i].inside == DIED ? "the end" : "possible");
	}
	return tap_done();
}
