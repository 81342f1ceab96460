/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts and reaps `coffer notify-asks` for an ask server (asknotify.h). A failure here never affects an ask.
 */
#include "approval/server/asknotify.h"

#include "base/clock.h"
#include "base/fd.h"
#include "config/notify_file.h"
#include "sys/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
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

/* Executes this same program, with the environment of the ask server but without its terminal and descriptors.
 * It follows the run's asks until they have no server any more, so it outlives the guard to report the last. */
static int start_notify_asks(const struct state *st, const char *run_id, uint64_t number, struct spawned *ret)
{
	static const char *const not [] = { "COFFER_STATE" };
	autoclose int exe = open("/proc/self/exe", O_PATH | O_CLOEXEC);
	char text[24], *argv[] = { (char *)"coffer", (char *)"notify-asks", (char *)run_id, text, NULL };
	const int fds[] = { SPAWN_NULL, SPAWN_NULL, SPAWN_NULL };
	autostrv struct strv env = STRV_INIT;
	struct spawn s = { .exe = exe,
			   .argv = argv,
			   .fds = fds,
			   .n_fds = ARRAY_SIZE(fds),
			   .flags = SPAWN_SAME_ID | SPAWN_OUTLIVES | SPAWN_KEEP_CWD | SPAWN_KEEP_UMASK |
				    SPAWN_SESSION };

	snprintf(text, sizeof(text), "%llu", (unsigned long long)number);
	if (exe < 0 || spawn_env_but(&env, not, ARRAY_SIZE(not )) < 0 ||
	    strv_addf(&env, "COFFER_STATE=%s", st->path) < 0)
		return -ENOMEM;
	s.env = env.v;
	return spawn_start(&s, ret, NULL);
}

void asknotify_question(struct asknotify *n, struct loop *l, const struct state *st,
			const char run_id[RUN_ID_LEN + 1], uint64_t number)
{
	uint64_t now = clock_nsec(CLOCK_MONOTONIC);
	struct spawned got = SPAWNED_INIT;

	n->loop = l;
	if (n->pid >= 0 || (n->since && now - n->since < AGAIN_AFTER) || !config_notify_is_there())
		return;
	n->since = now;
	if (start_notify_asks(st, run_id, number, &got) < 0)
		return;
	n->w = (struct watch){ .fd = got.pidfd, .fn = on_notifier_end, .ctx = n };
	n->pid = got.pid;
	if (loop_watch(l, &n->w, EPOLLIN) < 0)
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
