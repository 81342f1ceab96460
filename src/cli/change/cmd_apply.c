/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer apply: writes a run's changes to the original directory, or those of a call over another sandbox's
 * workspace into that sandbox. The audit log names every change, and those that needed a permission of their
 * own, before the first file is touched. An error in the policy, the vault or the log means that nothing is
 * applied.
 */
#include "base/fd.h"
#include "base/str.h"
#include "cli/change/apply_ask.h"
#include "cli/change/apply_into.h"
#include "cli/change/apply_log.h"
#include "cli/common/ask_show.h"
#include "cli/common/obeyed_files.h"
#include "cli/core/docs.h"
#include "cli/core/say.h"
#include "cli/core/verb.h"
#include "cli/secret/cmd_secret.h"
#include "vault/client/leak.h"
#include "workspace/tree/path.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <termios.h>
#include <unistd.h>

enum {
	OPT_DRY_RUN = 1,
	OPT_ALLOW,
	OPT_ALLOW_SPECIAL,
	OPT_FORCE,
	OPT_YES,
	OPT_CHECKPOINT,
	OPT_UNCHECKED,
	OPT_ASK,
	OPT_ASK_TIMEOUT
};

static const struct opt apply_opts[] = {
	{ "dry-run", 'n', NULL, "only show what would be applied and what would not", OPT_DRY_RUN },
	{ "allow", 0, "PATH", "apply a file that the host may run or obey, or that may hold credentials",
	  OPT_ALLOW, .many = true },
	{ "allow-special", 0, "PATH", "apply setuid, devices, pipes, foreign owners, links outside",
	  OPT_ALLOW_SPECIAL, .many = true },
	{ "force", 0, "PATH", "use the run's version if the original changed too", OPT_FORCE, .many = true },
	{ "checkpoint", 0, "WHEN", "into another sandbox: make checkpoints of it (default: each)",
	  OPT_CHECKPOINT, "each off" },
	{ "yes", 'y', NULL, "do not ask on a terminal", OPT_YES },
	{ "ask", 0, NULL, "wait until a person approves exactly what would be written", OPT_ASK },
	{ "ask-timeout", 0, "TIME", "how long to wait for that (default: 5m)", OPT_ASK_TIMEOUT },
	{ "unchecked", 0, NULL, "apply without searching for the vault's secrets", OPT_UNCHECKED },
};

enum { EXIT_REFUSED = 1 };

struct apply_job {
	struct changed run;
	struct into into; /* for a call over another sandbox's workspace: that sandbox */
	struct audit *audit;
	struct apply_opts o;
	struct secret_session vault; /* open if there is a vault */
	struct obeyed obeyed;
	struct apply_ask ask;
	const char *ref;
	bool yes, unchecked;
	bool no_checkpoint;
	uint32_t before; /* number of the checkpoint made before the apply; 0: none */
	bool wrote;	 /* something was written into another sandbox's workspace */
};

/* --- credentials ------------------------------------------------------------------------------------------------ */

static int add_leak(const struct leak *l, void *ctx)
{
	struct apply_found *f = ctx;

	static_assert(APPLY_DIGEST_LEN == HASH_LEN, "a digest is one of ours");
	f->ours |= l->name != NULL;
	return l->name ? 0 : apply_found_add(f, l->what, l->digest);
}

static int find_leaks(void *arg, int fd, struct apply_found *ret, struct err *e)
{
	struct apply_job *job = arg;

	return leak_find(fd, job->vault.proc.pid > 0 ? &job->vault.proc : NULL, APPLY_TOKENS_MAX, add_leak,
			 ret, e);
}

/* If there is no vault, there are no secrets of it to look for. If there is one and it cannot be opened,
 * nothing is applied: its secrets could be in the changes. */
static int open_vault_for_leaks(struct apply_job *job, struct err *e)
{
	const struct vault_key_want want = VAULT_KEY_WANT_INIT;
	int r = job->unchecked ? 0 : cli_secret_session_open(&job->vault, &want, 0, e);

	if (r == -ENOENT && job->vault.audit && job->vault.files.dir < 0) {
		*e = ERR_INIT;
		return 0;
	}
	if (r < 0)
		err_hint(e, r, "--unchecked applies without looking for the vault's secrets");
	return r < 0 ? err_wrap(e, r, "looking for secrets in the changes") : 0;
}

/* The destination, for messages: the original directory, or the other sandbox. */
static const char *target_name(const struct apply_job *job)
{
	return job->run.meta.over ? job->run.meta.over : job->run.meta.workspace;
}

/* --- before and after -------------------------------------------------------------------------------------------- */

/* Each path on the command line must match a change, so that a mistyped path is not reported as applied. */
static int check_named_paths(const struct apply_job *job, const struct apply_plan *plan, struct err *e)
{
	for (size_t i = 0; i < job->o.paths.n; i++) {
		bool found = false;

		for (size_t k = 0; k < plan->all->n && !found; k++)
			found = path_covers(job->o.paths.v[i], plan->all->v[k].path);
		if (!found) {
			err_set(e, -ENOENT, "the run changed nothing at '%s'", job->o.paths.v[i]);
			return err_hint(e, -ENOENT, "coffer diff %s lists what it changed", job->run.id);
		}
	}
	return 0;
}

static int confirm_apply(const struct apply_job *job, const struct apply_plan *plan, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	char answer[16] = "";

	if (job->yes || job->ask.wanted || !isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
		return 0;
	buf_addf(&b, "Apply %zu change%s to ", plan->n_go, plan->n_go == 1 ? "" : "s");
	str_add_safe(&b, target_name(job), strlen(target_name(job)), false);
	if (plan->refused->n)
		buf_addf(&b, " (%zu are not applied)", plan->refused->n);
	buf_adds(&b, "? [y/N] ");
	/* A "y" that was typed while the changes were listed answers another question, not this one. */
	tcflush(STDIN_FILENO, TCIFLUSH);
	if (write(STDERR_FILENO, b.data, b.len) < 0 || read(STDIN_FILENO, answer, sizeof(answer) - 1) < 0)
		return err_sys(e, -errno, "cannot ask");
	if (answer[0] == 'y' || answer[0] == 'Y')
		return 0;
	return err_set(e, -ECANCELED, "nothing was applied");
}

static int ask_approver(struct apply_job *job, const struct apply_plan *plan, struct err *e)
{
	if (!job->ask.wanted)
		return 0;
	return job->run.meta.over
		       ? cli_apply_ask_still(&job->ask, job->run.upper, e)
		       : cli_apply_ask_plan(&job->ask, &job->run, job->audit, target_name(job), plan, e);
}

static struct apply_log apply_log_of(const struct apply_job *job)
{
	return (struct apply_log){ job->audit, &job->run, &job->o, &job->ask };
}

static int before_writing(void *arg, const struct apply_plan *plan, struct err *e)
{
	struct apply_job *job = arg;
	int r = check_named_paths(job, plan, e);

	if (r < 0 || job->o.dry_run || plan->n_go == 0)
		return r;
	r = confirm_apply(job, plan, e);
	if (r == 0)
		r = ask_approver(job, plan, e);
	if (r == 0) {
		const struct apply_log l = apply_log_of(job);

		r = cli_apply_log_plan(&l, plan, e);
	}
	/* This must be the last step before the first write. */
	return r < 0 ? r : into_begin(&job->into, e);
}

static int show_dry_run(void *arg, const struct apply_plan *plan, struct err *e)
{
	autobuf struct buf out = BUF_INIT;
	int r = before_writing(arg, plan, e);

	for (size_t i = 0; i < plan->all->n && r == 0; i++) {
		if (!plan->go[i])
			continue;
		cli_change_format(&plan->all->v[i], &out);
		buf_addc(&out, '\n');
	}
	return r < 0 ? r : say_out(&out) ? -EPIPE : 0;
}

/* Shows the content of a file that coffer itself obeys, because the permission for it is one for this
 * content. */
static void show_obeyed_content(const struct changed *run, const struct change *c)
{
	autobuf struct buf out = BUF_INIT;

	if (change_is_dir(c) || c->kind == CHANGE_MODE)
		return;
	if (workspace_patch(run->upper, changed_base(run), c, &out) == 0 && !buf_error(&out))
		(void)!fd_write_all(STDERR_FILENO, buf_cstr(&out), out.len);
}

static void report_refused(const struct changed *run, const struct changes *l)
{
	for (size_t i = 0; i < l->n; i++) {
		autobuf struct buf line = BUF_INIT, options = BUF_INIT;

		cli_change_format(&l->v[i], &line);
		buf_adds(&line, ": ");
		cli_change_add_reasons(&l->v[i], &line);
		cli_change_add_options(&l->v[i], &options);
		if (options.len)
			buf_addf(&line, " [%s]", options.data);
		say_warn("not applied: %s", buf_cstr(&line));
		if (l->v[i].obeyed)
			show_obeyed_content(run, &l->v[i]);
	}
}

/* Removes the run if all its changes were applied. Otherwise it is kept with the rest, which is counted
 * again. */
static int settle_run(struct apply_job *job, const struct apply_result *res, struct err *e)
{
	uint64_t n = 0;
	int r;

	if (res->applied == res->total)
		return cli_changed_remove(&job->run, job->audit, &n, e);
	r = job->run.meta.over && res->applied ? cli_apply_into_copy_again(&job->into, &job->run, e) : 0;
	if (r == 0)
		r = workspace_count_changes(job->run.upper, changed_base(&job->run), 1000000, &n, e);
	if (r < 0)
		return r;
	job->run.meta.changes = n;
	return state_meta_write(job->run.run_fd, &job->run.meta, e);
}

static int note_into_changes(struct apply_job *job, struct err *e)
{
	job->wrote = job->run.meta.over != NULL;
	return job->run.meta.over ? into_note_changes(&job->into, e) : 0;
}

static int apply_changes(struct apply_job *job, struct apply_result *res, struct err *e)
{
	const struct changed *c = &job->run;

	return c->meta.over ? cli_apply_into(&job->into, changed_since(c), &job->o, res, e)
			    : workspace_apply(c->upper, c->lower, changed_since(c), &job->o, res, e);
}

/* Prints why nothing was applied. A refusal by a person or by the policy exits with 1, not with 125 as an
 * error does. */
static int report_not_applied(int r, const struct err *e)
{
	int code = EXIT_REFUSED;

	if (r == -ECANCELED)
		say_note("%s", e->msg);
	else
		code = say_error(e);
	return r == -EINTR ? 128 + SIGINT : r == -EPERM ? EXIT_REFUSED : code;
}

static int apply_run(struct apply_job *job)
{
	struct apply_result res = { 0 };
	struct err e = ERR_INIT;
	int r = apply_changes(job, &res, &e);
	int code = 0;

	if (r < 0 && res.applied == 0) {
		apply_result_release(&res);
		return r == -EPIPE ? EXIT_OURS : report_not_applied(r, &e);
	}
	if (r < 0)
		code = say_error(&e);
	report_refused(&job->run, &res.refused);
	if (!job->o.dry_run) {
		const struct apply_log l = apply_log_of(job);
		size_t left = res.total - res.applied;

		say_note("applied %zu change%s to %s%s", res.applied, res.applied == 1 ? "" : "s",
			 target_name(job), left ? "" : "; nothing is left of the run");
		if (left)
			say_note("%zu left: coffer diff %s, coffer discard %s", left, job->run.id,
				 job->run.id);
		if (code == 0 && ((res.applied && cli_apply_log_result(&l, &res, &e) < 0) ||
				  note_into_changes(job, &e) < 0 || settle_run(job, &res, &e) < 0))
			code = say_error(&e);
	}
	if (code == 0 && res.refused.n)
		code = EXIT_REFUSED;
	apply_result_release(&res);
	return code;
}

/* --- the command line --------------------------------------------------------------------------------------------- */

static int normalise_paths(struct apply_job *job, struct err *e)
{
	int r = cli_changed_paths(&job->run, &job->o.paths, NULL, e);

	if (r == 0)
		r = cli_changed_paths(&job->run, &job->o.allow_trigger, "--allow", e);
	if (r == 0)
		r = cli_changed_paths(&job->run, &job->o.allow_special, "--allow-special", e);
	return r < 0 ? r : cli_changed_paths(&job->run, &job->o.force, NULL, e);
}

static int open_apply(struct apply_job *job, struct err *e)
{
	int r = cli_changed_audit(&job->audit, e);

	if (r == 0)
		r = cli_changed_open(&job->run, job->ref, true, e);
	if (r == 0)
		r = cli_apply_ask_policy(&job->ask, &job->run, job->o.dry_run, e);
	if (r == 0)
		r = cli_changed_open_trees(&job->run, e);
	if (r == 0)
		r = normalise_paths(job, e);
	if (r == 0) {
		job->obeyed.workspace = job->run.meta.workspace ? job->run.meta.workspace : "//";
		r = cli_obeyed_collect(&job->obeyed, &job->run.st, e);
	}
	/* into_open() freezes the target sandbox, which must not stay frozen while a person decides: so the
	 * question comes first. */
	if (r == 0 && job->run.meta.over && job->ask.wanted && !job->o.dry_run)
		r = cli_apply_ask_layer(&job->ask, &job->run, job->audit, target_name(job), &job->o.paths, e);
	if (r == 0 && job->run.meta.over && !job->o.dry_run && !job->no_checkpoint)
		r = cli_apply_into_before(&job->run, &job->before, e);
	if (r == 0 && job->run.meta.over)
		r = into_open(&job->into, job->run.meta.over, job->run.layers,
			      job->run.meta.map_ids && !state_is_host_root() && geteuid() != 0, e);
	return r;
}

static int take_apply_option(struct apply_job *job, int id, const char *value, struct err *e)
{
	int r = 0;

	switch (id) {
	case OPT_CHECKPOINT:
		r = opt_one_of("--checkpoint", value, "each off", e);
		job->no_checkpoint = r == 1;
		return r < 0 ? r : 0;
	case OPT_DRY_RUN:
		job->o.dry_run = true;
		return 0;
	case OPT_YES:
		job->yes = true;
		return 0;
	case OPT_UNCHECKED:
		job->unchecked = true;
		return 0;
	case OPT_ASK:
		job->ask.wanted = true;
		return 0;
	case OPT_ASK_TIMEOUT:
		return cli_ask_timeout_parse(value, &job->ask.timeout_s, e);
	case OPT_ALLOW:
		r = strv_add(&job->o.allow_trigger, value);
		break;
	case OPT_ALLOW_SPECIAL:
		r = strv_add(&job->o.allow_special, value);
		break;
	default:
		r = strv_add(&job->o.force, value);
	}
	return r < 0 ? err_set(e, -ENOMEM, "out of memory") : 0;
}

/* Options may be before, between and after the run and the paths. */
static int parse_apply(struct apply_job *job, int argc, char **argv, bool *ret_help, struct err *e)
{
	struct optparse p = OPTPARSE_INIT(argc, argv, apply_opts, ARRAY_SIZE(apply_opts));
	const char *value, *word;
	int id;

	for (;;) {
		while ((id = opt_next(&p, &value, e)) > 0) {
			if (id == OPT_HELP) {
				*ret_help = true;
				return 0;
			}
			if (take_apply_option(job, id, value, e) < 0)
				return e->code;
		}
		if (id < 0)
			return id;
		word = opt_take(&p);
		if (!word)
			break;
		if (!job->ref)
			job->ref = word;
		else if (strv_add(&job->o.paths, word) < 0)
			return err_set(e, -ENOMEM, "out of memory");
	}
	if (job->ref)
		return 0;
	err_set(e, -EINVAL, "apply needs a sandbox: its name, id or @last");
	return err_hint(e, -EINVAL, "coffer apply @last (the last run's), or an id of coffer ps -a");
}

static int run_apply(struct apply_job *job)
{
	struct err e = ERR_INIT;
	int r = open_apply(job, &e);

	if (r == -EINVAL)
		return say_usage(&verb_apply, &e);
	if (r == -ENOENT && job->run.run_fd < 0 && !job->o.paths.n &&
	    cli_changed_nothing(job->ref, job->run.id)) {
		say_note("nothing to apply: run %s changed nothing", job->run.id);
		return 0;
	}
	if (r == 0)
		r = open_vault_for_leaks(job, &e);
	if (r < 0)
		return report_not_applied(r, &e);
	job->o.bind = job->ask.wanted;
	job->o.look = find_leaks;
	job->o.obeyed = &job->obeyed;
	job->o.before = job->o.dry_run ? show_dry_run : before_writing;
	job->o.arg = job;
	return apply_run(job);
}

static int cmd_apply(int argc, char **argv)
{
	struct apply_job job = { .run = CHANGED_INIT,
				 .into = INTO_INIT,
				 .vault = SECRET_SESSION_INIT,
				 .obeyed = OBEYED_INIT(NULL) };
	struct err e = ERR_INIT;
	bool help = false;
	int code;

	if (parse_apply(&job, argc, argv, &help, &e) < 0)
		code = say_usage(&verb_apply, &e);
	else
		code = help ? verb_print_help(&verb_apply) : run_apply(&job);
	into_close(&job.into);
	if (job.wrote && job.before)
		cli_apply_into_after(&job.run, job.before);
	cli_secret_session_close(&job.vault);
	obeyed_release(&job.obeyed);
	cli_apply_ask_release(&job.ask);
	cli_changed_release(&job.run);
	audit_free(job.audit);
	strv_release(&job.o.paths);
	strv_release(&job.o.allow_trigger);
	strv_release(&job.o.allow_special);
	strv_release(&job.o.force);
	return code;
}

const struct verb verb_apply = {
	.name = "apply",
	.group = VERB_WORKSPACE,
	.synopsis = "[OPTIONS] REF [PATH…]",
	.help = "apply a run's changes to the original directory",
	.opts = apply_opts,
	.n_opts = ARRAY_SIZE(apply_opts),
	.run = cmd_apply,
	.args = "sandbox",
	.text = "Writes the changes of a run, or only those at or below each PATH, to the directory "
		"that it worked on. Nothing is ever written outside of that directory, and no program "
		"of the workspace is run.\n"
		"\n"
		"Some changes are held back until you approve each separately; they are listed with "
		"the reason and the option that applies them: files that the host may run or obey "
		"automatically, and files that contain a secret of the vault or text that looks like a "
		"well-known token (*--allow* PATH), special files (*--allow-special* PATH), and files "
		"that changed in the original since the run began (*--force* PATH). Approving a "
		"directory approves everything below it, except that *--allow .git* covers only what a "
		"commit writes: config, hooks and other files that git would run or obey must be "
		"named, also in a directory that is a repository under another name. A file that "
		"coffer itself obeys (a policy, a file that it names, a profile) must be named "
		"exactly, and its change is shown. Approving a file also makes the new directories "
		"above it, without the other files in them. " DOCS_TRIGGERS
		" lists the files that need a separate approval.\n"
		"\n"
		"On a terminal it asks once before it writes (not with *-y*). Without a terminal, "
		"running the command is the approval for all changes that need no separate one.\n"
		"\n"
		"The changes of a call over another sandbox's workspace (*coffer call --from SANDBOX "
		"--workspace*) are applied to that workspace by the same rules, not to the directory: "
		"the original is then the workspace as that sandbox sees it. That sandbox is paused "
		"meanwhile, or has ended. It gets a checkpoint before and one after, whatever options "
		"it was started with, so that coffer-rollback(1) can undo the call; *--checkpoint off* "
		"makes neither.\n"
		"\n"
		"With *--ask*, or if the policy of the run has _apply: ask_, a person, who may be "
		"elsewhere, is asked first. The question has the list of files, with marks on those "
		"that need a separate approval, and a digest of exactly what would be written (*coffer "
		"ask show*). Only exactly those changes are written afterwards. With _apply: deny_ "
		"nothing is applied.\n"
		"\n"
		"When all changes have been applied, the layer is wiped and the run is removed. Exit "
		"code 1 means that some changes were held back.\n"
		"\n"
		"REF is an id, the beginning of one, a name, or @last.",
	.examples = "coffer apply @last\n"
		    "\t# all changes that need no separate approval\n"
		    "coffer apply @last src --dry-run\n"
		    "\t# which changes in src would be applied\n"
		    "coffer apply @last --allow .github/workflows/ci.yml\n"
		    "\t# that file too, after you have read it\n",
};
