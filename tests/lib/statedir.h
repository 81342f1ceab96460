/* SPDX-License-Identifier: Apache-2.0 */
/* A state directory of a test's own, and processes that share it. */
#ifndef TESTS_STATEDIR_H
#define TESTS_STATEDIR_H

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "sandbox/state/state.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char dir[64];

__attribute__((unused)) static bool same(const char *a, const char *b)
{
	if (a && b && strcmp(a, b) == 0)
		return true;
	printf("# got '%s', wanted '%s'\n", a ? a : "(null)", b ? b : "(null)");
	return false;
}

__attribute__((unused)) static void pause_ms(unsigned ms)
{
	struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000 };

	nanosleep(&t, NULL);
}

static void begin(struct state *st)
{
	char path[128];
	struct err e = ERR_INIT;

	strcpy(dir, "/tmp/test_state-XXXXXX");
	CHECKF(mkdtemp(dir) != NULL, "a place to test in: %s", dir);
	snprintf(path, sizeof(path), "%s/deep/er/state", dir);
	setenv("COFFER_STATE", path, 1);
	*st = STATE_INIT;
	CHECKF(state_open(st, &e) == 0, "the state directory is made %s", e.msg);
	CHECK(same(st->path, path));
}

static void end(struct state *st)
{
	struct err e = ERR_INIT;

	state_release(st);
	CHECKF(fd_rm_rf(AT_FDCWD, dir, &e) == 0, "the place is removed %s", e.msg);
}

/* Runs a test in a process of its own, which says by its exit code how many checks failed. */
__attribute__((unused)) static pid_t fork_child(void)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid;
}

__attribute__((unused)) static int reap(pid_t pid)
{
	int status = -1;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

__attribute__((unused)) static void make_run(struct state *st, const char *id)
{
	CHECKF(mkdirat(st->runs_fd, id, 0700) == 0, "run %s is made", id);
	pause_ms(15); /* the clock of a file system ticks slower than we do */
}

#endif
