/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A real coffer-init as a child of the test, and a blocking client of its protocol. It runs as an ordinary process,
 * or as pid 1 of a pid namespace of its own where the test may make one.
 */
#ifndef TESTS_INITPROC_H
#define TESTS_INITPROC_H

#include "base/cleanup.h"
#include "ipc/conn.h"
#include "sandbox/init/proto.h"

#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct initproc {
	pid_t pid;
	int pidfd;
	int fd; /* our end of the stream */
	struct conn c;
	uint32_t chan;
};

/* The one that was built beside this test: build/tests/unit/test_x and build/coffer-init; in a sanitizer build the one that
 * has sanitizers. */
__attribute__((unused)) static const char *initproc_path(void)
{
	static char path[PATH_MAX];
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (getenv("COFFER_INIT"))
		return getenv("COFFER_INIT");
	if (n < 0)
		return "coffer-init";
	self[n] = '\0';
	snprintf(path, sizeof(path), "%s/../../coffer-init-checked", dirname(self));
	if (access(path, X_OK) < 0)
		path[strlen(path) - strlen("-checked")] = '\0';
	return path;
}

_Noreturn static void initproc_child(int stream, const char *path)
{
	static char *const argv[] = { (char *)"coffer-init", NULL };
	static char *const env[] = { NULL };
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int fd = 0; fd < 3; fd++)
		dup2(null, fd);
	/* dup2() onto itself would keep close-on-exec. */
	if (stream == 3)
		fcntl(3, F_SETFD, 0);
	else
		dup2(stream, 3);
	signal(SIGINT, SIG_IGN); /* as nohup would; it must not reach commands */
	execve(path, argv, env);
	_exit(111);
}

/* clone_flags: 0, or CLONE_NEWPID. */
__attribute__((unused)) static bool initproc_start(struct initproc *p, unsigned long clone_flags)
{
	int sv[2];
	const char *path = initproc_path();

	*p = (struct initproc){ .pid = -1, .pidfd = -1, .fd = -1 };
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) < 0)
		return false;
	p->pid = (pid_t)syscall(SYS_clone, clone_flags | SIGCHLD, 0, 0, 0, 0);
	if (p->pid == 0)
		initproc_child(sv[1], path);
	close(sv[1]);
	if (p->pid < 0) {
		close(sv[0]);
		return false;
	}
	fcntl(sv[0], F_SETFL, O_NONBLOCK);
	p->pidfd = (int)syscall(SYS_pidfd_open, p->pid, 0);
	p->fd = sv[0];
	conn_init(&p->c, p->fd);
	return true;
}

/* Its exit status (or -signal), waited for. */
__attribute__((unused)) static int initproc_wait(struct initproc *p)
{
	int st = 0;

	if (p->pid > 0 && waitpid(p->pid, &st, 0) != p->pid)
		return -1000;
	p->pid = -1;
	return WIFEXITED(st) ? WEXITSTATUS(st) : -WTERMSIG(st);
}

__attribute__((unused)) static void initproc_end(struct initproc *p)
{
	conn_release(&p->c);
	if (p->fd >= 0)
		close(p->fd);
	if (p->pid > 0) {
		kill(p->pid, SIGKILL);
		waitpid(p->pid, NULL, 0);
	}
	if (p->pidfd >= 0)
		close(p->pidfd);
	*p = (struct initproc){ .pid = -1, .pidfd = -1, .fd = -1 };
}

/* The next frame within a minute: 1; 0 at the end of the stream; -1 when nothing came. */
__attribute__((unused)) static int initproc_recv(struct initproc *p, struct frame *f)
{
	for (;;) {
		struct pollfd pfd = { .fd = p->fd, .events = POLLIN };
		int r = conn_next(&p->c, f);

		if (r != 0)
			return r;
		r = conn_flush(&p->c);
		if (r > 0)
			pfd.events |= POLLOUT;
		if (poll(&pfd, 1, 60000) <= 0)
			return -1;
		if (pfd.revents & (POLLIN | POLLHUP | POLLERR) && conn_fill(&p->c) < 0)
			return 0;
	}
}

/* Queues the start of argv (NULL-terminated) and gives its channel. */
__attribute__((unused)) static uint32_t initproc_begin(struct initproc *p, const char *const *argv,
						       const char *cwd, unsigned flags)
{
	struct proto_start s = { .flags = flags, .envc = 2, .rows = 24, .cols = 80 };
	struct buf b = BUF_INIT;

	buf_add(&b, cwd, strlen(cwd) + 1);
	for (; argv[s.argc]; s.argc++)
		buf_add(&b, argv[s.argc], strlen(argv[s.argc]) + 1);
	buf_add(&b, "PATH=/usr/bin:/bin", 19);
	buf_add(&b, "TERM=dumb", 10);
	p->chan++;
	proto_add_data(&p->c.out, PROTO_START_DATA, p->chan, b.data, b.len);
	proto_add_start(&p->c.out, p->chan, &s);
	buf_release(&b);
	return p->chan;
}

#endif
