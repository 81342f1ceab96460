/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Restarts of detached sandboxes: registers one with cofferd, and starts a kept one again for `coffer start`
 * and for cofferd. The run's lock is taken first and passed to the new launcher, so that two processes never
 * start the same sandbox.
 */
#include "cli/run/run_restart.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "checkpoint/checkpoint.h"
#include "cli/box/cmd_stop.h"
#include "cli/core/say.h"
#include "cli/run/run_again.h"
#include "cofferdc/cofferd_client.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>

bool cli_run_restart_is_wanted(const char *policy)
{
	return policy && !str_eq(policy, "no");
}

int cli_run_restart_keep(const char *id)
{
	CLEANUP(state_release) struct state st = STATE_INIT;
	struct err e = ERR_INIT, stopping = ERR_INIT;

	if (state_open(&st, &e) == 0 && cofferd_keep(&st, id, &e) == 0)
		return 0;
	if (cli_stop_one(id, 0, &stopping) < 0)
		say_warn("%s could not be stopped: %s", id, stopping.msg);
	err_wrap(&e, e.code, "the sandbox cannot be registered for restarts, so it was stopped");
	return say_error(&e);
}

/* Reads the record and the command line of a run that we hold the lock of. Returns 1 if it is not to be
 * started any more. */
static int read_for_restart(struct state *st, const char *id, int fd, struct run_start *s, struct run_meta *m,
			    struct err *e)
{
	int r;

	if (state_run_is_over(fd))
		return 1;
	r = ckpt_recover(st, id, fd, e);
	if (r == 0)
		r = state_meta_read(fd, m, e);
	if (r == 0 && !m->restart)
		return 1;
	return r < 0 ? r : cli_run_start_read(fd, s, e);
}

#define CLAIM_TRIES 50
#define CLAIM_PAUSE (20 * (long)NSEC_PER_MSEC)

/* Another coffer that starts a sandbox at this moment may hold the lock while it cleans up after the run that
 * ended. */
static int claim_run_with_retry(struct state *st, const char *id, struct err *e)
{
	int fd = state_run_claim(st, id, e);

	for (int i = 0; fd == -EBUSY && i < CLAIM_TRIES; i++) {
		nanosleep(&(struct timespec){ .tv_nsec = CLAIM_PAUSE }, NULL);
		*e = ERR_INIT;
		fd = state_run_claim(st, id, e);
	}
	return fd;
}

/* Opens the state and the audit log, and ends runs that a crash left unfinished. */
static int open_state_and_log(struct state *st, struct audit **ret, struct err *e)
{
	/* The kernel sends SIGIO when a file lease of ours is broken (scan.c); by default it would end this
	 * process. */
	signal(SIGIO, SIG_IGN);
	return state_open(st, e) < 0 || audit_open(ret, st->fd, e) < 0 || run_sweep(st, *ret, e) < 0 ? -EIO
												     : 0;
}

static int start_claimed_run(struct state *st, const char *id, int fd, char ret_id[RUN_ID_LEN + 1])
{
	CLEANUP(cli_run_start_release) struct run_start s = { 0 };
	CLEANUP(state_meta_release) struct run_meta m = { 0 };
	struct run_again how = { .origin = { .kind = RUN_RESUMED, .dir_fd = fd }, .id = id };
	struct err e = ERR_INIT;
	int r = ckpt_recover(st, id, fd, &e), code;

	if (r == 0)
		r = state_meta_read(fd, &m, &e);
	if (r == 0)
		r = cli_run_start_read(fd, &s, &e);
	if (r == 0)
		r = state_run_clear_over(fd, &e);
	if (r < 0)
		return say_error(&e);
	how.origin.started = m.started;
	how.restarts = m.restarts;
	how.workspace = m.workspace;
	how.engine = m.engine;
	code = cli_run_again(&s, &how, ret_id);
	return code == 0 && cli_run_restart_is_wanted(m.restart) ? cli_run_restart_keep(id) : code;
}

int cli_run_restart_start(const char *ref, char ret_id[RUN_ID_LEN + 1])
{
	CLEANUP(state_release) struct state st = STATE_INIT;
	CLEANUP(audit_freep) struct audit *a = NULL;
	struct err e = ERR_INIT;
	char id[RUN_ID_LEN + 1];
	autoclose int fd = -1;

	if (open_state_and_log(&st, &a, &e) < 0 || state_resolve(&st, ref, id, &e) < 0)
		return say_error(&e);
	memcpy(ret_id, id, sizeof(id));
	fd = claim_run_with_retry(&st, id, &e);
	if (fd == -EBUSY) {
		say_note("sandbox %s runs already", ref);
		return 0;
	}
	return fd < 0 ? say_error(&e) : start_claimed_run(&st, id, fd, ret_id);
}

int cli_run_restart_again(const char *id)
{
	CLEANUP(state_release) struct state st = STATE_INIT;
	CLEANUP(audit_freep) struct audit *a = NULL;
	CLEANUP(cli_run_start_release) struct run_start s = { 0 };
	CLEANUP(state_meta_release) struct run_meta m = { 0 };
	char got[RUN_ID_LEN + 1];
	struct run_again how = { .origin = { .kind = RUN_RESUMED, .dir_fd = -1 }, .id = id };
	struct err e = ERR_INIT;
	autoclose int fd = -1;
	int r;

	if (open_state_and_log(&st, &a, &e) < 0)
		return say_error(&e);
	fd = claim_run_with_retry(&st, id, &e);
	if (fd == -EBUSY || fd == -ENOENT)
		return 0;
	r = fd < 0 ? fd : read_for_restart(&st, id, fd, &s, &m, &e);
	if (r != 0)
		return r > 0 ? 0 : say_error(&e);
	how.origin.dir_fd = fd;
	how.origin.started = m.started;
	how.restarts = m.restarts + 1;
	how.workspace = m.workspace;
	how.engine = m.engine;
	return cli_run_again(&s, &how, got);
}
