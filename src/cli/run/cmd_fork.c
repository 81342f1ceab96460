/* SPDX-License-Identifier: Apache-2.0 */
/* coffer fork: starts another sandbox with the layers of a checkpoint. The sandbox that it is forked from is
 * only read. */
#include "base/fd.h"
#include "checkpoint/checkpoint.h"
#include "cli/core/say.h"
#include "cli/core/verb.h"
#include "cli/run/run_again.h"
#include "workspace/wipe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

enum { OPT_NAME = 1, OPT_HOME };

static const struct opt fork_opts[] = {
	{ "name", 0, "NAME", "the new sandbox's name", OPT_NAME, "name" },
	{ "home", 0, "NAME", "the name of its home, if it has one (default: the new name)", OPT_HOME,
	  "name" },
};

struct fork_job {
	const char *ref, *at, *name, *home;
};

static void release_fork_source(void *ctx)
{
	struct ckpt_fork *f = ctx;

	ckpt_release(f->from);
}

/* A home that exists already belongs to another sandbox. */
static int check_fork_home(struct state *st, const char *home, struct err *e)
{
	char path[80];
	struct stat sb;

	if (!str_is_name(home))
		return err_set(e, -EINVAL, "--home '%.80s' is not a valid name", home);
	snprintf(path, sizeof(path), "homes/%s", home);
	if (fstatat(st->fd, path, &sb, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
		return 0;
	err_set(e, -EEXIST, "there is a home called '%s' already", home);
	return err_hint(e, -EEXIST, "--home NAME names another for the new sandbox");
}

static int check_fork_name(struct state *st, const char *name, struct err *e)
{
	if (!str_is_name(name))
		return err_set(
			e, -EINVAL,
			"--name '%.80s': a name is up to 64 letters, digits, '.', '_' or '-', and begins with a "
			"letter or digit",
			name);
	return state_name_check(st, name, e);
}

static int prepare_fork(const struct fork_job *job, struct ckpt_run *r, struct run_start *s,
			const struct ckpt **at, struct err *e)
{
	int ret = ckpt_open(r, job->ref, false, e);

	if (ret == 0)
		ret = objects_lock(&r->store, e);
	if (ret == 0)
		ret = ckpt_find(r, job->at, at, e);
	if (ret == 0)
		ret = cli_run_start_read(r->run_fd, s, e);
	if (ret == 0)
		ret = check_fork_name(&r->st, job->name, e);
	if (ret == 0 && r->meta.home)
		ret = check_fork_home(&r->st, job->home ? job->home : job->name, e);
	return ret;
}

/* Removes the home of a sandbox that could not be started; check_fork_home() made sure that it did not exist
 * before. */
static void remove_unused_home(struct state *st, const char *home)
{
	autoclose int homes = openat(st->fd, "homes", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (home && homes >= 0 && workspace_wipe(homes, home, -1, NULL, NULL) < 0)
		say_warn("the home '%s' of the sandbox that could not be started is still there", home);
}

static int fork_sandbox(const struct fork_job *job)
{
	CLEANUP(ckpt_release) struct ckpt_run r = CKPT_RUN_INIT;
	CLEANUP(cli_run_start_release) struct run_start s = { 0 };
	struct ckpt_fork f = { .from = &r };
	struct run_again how = {
		.origin = { .kind = RUN_COPIED,
			    .fill = ckpt_populate,
			    .forget = release_fork_source,
			    .ctx = &f },
		.name = job->name,
	};
	char id[RUN_ID_LEN + 1];
	struct ckpt at;
	autofree char *workspace = NULL, *engine = NULL;
	struct err e = ERR_INIT;
	const struct ckpt *found = NULL;
	int code;

	if (prepare_fork(job, &r, &s, &found, &e) < 0 || !found)
		return say_error(&e);
	at = *found;
	f.at = &at;
	if (r.meta.home)
		f.home = how.home = job->home ? job->home : job->name;
	workspace = r.meta.workspace ? strdup(r.meta.workspace) : NULL;
	how.workspace = workspace;
	engine = r.meta.engine ? strdup(r.meta.engine) : NULL;
	how.engine = engine;
	code = cli_run_again(&s, &how, id);
	if (code) {
		remove_unused_home(&r.st, f.home);
		return code;
	}
	printf("%s\n", id);
	return fflush(stdout) == 0 ? 0 : EXIT_OURS;
}

static int take_fork_word(struct fork_job *job, const char *word, struct err *e)
{
	if (job->at)
		return err_set(e, -EINVAL, "fork takes one sandbox and one checkpoint");
	if (job->ref)
		job->at = word;
	else
		job->ref = word;
	return 0;
}

static int cmd_fork(int argc, char **argv)
{
	struct optparse p = OPTPARSE_INIT(argc, argv, fork_opts, ARRAY_SIZE(fork_opts));
	struct fork_job job = { 0 };
	struct err e = ERR_INIT;
	const char *value, *word;
	int id;

	for (;;) {
		while ((id = opt_next(&p, &value, &e)) > 0) {
			if (id == OPT_HELP)
				return verb_print_help(&verb_fork);
			*(id == OPT_NAME ? &job.name : &job.home) = value;
		}
		word = id < 0 ? NULL : opt_take(&p);
		if (!word)
			break;
		id = take_fork_word(&job, word, &e);
		if (id < 0)
			break;
	}
	if (id == 0 && !job.ref)
		id = err_set(&e, -EINVAL, "fork needs a sandbox: its name, id or @last");
	if (id == 0 && !job.name)
		id = err_set(&e, -EINVAL, "fork needs a name for the new sandbox: --name NAME");
	if (id == 0 && !str_is_name(job.name))
		id = err_set(&e, -EINVAL, "--name '%.64s' is not a valid name", job.name);
	if (id == 0 && job.home && !str_is_name(job.home))
		id = err_set(&e, -EINVAL, "--home '%.64s' is not a valid name", job.home);
	return id < 0 ? say_usage(&verb_fork, &e) : fork_sandbox(&job);
}

const struct verb verb_fork = {
	.name = "fork",
	.group = VERB_WORKSPACE,
	.synopsis = "[OPTIONS] REF [ID] --name NAME",
	.help = "start another sandbox from a checkpoint",
	.opts = fork_opts,
	.n_opts = ARRAY_SIZE(fork_opts),
	.run = cmd_fork,
	.args = "sandbox",
	.text = "Starts a new sandbox in the background with the options of REF, over the same "
		"original directory. Its own layers begin with the content of checkpoint ID (by "
		"default the newest). REF itself is not touched, and need not run. A named home is "
		"copied to a new one, which has the name of the new sandbox unless *--home* gives "
		"another. Content is shared on the disk where the file system supports it. Prints the "
		"new id.",
	.examples = "coffer fork web c3 --name web2\n",
};
