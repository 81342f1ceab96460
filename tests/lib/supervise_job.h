/* SPDX-License-Identifier: Apache-2.0 */
/* supervise() in a process of its own, over a real coffer-init that stands in for an engine's, and how it ended. */
#ifndef TESTS_SVJOB_H
#define TESTS_SVJOB_H

#include "base/clock.h"
#include "base/fd.h"
#include "fakekernel.h"
#include "initproc.h"
#include "run/supervise/supervise.h"
#include "tap.h"

#include <errno.h>

static char dir[] = "/tmp/coffer-test-sv-XXXXXX";

/* A supervisor in a process of its own. */
struct job {
	struct spec spec;
	struct supervise_io io;
	const char *fake_init; /* a shell script in the place of coffer-init, its stream on 3 */
	bool refuse_events;
	pid_t pid;
	int result;	     /* pipe with struct run_end */
	int keep[8], n_keep; /* closed in the parent once it runs */
	int ours[8], n_ours; /* closed in the job */
	char events[64];     /* file that gets a line for each event */
};

static int on_event(void *ctx, const char *type, const struct buf *fields)
{
	struct job *j = ctx;
	FILE *f;

	if (j->refuse_events)
		return -EIO;
	f = fopen(j->events, "a");
	fprintf(f, "%s {%s}\n", type, buf_cstr(fields));
	fclose(f);
	return 0;
}

static struct job job_new(const char *const *argv)
{
	struct job j = { .spec = SPEC_INIT, .result = -1, .pid = -1 };
	static int count;

	j.io = (struct supervise_io){ .in = -1,
				      .out = -1,
				      .err = -1,
				      .tty = -1,
				      .log_fd = -1,
				      .alive_fd = -1,
				      .listen_fd = -1,
				      .usage_fd = -1,
				      .usage2_fd = -1,
				      .engine_log = -1,
				      .guard_fd = -1 };
	for (int i = 0; i < LIMIT_COUNT; i++)
		j.spec.limits.l[i].value = LIMIT_NONE;
	for (; *argv; argv++)
		CHECK(strv_add(&j.spec.argv, *argv) == 0);
	CHECK(strv_add(&j.spec.env, "PATH=/usr/bin:/bin") == 0 && strv_add(&j.spec.env, "BASE=1") == 0);
	j.spec.cwd = strdup("/");
	snprintf(j.events, sizeof(j.events), "%s/events.%d", dir, count++);
	return j;
}

#define JOB(...) job_new((const char *const[]){ __VA_ARGS__, NULL })
#define SH(script) JOB("sh", "-c", script)

_Noreturn static void supervisor(struct job *j, int result)
{
	struct initproc p;
	struct engine_run run = ENGINE_RUN_INIT;
	struct cgroup cg = { .name = "fake" };
	struct run_end end = { 0 };
	struct err e = ERR_INIT;
	int r;

	if (j->fake_init) {
		char path[128];

		snprintf(path, sizeof(path), "%s/fake-init", dir);
		if (fd_replace_file(AT_FDCWD, path, j->fake_init, strlen(j->fake_init), 0755) < 0)
			_exit(9);
		setenv("COFFER_INIT", path, 1);
	}
	/* A sanitizer's own handler would otherwise be found there, and left alone. */
	signal(SIGABRT, SIG_DFL);
	/* As pid 1 where that can be had, so that its end is everything's end. */
	if (!initproc_start(&p, geteuid() == 0 ? CLONE_NEWPID : 0))
		_exit(9);
	run.pid = p.pid;
	run.pidfd = p.pidfd;
	run.stream = p.fd;
	if (!j->io.event) {
		j->io.event = on_event;
		j->io.ctx = j;
	}
	r = supervise(&j->spec, &cg, &run, &j->io, &end, &e);
	if (r < 0)
		fprintf(stderr, "# supervise: %s\n", e.msg);
	if (write(result, &end, sizeof(end)) != (ssize_t)sizeof(end) || kill(p.pid, 0) == 0)
		_exit(8);
	_exit(r < 0 ? 7 : 0);
}

static void job_start(struct job *j)
{
	int p[2];

	fflush(stdout);
	if (pipe2(p, O_CLOEXEC) < 0)
		return;
	j->pid = fork();
	if (j->pid == 0) {
		close(p[0]);
		for (int i = 0; i < j->n_ours; i++)
			close(j->ours[i]);
		supervisor(j, p[1]);
	}
	close(p[1]);
	for (int i = 0; i < j->n_keep; i++)
		close(j->keep[i]);
	j->n_keep = 0;
	j->result = p[0];
}

/* Its end; *ret_rc gets the supervisor's own exit status. */
static struct run_end job_wait(struct job *j, int *ret_rc)
{
	struct run_end end = { .cause = CAUSE_COUNT, .exit_code = -1 };
	int st = 0;

	if (read(j->result, &end, sizeof(end)) != (ssize_t)sizeof(end))
		end.cause = CAUSE_COUNT;
	close(j->result);
	waitpid(j->pid, &st, 0);
	if (ret_rc)
		*ret_rc = WIFEXITED(st) ? WEXITSTATUS(st) : -WTERMSIG(st);
	else
		CHECKF(WIFEXITED(st) && WEXITSTATUS(st) == 0, "the supervisor ended well (%d)", st);
	strv_release(&j->spec.argv);
	strv_release(&j->spec.env);
	free(j->spec.cwd);
	free(j->spec.name);
	return end;
}

__attribute__((unused)) static bool is_end(const struct run_end *end, enum run_cause cause, int code)
{
	if (end->cause != cause || end->exit_code != code)
		printf("# cause %s, code %d, broken '%s'\n", run_cause_name(end->cause), end->exit_code,
		       end->broken);
	return end->cause == cause && end->exit_code == code;
}

/* A pipe whose one end the job gets; the other is returned. */
__attribute__((unused)) static int give_pipe(struct job *j, int *slot, bool job_writes)
{
	int p[2];

	if (pipe2(p, O_CLOEXEC) < 0)
		return -1;
	*slot = p[job_writes];
	j->keep[j->n_keep++] = p[job_writes];
	j->ours[j->n_ours++] = p[!job_writes];
	return p[!job_writes];
}

__attribute__((unused)) static void read_all(int fd, struct buf *b)
{
	buf_clear(b);
	CHECK(fd_read_all(fd, 64u << 20, b) == 0);
	close(fd);
}

__attribute__((unused)) static uint64_t since(uint64_t t)
{
	return (clock_nsec(CLOCK_MONOTONIC) - t) / NSEC_PER_MSEC;
}

/* The begin and the end of every program over this. */
static bool supervise_job_begin(void)
{
	signal(SIGPIPE, SIG_IGN);
	return mkdtemp(dir) != NULL;
}

static int supervise_job_done(void)
{
	struct err e = ERR_INIT;

	if (fd_rm_rf(AT_FDCWD, dir, &e) < 0)
		printf("# %s\n", e.msg);
	return tap_done();
}

#endif
