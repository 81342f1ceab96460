/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts and reaps `coffer notify-asks` for an ask server (asknotify.h). A failure here never affects an ask.
 */
#include "approval/server/asknotify.h"

#include "base/clock.h"
#include "base/fd.h"
#include "config/notify_file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define AGAIN_AFTER (10 * NSEC_PER_SEC) /* a notifier that dies at once is not restarted for each question */

static void reap_notifier(struct asknotify *n)
{
	siginfo_t si;

	loop_unwatch(n->loop, &n->w);
	while (waitid(P_PIDFD, (id_t)n->w.fd, &si, WEXITED | WNOHANG) < 0 && errno == EINTR)
		;
	n->w.fd = fd_close(n->w.fd);
	n->pid = -1;
}

static void on_notifier_end(struct watch *w, uint32_t events)
{
	(void)events;
	reap_notifier(w->ctx);
}

/* Executes this same program, with the environment of the ask server but without its terminal and
 * descriptors. */
_Noreturn static void exec_notifier(const struct state *st, const char *run_id, uint64_t number)
{
	int exe = open("/proc/self/exe", O_PATH | O_CLOEXEC), null = open("/dev/null", O_RDWR | O_CLOEXEC);
	char text[24], *argv[] = { (char *)"coffer", (char *)"notify-asks", (char *)run_id, text, NULL };
	sigset_t none;

	snprintf(text, sizeof(text), "%llu", (unsigned long long)number);
	if (exe < 0 || null < 0 || setenv("COFFER_STATE", st->path, 1) < 0)
		_exit(126);
	for (int fd = 0; fd < 3; fd++) {
		if (dup2(null, fd) < 0)
			_exit(126);
	}
	if (exe < 3 || dup2(exe, 3) < 0 || fcntl(3, F_SETFD, FD_CLOEXEC) < 0 ||
	    syscall(SYS_close_range, 4, ~0U, 0) < 0)
		_exit(126);
	for (int sig = 1; sig < 32; sig++)
		signal(sig, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setsid();
	syscall(SYS_execveat, 3, "", argv, environ, AT_EMPTY_PATH);
	_exit(127);
}

void asknotify_question(struct asknotify *n, struct loop *l, const struct state *st,
			const char run_id[RUN_ID_LEN + 1], uint64_t number)
{
	uint64_t now = clock_nsec(CLOCK_MONOTONIC);
	pid_t pid;

	n->loop = l;
	if (n->pid >= 0 || (n->since && now - n->since < AGAIN_AFTER) || !notify_conf_is_there())
		return;
	n->since = now;
	pid = fork();
	if (pid == 0)
		exec_notifier(st, run_id, number);
	if (pid < 0)
		return;
	n->w = (struct watch){ .fd = (int)syscall(SYS_pidfd_open, pid, 0), .fn = on_notifier_end, .ctx = n };
	n->pid = pid;
	if (n->w.fd < 0 || fd_set_cloexec(n->w.fd, true) < 0 || loop_watch(l, &n->w, EPOLLIN) < 0)
		asknotify_close(n);
}

void asknotify_close(struct asknotify *n)
{
	if (n->pid >= 0 && n->w.fd >= 0) {
		loop_unwatch(n->loop, &n->w);
		fd_close(n->w.fd);
	}
	*n = ASKNOTIFY_INIT;
}
