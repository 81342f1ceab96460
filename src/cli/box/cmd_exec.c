/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer exec and coffer shell: run another command in a running sandbox. The launcher passes it to the
 * sandbox's init as a message; this process never enters the sandbox's namespaces.
 */
#include "base/cleanup.h"
#include "base/str.h"
#include "cli/box/cmd_checkpoint.h"
#include "cli/common/run_env.h"
#include "cli/core/ref.h"
#include "cli/core/say.h"
#include "cli/core/verb.h"
#include "run/supervise/pump.h"
#include "run/supervise/run_link.h"

#include <errno.h>
#include <stdlib.h>

enum { OPT_INTERACTIVE = 1, OPT_TTY, OPT_ENV, OPT_WORKDIR, OPT_DETACH };

static const struct opt exec_opts[] = {
	{ "detach", 'd', NULL, "return when the command runs; its output is dropped", OPT_DETACH },
	{ "interactive", 'i', NULL, "pass stdin to the command", OPT_INTERACTIVE },
	{ "tty", 't', NULL, "give the command its own terminal", OPT_TTY },
	{ "env", 'e', "NAME[=VALUE]", "set or copy an environment variable", OPT_ENV, .many = true },
	{ "workdir", 'w', "DIR", "directory to start in", OPT_WORKDIR, "dir" },
};

static const struct opt shell_opts[] = {
	{ "env", 'e', "NAME[=VALUE]", "set or copy an environment variable", OPT_ENV, .many = true },
	{ "workdir", 'w', "DIR", "directory to start in", OPT_WORKDIR, "dir" },
};

struct exec_want {
	bool interactive, tty, detach;
	struct strv env;
	const char *cwd;
};

static void exec_want_release(struct exec_want *w)
{
	strv_release(&w->env);
}

/* Adds "NAME=VALUE" as it is, and "NAME" with our own value. A variable that we do not have is not added. */
static int add_exec_variable(struct strv *env, const char *text, struct err *e)
{
	const char *value;
	int r;

	r = cli_run_env_check(text, e);
	if (r < 0)
		return r;
	if (strchr(text, '=')) {
		r = strv_add(env, text);
	} else {
		value = getenv(text); // NOLINT(concurrency-mt-unsafe): one thread
		r = value ? strv_addf(env, "%s=%s", text, value) : 0;
	}
	return r < 0 ? err_set(e, r, "out of memory") : 0;
}

static int take_exec_option(struct exec_want *w, int id, const char *value, struct err *e)
{
	switch (id) {
	case OPT_INTERACTIVE:
		w->interactive = true;
		return 0;
	case OPT_TTY:
		w->tty = true;
		return 0;
	case OPT_DETACH:
		w->detach = true;
		return 0;
	case OPT_ENV:
		return add_exec_variable(&w->env, value, e);
	default:
		if (value[0] != '/')
			return err_set(e, -EINVAL, "the working directory '%.200s' is not absolute", value);
		w->cwd = value;
		return 0;
	}
}

/* A program on a terminal needs TERM; -e TERM=… prevails. */
static int add_term_variable(struct strv *env, struct err *e)
{
	const char *term = getenv("TERM"); // NOLINT(concurrency-mt-unsafe): one thread

	for (size_t i = 0; i < env->n; i++) {
		if (str_starts(env->v[i], "TERM="))
			return 0;
	}
	return strv_addf(env, "TERM=%s", term ? term : "xterm") < 0 ? err_set(e, -ENOMEM, "out of memory")
								    : 0;
}

static int run_attached(struct run_link *l, struct exec_want *w, char *const *argv, struct proto_exit *ret,
			struct err *e)
{
	struct run_link_cmd c = { .argv = argv, .cwd = w->cwd ? w->cwd : "" };
	const struct run_link_io io = {
		.in = w->interactive ? 0 : -1, .out = 1, .err = 2, .tty = w->tty ? 0 : -1
	};
	int r;

	if (w->tty) {
		if (!isatty(0)) {
			err_set(e, -ENOTTY, "stdin is not a terminal, so -t cannot work");
			return err_hint(e, -ENOTTY, "leave out -t");
		}
		r = add_term_variable(&w->env, e);
		if (r < 0)
			return r;
		c.flags |= PROTO_F_TTY;
	}
	if (w->interactive && pump_has_input(0))
		c.flags |= PROTO_F_STDIN;
	if (!isatty(1))
		c.flags |= PROTO_F_CAP;
	c.env = w->env.v;
	return run_link_exec(l, &c, &io, ret, e);
}

/* A command in the background has an empty stdin, and nobody reads its terminal: -i has no effect. */
static int run_in_background(struct run_link *l, struct exec_want *w, char *const *argv,
			     struct proto_exit *ret, struct err *e)
{
	struct run_link_cmd c = { .argv = argv, .cwd = w->cwd ? w->cwd : "" };
	bool started = false;
	int r = w->tty ? add_term_variable(&w->env, e) : 0;

	if (w->tty)
		c.flags |= PROTO_F_TTY;
	c.env = w->env.v;
	/* A command that was started has no exit code yet; 0 is reported. */
	*ret = (struct proto_exit){ .kind = PROTO_EXITED };
	return r < 0 ? r : run_link_detach(l, &c, &started, ret, e);
}

/* Prints what a person should know about the command's end. Returns the exit code. */
static int say_command_end(const struct proto_exit *x, const char *command, const char *cwd)
{
	struct err e = ERR_INIT;

	if (x->kind == PROTO_NOT_STARTED) {
		proto_exit_text(x, command, cwd ? cwd : "", &e);
		say_error(&e);
	} else if (x->what == PROTO_WHAT_CUT) {
		say_warn("the output limit was reached; the rest was thrown away");
	} else if (x->what == PROTO_WHAT_ROLLED) {
		say_warn("the sandbox was rolled back, and the command ended with it");
	} else if (x->what == PROTO_WHAT_PIDS) {
		say_warn("the sandbox was at its limit of processes (--pids)");
	}
	return proto_exit_code(x);
}

static int parse_exec(struct optparse *p, const struct verb *v, struct exec_want *w, struct err *e)
{
	const char *value;
	int id;

	while ((id = opt_next(p, &value, e)) > 0) {
		int r;

		if (id == OPT_HELP)
			return OPT_HELP;
		r = take_exec_option(w, id, value, e);
		if (r < 0)
			return r;
	}
	if (id == 0 && p->index >= p->argc)
		return err_set(e, -EINVAL, "%s needs a sandbox: its name, id or @last", v->name);
	return id;
}

static int cmd_exec(int argc, char **argv)
{
	struct optparse p = OPTPARSE_INIT(argc, argv, exec_opts, ARRAY_SIZE(exec_opts));
	CLEANUP(exec_want_release) struct exec_want w = { 0 };
	autoref struct ref ref = REF_INIT;
	autolink struct run_link l = RUN_LINK_INIT;
	struct proto_exit x = { 0 };
	struct err e = ERR_INIT;
	const char *text;
	int r = parse_exec(&p, &verb_exec, &w, &e);

	if (r == OPT_HELP)
		return verb_print_help(&verb_exec);
	if (r < 0)
		return say_usage(&verb_exec, &e);
	text = p.argv[p.index++];
	if (p.index < p.argc && str_eq(p.argv[p.index], "--"))
		p.index++;
	if (p.index >= p.argc) {
		err_set(&e, -EINVAL, "exec needs a command to run in %.100s", text);
		return say_usage(&verb_exec, &e);
	}
	r = ref_link(&ref, text, &l, &e);
	if (r == 0)
		cli_checkpoint_before(&ref);
	if (r == 0)
		r = w.detach ? run_in_background(&l, &w, p.argv + p.index, &x, &e)
			     : run_attached(&l, &w, p.argv + p.index, &x, &e);
	if (r == 0 && x.what != PROTO_WHAT_ROLLED && !w.detach)
		cli_checkpoint_after(&ref, p.argv + p.index);
	return r < 0 ? say_error(&e) : say_command_end(&x, p.argv[p.index], w.cwd);
}

static int cmd_shell(int argc, char **argv)
{
	static char bash[] = "/bin/bash", sh[] = "/bin/sh", login[] = "-l";
	static char *const shells[][3] = { { bash, login, NULL }, { sh, NULL } };
	struct optparse p = OPTPARSE_MIXED(argc, argv, shell_opts, ARRAY_SIZE(shell_opts));
	CLEANUP(exec_want_release) struct exec_want w = { .interactive = true };
	autoref struct ref ref = REF_INIT;
	autolink struct run_link l = RUN_LINK_INIT;
	struct proto_exit x = { 0 };
	struct err e = ERR_INIT;
	size_t i = 0;
	int r = parse_exec(&p, &verb_shell, &w, &e);

	if (r == OPT_HELP)
		return verb_print_help(&verb_shell);
	if (r == 0 && p.index + 1 < p.argc)
		r = err_set(&e, -EINVAL, "shell takes one sandbox; for a command there is coffer exec");
	if (r < 0)
		return say_usage(&verb_shell, &e);
	w.tty = isatty(0) && isatty(1);
	r = ref_link(&ref, p.argv[p.index], &l, &e);
	if (r == 0)
		cli_checkpoint_before(&ref);
	for (; r == 0 && i < ARRAY_SIZE(shells); i++) {
		r = run_attached(&l, &w, shells[i], &x, &e);
		if (x.kind != PROTO_NOT_STARTED || x.what != PROTO_WHAT_EXEC)
			break;
	}
	if (r == 0 && x.what != PROTO_WHAT_ROLLED)
		cli_checkpoint_after(&ref, (char *[]){ (char[]){ "shell" }, NULL });
	return r < 0 ? say_error(&e) : say_command_end(&x, "a shell", w.cwd);
}

const struct verb verb_exec = {
	.name = "exec",
	.group = VERB_MANAGE,
	.synopsis = "[OPTIONS] REF [--] COMMAND [ARG…]",
	.help = "run one more command in a sandbox",
	.opts = exec_opts,
	.n_opts = ARRAY_SIZE(exec_opts),
	.run = cmd_exec,
	.text = "Runs COMMAND in a running sandbox, behind the same wall, with the sandbox's own "
		"environment and the variables of *-e*, and exits with the command's exit code. REF is "
		"the sandbox's name, its id or the beginning of the id, or *@last*.\n"
		"\n"
		"If coffer exec itself ends early, the command gets SIGHUP, and SIGKILL five seconds "
		"later. SIGINT and SIGTERM are passed on to the command. Output that does not go to a "
		"terminal counts against the sandbox's *--output-limit*. Each command is written to "
		"the audit log before it starts; if that fails, it is not started.\n"
		"\n"
		"With *-d* coffer exec returns 0 as soon as the command runs, and prints nothing; a "
		"command that cannot be started is reported as without *-d* (127, 126, 125). As with "
		"docker, its stdin is empty and its output is dropped: redirect it inside to keep it "
		"(*sh -c 'server >/tmp/log 2>&1'*). *-t* gives the command a terminal that nobody "
		"sees, *-i* has no effect. The audit log has its end and its exit code (*exec.end*). "
		"In a run with *--checkpoint each*, no checkpoint is made after it, because it still "
		"runs.\n"
		"\n"
		"Processes that a command leaves in the background continue to run. When the sandbox's "
		"own command ends, everything in the sandbox ends.",
	.examples = "coffer exec -it web -- bash\n"
		    "\t# a shell in the sandbox named web\n"
		    "coffer exec -e DEBUG=1 web make test\n"
		    "\t# a command with an environment variable\n"
		    "coffer exec -d web -- sh -c 'tail -f app.log | gzip > /tmp/app.gz'\n"
		    "\t# a command that continues in the background\n",
	.args = "sandbox",
};

const struct verb verb_shell = {
	.name = "shell",
	.group = VERB_MANAGE,
	.synopsis = "[OPTIONS] REF",
	.help = "open a shell in a sandbox",
	.opts = shell_opts,
	.n_opts = ARRAY_SIZE(shell_opts),
	.run = cmd_shell,
	.text = "Opens bash, or sh where there is no bash, in a running sandbox, as *coffer exec -it "
		"REF /bin/bash* does. Without a terminal the shell reads its commands from stdin.",
	.examples = "coffer shell web\n",
	.args = "sandbox",
};
