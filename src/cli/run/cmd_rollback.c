/* SPDX-License-Identifier: Apache-2.0 */
/* coffer rollback: takes a sandbox back to a checkpoint, and restarts it if it ran. The files are restored by
 * checkpoint/, which makes the rollback safe against crashes; here it is only requested. */
#include "base/fd.h"
#include "checkpoint/checkpoint.h"
#include "cli/core/say.h"
#include "cli/core/verb.h"
#include "cli/run/run_again.h"
#include "workspace/change/changes.h"

#include <errno.h>
#include <fcntl.h>

enum { OPT_STAY = 1 };

static const struct opt rollback_opts[] = {
	{ "no-start", 0, NULL, "do not start it again", OPT_STAY },
};

struct rollback_job {
	const char *ref, *to;
	bool stay;
};

/* Updates the number of changes that is shown for a sandbox that stays ended. */
static int update_change_count(struct ckpt_run *r, struct err *e)
{
	autoclose int upper = -1, lower = -1;
	uint64_t n = 0;

	if (!r->meta.ended || !r->meta.workspace || r->layers_fd < 0)
		return 0;
	upper = openat(r->layers_fd, "upper", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	lower = open(r->meta.workspace, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (upper < 0 || lower < 0 || workspace_count_changes(upper, BASE_DIR(lower), 1000000, &n, NULL) < 0)
		return 0;
	r->meta.changes = n;
	return state_meta_write(r->run_fd, &r->meta, e);
}

static int start_rolled_back(struct ckpt_run *r, const struct run_start *s)
{
	CLEANUP(state_meta_release) struct run_meta m = { 0 };
	autoclose int fd = fcntl(r->run_fd, F_DUPFD_CLOEXEC, 3);
	char id[RUN_ID_LEN + 1], got[RUN_ID_LEN + 1];
	struct run_again how = { .origin = { .kind = RUN_RESUMED, .dir_fd = fd }, .id = id };
	struct err e = ERR_INIT;

	memcpy(id, r->id, sizeof(id));
	m = r->meta;
	r->meta = (struct run_meta){ 0 };
	/* The launcher may inherit the lock of the run, and no other descriptor of ours. */
	ckpt_release(r);
	if (fd < 0) {
		err_sys(&e, -errno, "cannot hand the run on");
		return say_error(&e);
	}
	how.origin.started = m.started;
	how.restarts = m.restarts;
	how.workspace = m.workspace;
	how.engine = m.engine;
	return cli_run_again(s, &how, got);
}

static int roll_back(const struct rollback_job *job)
{
	CLEANUP(ckpt_release) struct ckpt_run r = CKPT_RUN_INIT;
	CLEANUP(cli_run_start_release) struct run_start s = { 0 };
	struct ckpt_rolled rolled = { 0 };
	const struct ckpt *to = NULL;
	struct err e = ERR_INIT;
	bool again;

	if (ckpt_open(&r, job->ref, true, &e) < 0 || ckpt_find(&r, job->to, &to, &e) < 0)
		return say_error(&e);
	again = r.alive && r.meta.detached && !job->stay;
	/* Before the sandbox is ended, make sure that it can be started again. */
	if (again && cli_run_start_read(r.run_fd, &s, &e) < 0)
		return say_error(&e);
	if (ckpt_rollback(&r, to, &rolled, &e) < 0)
		return say_error(&e);
	if (!again) {
		state_meta_release(&r.meta);
		if (state_meta_read(r.run_fd, &r.meta, &e) < 0 || update_change_count(&r, &e) < 0)
			return say_error(&e);
	} else if (start_rolled_back(&r, &s) != 0) {
		say_warn("%s was rolled back to c%u, but could not be started", job->ref, rolled.to);
		return EXIT_OURS;
	}
	say_note("%s rolled back to c%u%s. To undo: coffer rollback %s c%u", job->ref, rolled.to,
		 again		    ? " and restarted"
		 : rolled.was_alive ? " and ended"
				    : "",
		 job->ref, rolled.undo);
	return 0;
}

static int cmd_rollback(int argc, char **argv)
{
	struct optparse p = OPTPARSE_INIT(argc, argv, rollback_opts, ARRAY_SIZE(rollback_opts));
	struct rollback_job job = { 0 };
	struct err e = ERR_INIT;
	const char *value, *word;
	int id;

	for (;;) {
		while ((id = opt_next(&p, &value, &e)) > 0) {
			if (id == OPT_HELP)
				return verb_print_help(&verb_rollback);
			job.stay = true;
		}
		word = id < 0 ? NULL : opt_take(&p);
		if (!word)
			break;
		if (job.to)
			id = err_set(&e, -EINVAL, "rollback takes one sandbox and one checkpoint");
		else if (job.ref)
			job.to = word;
		else
			job.ref = word;
		if (id < 0)
			break;
	}
	if (id == 0 && !job.ref)
		id = err_set(&e, -EINVAL, "rollback needs a sandbox: its name, id or @last");
	return id < 0 ? say_usage(&verb_rollback, &e) : roll_back(&job);
}

const struct verb verb_rollback = {
	.name = "rollback",
	.group = VERB_WORKSPACE,
	.synopsis = "[OPTIONS] REF [ID]",
	.help = "take a sandbox back to a checkpoint",
	.opts = rollback_opts,
	.n_opts = ARRAY_SIZE(rollback_opts),
	.run = cmd_rollback,
	.args = "sandbox",
	.text = "Restores everything that a sandbox wrote to its state at checkpoint ID (c1, c2, …; by "
		"default the newest): content, modes, owners, attributes, links, times, and deletions. "
		"Every byte is verified by its hash.\n"
		"\n"
		"Commands that run in the sandbox are ended first, and the programs that wait for them "
		"get the reason. A sandbox that was started with *-d* is then started again, with the "
		"same id and name; one in the foreground stays ended.\n"
		"\n"
		"The state before the rollback becomes a checkpoint itself, so that a rollback can be "
		"undone. A crash during the rollback loses neither state: the next coffer command on "
		"this sandbox completes the rollback or cancels it.",
	.examples = "coffer rollback web\n"
		    "\t# as it was at its last checkpoint\n"
		    "coffer rollback web c3\n",
};
