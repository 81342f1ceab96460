/* SPDX-License-Identifier: Apache-2.0 */
/* coffer stop: asks the launcher to send SIGTERM to the sandbox's command, and SIGKILL to everything in it
 * after a grace period. No signal is sent from here: only the launcher knows which processes belong to the
 * sandbox. */
#include "cli/box/cmd_stop.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "cli/core/ref.h"
#include "cli/core/say.h"
#include "cli/core/verb.h"

#include <errno.h>
#include <time.h>

enum { OPT_TIME = 1 };

#define GRACE_MAX_MS 3600000
#define CLEANUP_NS (30 * NSEC_PER_SEC) /* how long the launcher may take to clean up */

static const struct opt stop_opts[] = {
	{ "time", 't', "SECONDS", "time to wait before killing it (default: 10)", OPT_TIME },
};

/* The launcher closes the link before it cleans up. The run is over when no process holds the lock of its
 * directory. */
static int wait_for_cleanup(struct ref *ref, struct err *e)
{
	uint64_t until = clock_nsec(CLOCK_MONOTONIC) + CLEANUP_NS;

	for (;;) {
		const struct timespec pause = { .tv_nsec = 5 * (long)NSEC_PER_MSEC };
		bool alive = false;
		int fd = state_run_open(&ref->st, ref->id, &alive, e);

		if (fd == -ENOENT)
			return 0; /* a run without changes removes its directory */
		if (fd < 0)
			return fd;
		fd_close(fd);
		if (!alive)
			return 0;
		if (clock_nsec(CLOCK_MONOTONIC) > until)
			return err_set(e, -ETIMEDOUT,
				       "sandbox %s has ended, but its cleanup is not finished after 30 s",
				       ref->id);
		nanosleep(&pause, NULL);
	}
}

/* Marks a run with a restart policy as over before it is stopped. cofferd checks the mark after it has taken
 * the run's lock, so it cannot miss it. */
static int prevent_restart(struct ref *ref, bool *ret_kept, struct err *e)
{
	CLEANUP(state_meta_release) struct run_meta m = { 0 };

	*ret_kept = state_meta_read(ref->run_fd, &m, NULL) == 0 && m.restart;
	return *ret_kept ? state_run_set_over(ref->run_fd, e) : 0;
}

/* A live run whose launcher does not accept a connection is just starting or just ending; the request is
 * retried. */
static int send_stop(struct ref *ref, const char *text, uint32_t grace_ms, struct err *e)
{
	uint64_t until = clock_nsec(CLOCK_MONOTONIC) + CLEANUP_NS;
	bool alive = true;
	int r = 0;

	while (alive && clock_nsec(CLOCK_MONOTONIC) < until) {
		const struct timespec pause = { .tv_nsec = 5 * (long)NSEC_PER_MSEC };
		autolink struct run_link l = RUN_LINK_INIT;
		int fd;

		r = ref_link(ref, text, &l, e);
		if (r == 0)
			return run_link_stop(&l, grace_ms, e);
		if (r != -ENOENT && r != -ECONNREFUSED)
			return r;
		nanosleep(&pause, NULL);
		fd = state_run_open(&ref->st, ref->id, &alive, e);
		if (fd < 0)
			return fd == -ENOENT ? 0 : fd;
		fd_close(fd);
	}
	return 0;
}

int cli_stop_one(const char *text, uint32_t grace_ms, struct err *e)
{
	autoref struct ref ref = REF_INIT;
	bool kept = false;
	int r = ref_open(&ref, text, e);

	if (r == 0)
		r = prevent_restart(&ref, &kept, e);
	if (r < 0)
		return r;
	/* It may have been started between ref_open() and the mark. */
	if (!ref.alive && kept) {
		int fd = state_run_open(&ref.st, ref.id, &ref.alive, e);

		if (fd < 0)
			return fd;
		fd_close(fd);
	}
	if (!ref.alive) {
		say_note("sandbox %s is not running%s", text, kept ? ", and will not be started again" : "");
		return 0;
	}
	r = send_stop(&ref, text, grace_ms, e);
	return r < 0 ? r : wait_for_cleanup(&ref, e);
}

int cli_stop_parse_grace(const char *text, uint32_t *ret, struct err *e)
{
	uint64_t ns;

	if (str_to_nsec(text, &ns) < 0 || ns / NSEC_PER_MSEC > GRACE_MAX_MS)
		return err_set(e, -EINVAL, "'%.100s' is not a time to wait: a number of seconds up to 3600",
			       text);
	*ret = (uint32_t)(ns / NSEC_PER_MSEC);
	return 0;
}

static int cmd_stop(int argc, char **argv)
{
	struct optparse p = OPTPARSE_MIXED(argc, argv, stop_opts, ARRAY_SIZE(stop_opts));
	uint32_t grace = STOP_GRACE_DEFAULT_MS;
	struct err e = ERR_INIT;
	const char *value;
	int id, code = 0;

	while ((id = opt_next(&p, &value, &e)) > 0) {
		if (id == OPT_HELP)
			return verb_print_help(&verb_stop);
		if (cli_stop_parse_grace(value, &grace, &e) < 0)
			return say_usage(&verb_stop, &e);
	}
	if (id == 0 && p.index >= p.argc)
		id = err_set(&e, -EINVAL, "stop needs a sandbox: its name, id or @last");
	if (id < 0)
		return say_usage(&verb_stop, &e);
	for (int i = p.index; i < p.argc; i++) {
		e = ERR_INIT;
		if (cli_stop_one(p.argv[i], grace, &e) < 0)
			code = say_error(&e);
		else if (p.argc - p.index > 1)
			say_note("sandbox %s is stopped", p.argv[i]);
	}
	return code;
}

const struct verb verb_stop = {
	.name = "stop",
	.group = VERB_MANAGE,
	.synopsis = "[OPTIONS] REF…",
	.help = "stop sandboxes",
	.opts = stop_opts,
	.n_opts = ARRAY_SIZE(stop_opts),
	.run = cmd_stop,
	.text = "Sends SIGTERM to the sandbox's command, and kills everything in the sandbox if it has "
		"not ended after ten seconds, or after the time of *-t*; *-t 0* kills at once. It "
		"returns when the sandbox has ended and its cleanup is done. Changes to the workspace "
		"are kept for *coffer diff* and *coffer apply*. With several names, a line names each sandbox "
		"that is stopped. A sandbox with a restart policy is not "
		"started again.",
	.examples = "coffer stop -t 2 web db\n",
	.args = "sandbox",
};
