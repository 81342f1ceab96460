/* SPDX-License-Identifier: Apache-2.0 */
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

#define OUTPUT_MAX 65536

struct report {
	int result;
	struct err err;
};

/* The child's own id as root of its new user namespace. */
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

/* Ends the child whatever it does, and collects it; a child that the kernel cannot end is left to init. */
static void end_child(int pidfd, pid_t group)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };
	siginfo_t info;

	if (group > 0)
		kill(-group, SIGKILL);
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

/* Whole reports only: the child writes one in one write, shorter than PIPE_BUF. */
static int read_report(int fd, struct report *ret, struct err *e)
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
		if (report.result == 0)
			report.result = fn(arg, &report.err);
		r = fd_write_all(wr, &report, sizeof(report));
		_exit(r < 0 ? 1 : 0);
	}
	wr = fd_close(wr);
	r = read_report(rd, &report, e);
	end_child(pidfd, 0);
	if (r < 0)
		return r;
	if (e)
		*e = report.err;
	return report.result;
}

_Noreturn static void exec_program(const char *const *argv, int out)
{
	static char path[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		    home[] = "HOME=/";
	char *env[] = { path, home, NULL };
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setpgid(0, 0);
	if (dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(null, 2) < 0)
		_exit(126);
	execve(argv[0], (char *const *)argv, env);
	_exit(errno == ENOENT ? 127 : 126);
}

/* Until the program closes its output, or time is up. */
static int read_output(int fd, struct buf *out, struct err *e)
{
	uint64_t deadline = clock_nsec(CLOCK_MONOTONIC) + PROBE_MSEC * NSEC_PER_MSEC;

	while (out->len < OUTPUT_MAX) {
		char *at = buf_reserve(out, 4096);
		ssize_t n;
		int r = wait_readable(fd, deadline);

		if (r < 0)
			return err_set(e, r, "it did not end within %d seconds", PROBE_MSEC / 1000);
		n = at ? read(fd, at, 4096) : 0;
		if (n < 0 && errno != EINTR && errno != EAGAIN)
			return err_sys(e, -errno, "cannot read its output");
		if (n == 0)
			break;
		if (n > 0)
			out->len += (size_t)n;
	}
	buf_adds(out, "");
	return buf_error(out);
}

int probe_program(const char *const *argv, struct buf *out, struct err *e)
{
	autoclose int pidfd = -1, rd = -1, wr = -1;
	struct pollfd ended;
	siginfo_t info = { 0 };
	int p[2], r;
	pid_t pid;

	if (pipe2(p, O_CLOEXEC | O_NONBLOCK) < 0)
		return err_sys(e, -errno, "cannot make a pipe");
	rd = p[0];
	wr = p[1];
	pid = ns_fork(0, -1, &pidfd);
	if (pid < 0)
		return err_sys(e, pid, "cannot start %s", argv[0]);
	if (pid == 0)
		exec_program(argv, wr);
	wr = fd_close(wr);
	r = read_output(rd, out, e);
	ended = (struct pollfd){ .fd = pidfd, .events = POLLIN };
	if (r == 0 && poll(&ended, 1, 500) > 0 &&
	    waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED | WNOWAIT) == 0 && info.si_code == CLD_EXITED)
		r = info.si_status;
	else if (r == 0)
		r = err_set(e, -ECHILD, "%s did not end by itself", argv[0]);
	end_child(pidfd, pid);
	return r;
}

char *probe_find_program(const char *name)
{
	const char *path = getenv("PATH");
	autofree char *copy =
		strdup(path && *path ? path : "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin");
	char *rest = NULL;

	for (char *dir = copy ? strtok_r(copy, ":", &rest) : NULL; dir; dir = strtok_r(NULL, ":", &rest)) {
		char *full = NULL;

		if (dir[0] != '/' || asprintf(&full, "%s/%s", dir, name) < 0)
			continue;
		if (access(full, X_OK) == 0)
			return full;
		free(full);
	}
	return NULL;
}
