/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stopping a process tree with signals, from the top down, round by round until a round finds nothing that runs.
 * A pid is signalled only through a pidfd whose birth time was checked, because numbers are reused.
 */
#include "sys/proctree.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#define STOP_NS (1 * NSEC_PER_SEC)
#define LIST_MAX (1u << 20)
/* Fields of /proc/PID/stat after the name: the state, the parent, and the start time, which is field 22. */
#define FIELDS " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu"

struct member {
	pid_t pid;
	uint64_t born; /* tells it from a later process with the same pid */
};

struct status {
	char state;
	pid_t parent;
	uint64_t born;
};

/* Reads the status of a process or thread. The process chooses its name, so parsing starts after the last ")". */
static int read_status(const char *path, struct status *ret)
{
	autobuf struct buf b = BUF_INIT;
	int r = fd_read_file(AT_FDCWD, path, 4096, &b), parent;
	unsigned long long born;
	const char *p;

	if (r < 0)
		return r;
	p = strrchr(buf_cstr(&b), ')');
	if (!p)
		return -EBADMSG;
	/* The kernel wrote these fields, so their numbers fit. */
	// NOLINTNEXTLINE(cert-err34-c)
	r = sscanf(p + 1, FIELDS, &ret->state, &parent, &born);
	if (r != 3)
		return -EBADMSG;
	ret->parent = parent;
	ret->born = born;
	return 0;
}

static int status_of(pid_t pid, struct status *ret)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	return read_status(path, ret);
}

/* Signals through a pidfd, after a check of the start time that the pid still belongs to this process. */
static int signal_member(const struct member *m, int sig)
{
	autoclose int fd = (int)syscall(SYS_pidfd_open, m->pid, 0);
	struct status s;

	if (fd < 0)
		return -errno;
	if (status_of(m->pid, &s) < 0 || s.born != m->born)
		return -ESRCH;
	return syscall(SYS_pidfd_send_signal, fd, sig, NULL, 0) < 0 ? -errno : 0;
}

static bool is_stopped_or_dead(char state)
{
	return state == 'T' || state == 't' || state == 'Z' || state == 'X';
}

/* Calls fn for each thread of a process. Stops at a result that is not 0 and returns it. */
static int each_thread(pid_t pid, int (*fn)(void *ctx, pid_t pid, const char *tid), void *ctx)
{
	char path[64];
	autoclosedir DIR *d = NULL;
	const struct dirent *de;
	int r = 0;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	d = opendir(path);
	if (!d)
		return errno == ENOENT || errno == ESRCH ? 0 : -errno;
	while (r == 0 && (de = readdir(d))) {
		if (de->d_name[0] != '.')
			r = fn(ctx, pid, de->d_name);
	}
	return r;
}

static int is_thread_running(void *ctx, pid_t pid, const char *tid)
{
	char path[320];
	struct status s;

	(void)ctx;
	snprintf(path, sizeof(path), "/proc/%d/task/%s/stat", pid, tid);
	return read_status(path, &s) == 0 && !is_stopped_or_dead(s.state);
}

static int wait_until_stopped(pid_t pid, uint64_t until)
{
	struct timespec pause = { .tv_nsec = 50000 };
	int r;

	while ((r = each_thread(pid, is_thread_running, NULL)) == 1) {
		if (clock_nsec(CLOCK_MONOTONIC) > until)
			return -ETIMEDOUT;
		nanosleep(&pause, NULL);
	}
	return r;
}

struct todo {
	struct buf pids; /* pid_t, to be visited */
};

static int queue_children(void *ctx, pid_t pid, const char *tid)
{
	autobuf struct buf b = BUF_INIT;
	struct todo *t = ctx;
	char path[320];
	int r;

	snprintf(path, sizeof(path), "/proc/%d/task/%s/children", pid, tid);
	r = fd_read_file(AT_FDCWD, path, LIST_MAX, &b);
	if (r == -ENOENT || r == -ESRCH)
		return access("/proc/self/task", F_OK) < 0 || access("/proc/thread-self/children", F_OK) < 0
			       ? -EOPNOTSUPP
			       : 0;
	for (const char *p = buf_cstr(&b); r == 0 && *p;) {
		pid_t child = (pid_t)strtol(p, (char **)&p, 10);

		p += *p == ' ';
		if (child > 0)
			buf_add(&t->pids, &child, sizeof(child));
		else
			break;
	}
	return r < 0 ? r : buf_error(&t->pids);
}

static bool is_stopped_by_us(const struct proctree *t, const struct member *m)
{
	const struct member *v = (const struct member *)(const void *)t->stopped.data;

	for (size_t i = 0; i < t->stopped.len / sizeof(*v); i++) {
		if (v[i].pid == m->pid && v[i].born == m->born)
			return true;
	}
	return false;
}

/* Stops one process and records it, unless it was stopped already. Then queues its children: it can fork no more. */
static int stop_one(struct proctree *t, pid_t pid, uint64_t until, struct todo *todo, bool *ret_new)
{
	struct member m = { .pid = pid };
	struct status s;
	int r = status_of(pid, &s);

	if (r < 0)
		return r == -ENOENT || r == -ESRCH ? 0 : r;
	m.born = s.born;
	/* A process that we stopped may have been continued by another one of the tree since. */
	if (!is_stopped_or_dead(s.state)) {
		r = signal_member(&m, SIGSTOP);
		if (r == -ESRCH)
			return 0;
		if (r < 0)
			return r;
		if (!is_stopped_by_us(t, &m))
			buf_add(&t->stopped, &m, sizeof(m));
		if (buf_error(&t->stopped))
			return -ENOMEM;
		*ret_new = true;
	}
	r = wait_until_stopped(pid, until);
	return r < 0 ? r : each_thread(pid, queue_children, todo);
}

/* One walk over the tree; *ret_new tells whether a running process was found. */
static int stop_round(struct proctree *t, pid_t top, uint64_t until, bool *ret_new)
{
	struct todo todo = { 0 };
	int r = 0;

	buf_add(&todo.pids, &top, sizeof(top));
	for (size_t i = 0; r == 0 && i < todo.pids.len / sizeof(pid_t); i++) {
		pid_t pid;

		memcpy(&pid, todo.pids.data + i * sizeof(pid), sizeof(pid));
		r = stop_one(t, pid, until, &todo, ret_new);
	}
	buf_release(&todo.pids);
	return r;
}

int proctree_stop(struct proctree *t, pid_t top, struct err *e)
{
	uint64_t until = clock_nsec(CLOCK_MONOTONIC) + STOP_NS;
	bool found = true;
	int r = 0;

	while (r == 0 && found) {
		found = false;
		r = stop_round(t, top, until, &found);
		if (r == 0 && found && clock_nsec(CLOCK_MONOTONIC) > until)
			r = -ETIMEDOUT;
	}
	if (r < 0) {
		proctree_continue(t);
		return err_sys(e, r, "cannot stop all processes of the sandbox");
	}
	return 0;
}

void proctree_continue(struct proctree *t)
{
	const struct member *v = (const struct member *)(const void *)t->stopped.data;

	for (size_t i = t->stopped.len / sizeof(*v); i-- > 0;)
		(void)!signal_member(&v[i], SIGCONT);
	buf_release(&t->stopped);
}
