/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Killing a group on a kernel that cannot do it in one write: by signal, process by process, until none is
 * left.
 *
 * A group that forks faster than it is read is stopped first: frozen, or forbidden to fork. Between reading a
 * number and signalling it the process may end and its number be reused. So each is held by
 * a pidfd, and only those whose numbers are listed once more after that are signalled: while a process that
 * we hold lives, no other can have its number, and if it is dead the signal goes nowhere.
 */
#include "base/fd.h"
#include "sys/cgroup/cgroup_internal.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>

#define PROCS_MAX (8u << 20)
#define BATCH 64

struct held {
	uint64_t pid;
	int fd;
};

/* The next number of a list of lines; 0 at its end, and for a process outside our pid namespace. */
static uint64_t next_pid(const char **p)
{
	uint64_t n = 0;

	for (; **p >= '0' && **p <= '9'; ++*p)
		n = n * 10 + (uint64_t)(**p - '0');
	*p += **p != '\0';
	return n;
}

static bool is_listed(const char *procs, uint64_t pid)
{
	while (*procs) {
		if (next_pid(&procs) == pid)
			return true;
	}
	return false;
}

static int read_procs(int dirfd, struct buf *ret)
{
	int r;

	buf_clear(ret);
	r = fd_read_file(dirfd, "cgroup.procs", PROCS_MAX, ret);
	return r == -ENOENT || r == -ENODEV ? 0 : r; /* the group is gone */
}

static int kill_held(int dirfd, const struct held *held, int n)
{
	autobuf struct buf again = BUF_INIT;
	int r = read_procs(dirfd, &again);

	for (int i = 0; i < n; i++) {
		if (r == 0 && is_listed(buf_cstr(&again), held[i].pid))
			syscall(SYS_pidfd_send_signal, held[i].fd, SIGKILL, NULL, 0);
		fd_close(held[i].fd);
	}
	return r;
}

/* Signals all that are there now. Returns how many there were. */
static int kill_round(int dirfd)
{
	autobuf struct buf procs = BUF_INIT;
	struct held held[BATCH];
	const char *p;
	int total = 0, n = 0, r = read_procs(dirfd, &procs);

	for (p = buf_cstr(&procs); r == 0 && *p;) {
		uint64_t pid = next_pid(&p);

		total++;
		held[n] = (struct held){ pid, pid > 1 ? (int)syscall(SYS_pidfd_open, (pid_t)pid, 0) : -1 };
		n += held[n].fd >= 0;
		if (n == BATCH || (n && !*p)) {
			r = kill_held(dirfd, held, n);
			n = 0;
		}
	}
	return r < 0 ? r : total;
}

static int freeze_v2_or_v1(const struct cgroup *cg, bool on)
{
	int dirfd = cg->dirfd[CGROUP_FREEZER];

	if (dirfd < 0)
		return -EOPNOTSUPP;
	return cg->unified[CGROUP_FREEZER] ? cgroup_v2_freeze(dirfd, on) : cgroup_v1_freeze(dirfd, on);
}

/* Forbids forks by a pids limit. That raises the counter of refused forks, so its old value is saved. */
static void forbid_forks(struct cgroup *cg)
{
	int dirfd = cg->dirfd[CGROUP_PIDS];

	if (dirfd < 0 || cg->choked)
		return;
	cgroup_read_key(dirfd, "pids.events", "max", &cg->refused);
	cg->choked = true;
	(void)cgroup_write(dirfd, "pids.max", "0");
}

int cgroup_kill_each(struct cgroup *cg)
{
	uint64_t end = clock_nsec(CLOCK_MONOTONIC) + CGROUP_KILL_NS;
	struct timespec pause = { .tv_nsec = NSEC_PER_MSEC / 5 };
	int dirfd = -1, n;

	for (int k = 0; k < CGROUP_CTL_COUNT && dirfd < 0; k++)
		dirfd = cg->dirfd[k];
	if (dirfd < 0)
		return 0;
	for (n = kill_round(dirfd); n > 0; n = kill_round(dirfd)) {
		if (clock_nsec(CLOCK_MONOTONIC) > end)
			return -ETIMEDOUT;
		if (freeze_v2_or_v1(cg, true) < 0)
			forbid_forks(cg);
		n = kill_round(dirfd);
		if (cg->dirfd[CGROUP_FREEZER] >= 0)
			(void)!freeze_v2_or_v1(cg, false);
		if (n <= 0)
			break;
		nanosleep(&pause, NULL);
	}
	return n;
}
