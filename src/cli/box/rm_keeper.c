/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run --rm: the process that waits for the launcher's end, and then removes the run. It learns the run's id
 * and that end through a pipe, so it works also when the launcher is killed. The signals that end the command
 * must not end this process.
 */
#include "cli/box/cmd_rm.h"

#include "base/fd.h"
#include "cli/core/say.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static int remove_announced_run(int pipe)
{
	CLEANUP(cli_rm_release) struct rm_session s = RM_SESSION_INIT;
	autobuf struct buf id = BUF_INIT;
	struct err e = ERR_INIT;
	int r = fd_read_all(pipe, RUN_ID_LEN, &id);

	if (r == 0 && id.len == 0) /* there was no run */
		return 0;
	if (r == 0)
		r = cli_rm_open(&s, &e);
	if (r == 0)
		r = cli_rm_run(&s, buf_cstr(&id), true, &e);
	return r < 0 ? say_error(&e) : 0;
}

/* The signals by which a terminal ends the command must not end this process, which has to remove the run
 * after that. */
static _Noreturn void remove_after_launcher(int pipe)
{
	static const int ignored[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };

	for (size_t i = 0; i < ARRAY_SIZE(ignored); i++)
		signal(ignored[i], SIG_IGN);
	_exit(remove_announced_run(pipe));
}

int cli_rm_keeper_start(struct rm_keeper *k, struct err *e)
{
	int p[2];
	pid_t pid;

	if (pipe2(p, O_CLOEXEC) < 0)
		return err_sys(e, -errno, "cannot make a pipe");
	pid = fork();
	if (pid == 0) {
		fd_close(p[1]);
		remove_after_launcher(p[0]);
	}
	fd_close(p[0]);
	if (pid < 0) {
		int r = -errno;

		fd_close(p[1]);
		return err_sys(e, r, "cannot start the process that removes the run");
	}
	*k = (struct rm_keeper){ pid, p[1] };
	return 0;
}

int cli_rm_keeper_tell(const struct rm_keeper *k, const char *id, struct err *e)
{
	int r = fd_write_all(k->pipe, id, RUN_ID_LEN);

	return r < 0 ? err_sys(e, r, "cannot send the run's id to the process that removes it") : 0;
}

int cli_rm_keeper_end(struct rm_keeper *k)
{
	int status = 0;

	fd_close(k->pipe);
	k->pipe = -1;
	while (waitpid(k->pid, &status, 0) < 0) {
		if (errno != EINTR)
			return EXIT_OURS;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_OURS;
}
