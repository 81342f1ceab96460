/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a function in a child process, in new namespaces and within a time limit, for the checks of `coffer
 * doctor`. The child reports over a pipe; whatever happens to it is a negative result for the caller, never
 * a crash or a hang.
 */
#include "posture/probe.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "sys/ns.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct report {
	int result;
	struct err err;
};

/* Maps the caller's own id to root in the child's new user namespace. */
static int map_self(uint32_t uid, uint32_t gid, struct err *e)
{
	int r = ns_deny_setgroups("/proc/self", e);
	char map[32];

	snprintf(map, sizeof(map), "0 %u 1\n", uid);
	if (r == 0)
		r = ns_map_ids("/proc/self", false, map, e);
	snprintf(map, sizeof(map), "0 %u 1\n", gid);
	return r == 0 ? ns_map_ids("/proc/self", true, map, e) : r;
}

/* Kills the child and reaps it. One that hangs in the kernel for more than a second stays behind, and init reaps it later. */
static void kill_and_reap(int pidfd)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };
	siginfo_t info;

	syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
	if (poll(&p, 1, 1000) > 0)
		waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED);
}

static int wait_readable(int fd, uint64_t deadline)
{
	uint64_t now = clock_nsec(CLOCK_MONOTONIC);
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int r;

	if (now >= deadline)
		return -ETIMEDOUT;
	r = poll(&p, 1, (int)((deadline - now) / NSEC_PER_MSEC) + 1);
	if (r < 0)
		return errno == EINTR ? 0 : -errno;
	return r == 0 ? -ETIMEDOUT : 0;
}

/* Reads a whole report: the child writes it at once, and it is shorter than PIPE_BUF. */
static int read_probe_report(int fd, struct report *ret, struct err *e)
{
	uint64_t deadline = clock_nsec(CLOCK_MONOTONIC) + PROBE_MSEC * NSEC_PER_MSEC;
	ssize_t n;
	int r;

	do {
		r = wait_readable(fd, deadline);
		if (r < 0)
			return err_set(e, r, "it did not end within %d seconds", PROBE_MSEC / 1000);
		n = read(fd, ret, sizeof(*ret));
	} while (n < 0 && (errno == EINTR || errno == EAGAIN));
	if (n != (ssize_t)sizeof(*ret))
		return err_set(e, -ECHILD, "the attempt died");
	return 0;
}

int probe_run(uint64_t ns, int (*fn)(void *arg, struct err *e), void *arg, struct err *e)
{
	uint32_t uid = geteuid(), gid = getegid();
	autoclose int pidfd = -1, rd = -1, wr = -1;
	struct report report = { 0 };
	int p[2], r;
	pid_t pid;

	static_assert(sizeof(struct report) <= 4096, "a report is written at once");
	if (pipe2(p, O_CLOEXEC) < 0)
		return err_sys(e, -errno, "cannot make a pipe");
	rd = p[0];
	wr = p[1];
	pid = ns_fork(ns, -1, &pidfd);
	if (pid < 0)
		return err_sys(e, pid, "the kernel refuses");
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		rd = fd_close(rd);
		report.result = ns & CLONE_NEWUSER ? map_self(uid, gid, &report.err) : 0;
		if (report.result == 0 && fn)
			report.result = fn(arg, &report.err);
		r = fd_write_all(wr, &report, sizeof(report));
		_exit(r < 0 ? 1 : 0);
	}
	wr = fd_close(wr);
	r = read_probe_report(rd, &report, e);
	kill_and_reap(pidfd);
	if (r < 0)
		return r;
	if (e)
		*e = report.err;
	return report.result;
}

int probe_hold_userns(int *ret_pidfd, struct err *e)
{
	pid_t pid = ns_fork(CLONE_NEWUSER, -1, ret_pidfd);

	if (pid < 0)
		return err_sys(e, pid, "cannot make a user namespace");
	if (pid == 0) {
		alarm(2 * PROBE_MSEC / 1000); /* ends it also if its parent is killed */
		for (;;)
			pause();
	}
	return pid;
}

void probe_end_userns(int pidfd)
{
	kill_and_reap(pidfd);
}
