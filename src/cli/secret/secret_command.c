/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a command whose output becomes a secret's value. The command runs to its end before anything reads
 * its output: one that fails, prints too much or does not end gives no value. No byte of the output passes
 * through this process: it waits in one pipe and is spliced into a second one, which is certain to end even
 * if another process still holds the first one open.
 *
 * The command is a process group of its own, which is killed as a whole. On a terminal it runs in the
 * foreground, because some commands prompt there.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "cli/secret/cmd_secret.h"
#include "sys/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIMIT_S 60
#define LOOK_MS 100
#define PIPE_SIZE (2 * VAULT_SECRET_MAX)

struct command {
	pid_t pid;
	int pidfd;
	int out;      /* read end of its output */
	int terminal; /* the terminal whose foreground it is; -1: none */
};

static void set_foreground_group(int terminal, pid_t group)
{
	void (*was)(int) = signal(SIGTTOU, SIG_IGN);

	(void)!tcsetpgrp(terminal, group);
	signal(SIGTTOU, was);
}

static int make_value_pipe(int p[2], struct err *e)
{
	if (pipe2(p, O_CLOEXEC) < 0)
		return err_sys(e, -errno, "cannot make a pipe");
	/* If the kernel refuses this size, only output longer than the smaller pipe is refused. */
	(void)!fcntl(p[1], F_SETPIPE_SZ, PIPE_SIZE);
	return 0;
}

/*
 * The caller's own command, with the identity, environment, directory and umask that it would have in their
 * shell.
 */
static int start_secret_command(struct command *c, const char *command, struct err *e)
{
	char *argv[] = { (char *)"sh", (char *)"-c", (char *)command, NULL };
	int p[2], fds[] = { SPAWN_NULL, SPAWN_NULL, 2 }, r = make_value_pipe(p, e);
	struct spawn s = { .name = "the command",
			   .path = "/bin/sh",
			   .argv = argv,
			   .env = environ,
			   .fds = fds,
			   .n_fds = ARRAY_SIZE(fds),
			   .flags = SPAWN_SAME_ID | SPAWN_MAY_GAIN | SPAWN_KEEP_CWD | SPAWN_KEEP_UMASK |
				    SPAWN_GROUP };
	struct spawned got = SPAWNED_INIT;

	if (r < 0)
		return r;
	c->terminal = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
	if (c->terminal >= 0 && tcgetpgrp(c->terminal) != getpgrp())
		c->terminal = fd_close(c->terminal);
	if (c->terminal >= 0) {
		s.terminal = c->terminal;
		s.flags |= SPAWN_FOREGROUND;
	}
	fds[1] = p[1];
	r = spawn_start(&s, &got, e);
	fd_close(p[1]);
	c->out = p[0];
	if (r < 0)
		return r;
	c->pid = got.pid;
	c->pidfd = got.pidfd;
	return 0;
}

/*
 * Waits for the command's end. A pipe that fills up meanwhile means that it prints more than a secret may
 * hold.
 */
static int wait_for_command(const struct command *c, struct err *e)
{
	struct pollfd p = { .fd = c->pidfd, .events = POLLIN };
	uint64_t end = clock_nsec(CLOCK_MONOTONIC) + LIMIT_S * NSEC_PER_SEC;
	int size = fcntl(c->out, F_GETPIPE_SZ), have = 0;

	while (poll(&p, 1, LOOK_MS) != 1) {
		if (ioctl(c->out, FIONREAD, &have) == 0 && size > 0 && have >= size)
			return err_set(e, -EFBIG, "the command prints more than %u KiB: nothing was changed",
				       VAULT_SECRET_MAX >> 10);
		if (clock_nsec(CLOCK_MONOTONIC) < end)
			continue;
		err_set(e, -ETIMEDOUT,
			"the command did not end within %d seconds: it was killed, and nothing was changed",
			LIMIT_S);
		return err_hint(e, -ETIMEDOUT,
				"pipe its output in, which has no limit: CMD | coffer secret rotate NAME -");
	}
	return 0;
}

/* Kills the group before the leader is reaped, while its number cannot belong to another group yet. */
static int reap_command(struct command *c)
{
	int status = 0;
	pid_t pid;

	if (c->pid <= 0)
		return 0;
	kill(-c->pid, SIGKILL);
	kill(c->pid, SIGKILL);
	do {
		pid = waitpid(c->pid, &status, 0);
	} while (pid < 0 && errno == EINTR);
	if (pid < 0)
		status = SPAWN_STATUS_UNKNOWN;
	if (c->terminal >= 0)
		set_foreground_group(c->terminal, getpgrp());
	c->pid = 0;
	return status;
}

static void command_release(struct command *c)
{
	(void)reap_command(c);
	fd_close(c->pidfd);
	fd_close(c->out);
	fd_close(c->terminal);
}

/* A command that failed gives no value, whatever it printed. */
static int check_command_status(int status, struct err *e)
{
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	if (WIFEXITED(status))
		return err_set(e, -EIO, "the command failed with exit code %d: nothing was changed",
			       WEXITSTATUS(status));
	return err_set(e, -EIO, "the command was ended by signal %d: nothing was changed", WTERMSIG(status));
}

static int splice_output(int from, int *ret, struct err *e)
{
	int p[2], have = 0, r = make_value_pipe(p, e);

	if (r < 0)
		return r;
	while (r == 0 && ioctl(from, FIONREAD, &have) == 0 && have > 0) {
		if (splice(from, NULL, p[1], NULL, (size_t)have, SPLICE_F_NONBLOCK | SPLICE_F_MOVE) <= 0 &&
		    errno != EINTR)
			r = err_sys(e, -errno, "cannot pass the command's output to the vault");
	}
	fd_close(p[1]);
	if (r < 0)
		fd_close(p[0]);
	else
		*ret = p[0];
	return r;
}

int cli_secret_run_command(const char *command, int *ret, struct err *e)
{
	CLEANUP(command_release) struct command c = { .pidfd = -1, .out = -1, .terminal = -1 };
	int r = start_secret_command(&c, command, e), status;

	if (r == 0)
		r = wait_for_command(&c, e);
	status = reap_command(&c);
	if (r == 0 && c.terminal >= 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGINT)
		raise(SIGINT); /* ^C was meant for this process, too */
	if (r == 0)
		r = check_command_status(status, e);
	return r < 0 ? r : splice_output(c.out, ret, e);
}
