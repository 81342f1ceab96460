/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer rm: removes ended runs, also for prune and run --rm. The removal is written to the audit log before
 * anything is removed, and the run's lock is held meanwhile, so that no other process applies a layer that is
 * half removed.
 */
#include "cli/box/cmd_rm.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"
#include "cli/box/cmd_checkpoint.h"
#include "cli/box/cmd_stop.h"
#include "cli/core/say.h"
#include "cli/core/verb.h"
#include "run/run.h"
#include "sandbox/state/layers.h"
#include "sandbox/state/state.h"
#include "workspace/wipe.h"

#include <errno.h>
#include <fcntl.h>
#include <time.h>

enum { OPT_FORCE = 1, OPT_ALL_ENDED };

static const struct opt rm_opts[] = {
	{ "force", 'f', NULL, "stop a running sandbox first; ignore a missing one", OPT_FORCE },
	{ "all-ended", 0, NULL, "remove all ended sandboxes, without asking (see coffer prune)",
	  OPT_ALL_ENDED },
};

#define CLAIM_WAIT_MS 30000 /* how long the launcher of a run that was just stopped may take to exit */
#define CLAIM_STEP_MS 20

/* Opens the run's directory and takes its lock. With `force` a live run is stopped first, and its cleanup
 * awaited. */
static int claim_for_removal(struct state *st, const char *id, bool force, struct err *e)
{
	int fd = state_run_claim(st, id, e);
	int r;

	if (fd != -EBUSY)
		return fd;
	if (!force) {
		err_set(e, -EBUSY, "%s is still running", id);
		return err_hint(e, -EBUSY, "coffer stop %s, or coffer rm -f %s", id, id);
	}
	r = cli_stop_one(id, 0, e);
	for (int ms = 0; r == 0 && fd == -EBUSY && ms < CLAIM_WAIT_MS; ms += CLAIM_STEP_MS) {
		nanosleep(&(struct timespec){ .tv_nsec = CLAIM_STEP_MS * (long)NSEC_PER_MSEC }, NULL);
		fd = state_run_claim(st, id, e);
	}
	return r < 0 ? r : fd;
}

static int log_removal(struct audit *a, const char *id, const struct run_meta *m, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);

	if (m->name)
		json_str(&j, "name", m->name);
	json_u64(&j, "changes", m->changes);
	return buf_error(&b) < 0 ? err_sys(e, buf_error(&b), "cannot log the removal")
				 : audit_append(a, "run.rm", id, &b, e);
}

static int wipe_run_layers(int run_fd, struct err *e)
{
	static const char root_new[] = LAYERS_ROOT_UPPER ".new";
	static const char *const layers[] = { "upper",		"work",	     LAYERS_ROOT_UPPER,
					      LAYERS_ROOT_WORK, "upper.new", root_new };

	for (size_t i = 0; i < ARRAY_SIZE(layers); i++) {
		uint64_t n = 0;
		int r = workspace_wipe(run_fd, layers[i], -1, &n, e);

		if (r < 0 && r != -ENOENT)
			return r;
	}
	return 0;
}

/* `fd` is the run's directory, with its lock. */
static int remove_claimed_run(struct rm_session *s, const char *id, int fd, const struct run_meta *m,
			      struct err *e)
{
	struct state *st = &s->st;
	char buried[RUN_BURIED_LEN];
	bool had_checkpoints;
	int r = log_removal(s->audit, id, m, e);

	if (r == 0)
		r = wipe_run_layers(fd, e);
	if (r < 0)
		return r;
	if (m->name)
		state_name_clear(st, m->name, id);
	had_checkpoints = faccessat(fd, "checkpoints", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
	r = state_run_bury(st, id, buried, e);
	if (r == 0)
		r = workspace_wipe(st->runs_fd, buried, -1, NULL, e);
	if (r == 0 && had_checkpoints)
		cli_checkpoint_tidy();
	return r;
}

int cli_rm_run(struct rm_session *s, const char *ref, bool force, struct err *e)
{
	CLEANUP(state_meta_release) struct run_meta m = { 0 };
	char id[RUN_ID_LEN + 1];
	autoclose int fd = -1;
	int r = state_resolve(&s->st, ref, id, e);

	if (r < 0)
		return r == -ENOENT && force ? 0 : r;
	fd = claim_for_removal(&s->st, id, force, e);
	if (fd == -ENOENT) /* a run without changes removes itself when it is stopped */
		return 0;
	if (fd < 0)
		return fd;
	r = state_meta_read(fd, &m, NULL);
	if (r < 0 && r != -ENOENT && r != -EBADMSG)
		return err_sys(e, r, "cannot read the record of %s", id);
	return remove_claimed_run(s, id, fd, &m, e);
}

int cli_rm_remove_found(struct rm_session *s, const struct rm_found *x, struct err *e)
{
	CLEANUP(state_meta_release) struct run_meta m = { 0 };
	autoclose int fd = claim_for_removal(&s->st, x->id, false, e);
	int r;

	if (fd == -ENOENT)
		return 0;
	if (fd < 0)
		return fd;
	r = state_meta_read(fd, &m, e);
	if (r < 0)
		return r;
	/* Between the list and the confirmation the sandbox may have run again, with changes that nobody has
	 * seen. */
	if (m.ended != x->meta.ended || cli_rm_may_come_back(fd, &m)) {
		err_set(e, -EBUSY, "%s was started again meanwhile, so it is not removed", x->id);
		return err_hint(e, -EBUSY, "coffer diff %s shows its changes, coffer rm %s removes it", x->id,
				x->id);
	}
	return remove_claimed_run(s, x->id, fd, &m, e);
}

int cli_rm_open(struct rm_session *s, struct err *e)
{
	int r = state_open(&s->st, e);

	if (r == 0)
		r = audit_open(&s->audit, s->st.fd, e);
	if (r == 0)
		audit_frees_space(s->audit);
	return r < 0 ? r : run_sweep(&s->st, s->audit, e) < 0 ? -EIO : 0;
}

void cli_rm_release(struct rm_session *s)
{
	audit_free(s->audit);
	state_release(&s->st);
	*s = RM_SESSION_INIT;
}

static int remove_named(int argc, char **argv, bool force)
{
	CLEANUP(cli_rm_release) struct rm_session s = RM_SESSION_INIT;
	struct err e = ERR_INIT;
	int code = 0;

	if (cli_rm_open(&s, &e) < 0)
		return say_error(&e);
	for (int i = 0; i < argc; i++) {
		e = ERR_INIT;
		if (cli_rm_run(&s, argv[i], force, &e) < 0)
			code = say_error(&e);
	}
	return code;
}

static int remove_ended(void)
{
	CLEANUP(cli_rm_release) struct rm_session s = RM_SESSION_INIT;
	CLEANUP(cli_rm_list_release) struct rm_list l = { 0 };
	struct err e = ERR_INIT;
	int code = 0;

	if (cli_rm_open(&s, &e) < 0 || cli_rm_find_ended(&s, 0, &l, &e) < 0)
		return say_error(&e);
	for (size_t i = 0; i < l.n; i++) {
		e = ERR_INIT;
		if (cli_rm_remove_found(&s, &l.v[i], &e) < 0)
			code = say_error(&e);
	}
	return code;
}

static int cmd_rm(int argc, char **argv)
{
	struct optparse p = OPTPARSE_MIXED(argc, argv, rm_opts, ARRAY_SIZE(rm_opts));
	struct err e = ERR_INIT;
	bool force = false, all = false;
	const char *value;
	int id;

	while ((id = opt_next(&p, &value, &e)) > 0) {
		if (id == OPT_HELP)
			return verb_print_help(&verb_rm);
		force = force || id == OPT_FORCE;
		all = all || id == OPT_ALL_ENDED;
	}
	if (id == 0 && all && p.index < p.argc)
		id = err_set(&e, -EINVAL, "--all-ended removes all that have ended, so it takes no REF");
	if (id == 0 && !all && p.index >= p.argc) {
		err_set(&e, -EINVAL, "rm needs a sandbox: its name, id or @last");
		id = err_hint(&e, -EINVAL,
			      "coffer ps -a lists them; coffer rm --all-ended removes all that have ended");
	}
	if (id < 0)
		return say_usage(&verb_rm, &e);
	if (all)
		return remove_ended();
	return remove_named(p.argc - p.index, p.argv + p.index, force);
}

const struct verb verb_rm = {
	.name = "rm",
	.group = VERB_MANAGE,
	.synopsis = "[OPTIONS] REF… | --all-ended",
	.help = "remove ended sandboxes and their layers",
	.opts = rm_opts,
	.n_opts = ARRAY_SIZE(rm_opts),
	.run = cmd_rm,
	.args = "sandbox",
	.text = "Removes what is kept of ended runs: the layers with their changes, their output and "
		"their names. Changes that were not applied are lost. The audit log keeps the record "
		"of what the runs did, and of their removal.",
	.examples = "coffer rm web\n"
		    "\t# remove the sandbox named web\n"
		    "coffer rm -f @last\n"
		    "\t# stop the last run if it still runs, and remove it\n",
};
