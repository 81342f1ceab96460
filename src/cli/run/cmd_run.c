/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer run: a command in a sandbox, in the foreground or detached. Also the restart of a sandbox whose
 * command line was stored (run_again.h). The order of the steps is in run_session(): everything that can be
 * refused is refused before run_execute() makes the sandbox.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "cli/box/cmd_checkpoint.h"
#include "cli/box/cmd_rm.h"
#include "cli/core/docs.h"
#include "cli/core/say.h"
#include "cli/core/verb.h"
#include "cli/run/run_again.h"
#include "cli/run/run_args.h"
#include "cli/run/run_profile.h"
#include "cli/run/run_prompt.h"
#include "cli/run/run_restart.h"
#include "cli/run/run_say.h"
#include "cli/run/session.h"
#include "daemon/child/restart.h"
#include "daemon/keeper/keeper.h"
#include "run/run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

static const struct opt run_opts_table[] = {
	OPT_SECTION("Files"),
	{ "workspace", 'C', "DIR[:ro|rw]", "show DIR at /workspace (default: here, under a layer)",
	  O_WORKSPACE, "dir" },
	{ "ephemeral", 0, NULL, "an empty workspace, wiped at the end", O_EPHEMERAL },
	{ "volume", 'v', "SRC:DST[:ro|rw]", "show a file or directory inside (ro by default)", O_VOLUME,
	  "file", .many = true },
	{ "show", 0, "PATH", "open a file that is hidden for its credentials (. for all)", O_SHOW, "file",
	  .many = true },
	{ "root", 0, "host|DIR", "what the root file system is made of (default: host)", O_ROOT, "dir" },
	{ "image", 0, "REF", "an image as the root file system: NAME[:TAG][@sha256:…]", O_IMAGE, "name" },
	{ "home", 0, "NAME", "a named home that persists (default: an empty one)", O_HOME, "name" },
	{ "checkpoint", 0, "WHEN", "each: after every command in it (off; agents: each)", O_CHECKPOINT,
	  "each off" },
	{ "keep", 0, "N", "keep at most N checkpoints (100 with each)", O_KEEP },
	{ "i-know", 0, NULL, "let -v show sockets, keys and the like", O_I_KNOW },
	OPT_SECTION("Command"),
	{ "profile", 0, "NAME|FILE", "what a known agent needs: see coffer-profile(1)", O_PROFILE, "name" },
	{ "settings", 0, NULL, "with your own settings of the agent, but for credentials", O_SETTINGS },
	{ "entrypoint", 0, "COMMAND", "instead of the image's own entry point", O_ENTRYPOINT },
	{ "env", 'e', "NAME[=VALUE]", "set or copy an environment variable", O_ENV, .many = true },
	{ "env-file", 0, "FILE", "set the variables of a .env file; keys belong in the vault", O_ENV_FILE,
	  "file", .many = true },
	{ "workdir", 'w', "DIR", "working directory inside (default: /workspace)", O_WORKDIR },
	{ "user", 0, "UID[:GID]", "user inside (default: your own); root is never root outside", O_USER },
	{ "map-ids", 0, NULL, "map a whole range of ids, not only one (newuidmap)", O_MAP_IDS },
	{ "tty", 't', NULL, "give the command a terminal (default: when you are on one)", O_TTY },
	{ "no-tty", 'T', NULL, "give it none", O_NO_TTY },
	{ "detach", 'd', NULL, "run in the background and print the id", O_DETACH },
	{ "name", 0, "NAME", "a name for the sandbox", O_NAME, "name" },
	{ "restart", 0, "WHEN", "with -d: no, on-failure[:N] or always (default: no)", O_RESTART,
	  RESTART_VALUES },
	OPT_SECTION("Wall"),
	RUN_OPTS_WALL,
	OPT_SECTION("Network"),
	RUN_OPTS_NET,
	{ "ask-prompt", 0, "WHEN", "auto: questions are asked on your terminal; never (default: auto)",
	  O_ASK_PROMPT, RUN_PROMPT_NAMES },
	OPT_SECTION("Limits"),
	RUN_OPTS_LIMITS,
	OPT_SECTION("Afterwards"),
	{ "rm", 0, NULL, "remove it at its end, with all that it changed", O_RM },
	{ "report", 0, "FILE", "write one JSON object about the run", O_REPORT, "file" },
	{ "quiet", 'q', NULL, "print only errors and warnings", O_QUIET },
};

/* The whole command line, which is stored so that the sandbox can be started again. */
struct run_line {
	int argc;
	char **argv;
	const struct run_again
		*again; /* how a restart differs from the command line; NULL: the line was typed */
};

/* Refuses options that exclude each other or need another one. */
static int check_option_conflicts(const struct run_args *a, struct err *e)
{
	const struct run_opts *o = &a->o;

	if (a->rm && o->detach) {
		err_set(e, -EINVAL,
			"--rm and -d exclude each other: no process waits for the end of the run");
		return err_hint(e, -EINVAL, "coffer rm REF or coffer prune, once it has ended");
	}
	if (a->tty == 1 && o->detach)
		return err_set(e, -EINVAL, "-t and -d exclude each other: there is no terminal to pass on");
	if (run_restart_is_wanted(o->restart) && (!o->detach || !o->name))
		return err_set(e, -EINVAL, "--restart needs -d and --name");
	if (o->image && o->root)
		return err_set(e, -EINVAL,
			       "--image and --root exclude each other: both name the root file system");
	if (a->settings && !a->profile)
		return err_set(e, -EINVAL, "--settings needs --profile");
	if (o->entrypoint && !o->image)
		return err_set(e, -EINVAL, "--entrypoint needs --image");
	return limits_check(&o->limits, e);
}

/* Returns 1 for --help. */
static int parse_run(struct run_args *a, int argc, char **argv, struct err *e)
{
	struct optparse p = OPTPARSE_INIT(argc, argv, run_opts_table, ARRAY_SIZE(run_opts_table));
	const char *value;
	int id, r;

	r = run_args_begin(a, e);
	if (r < 0)
		return r;
	a->o.has_net = true;
	while ((id = opt_next(&p, &value, e)) > 0) {
		if (id == OPT_HELP)
			return 1;
		r = run_args_take(a, run_opts_table, ARRAY_SIZE(run_opts_table), id, value, e);
		if (r < 0)
			return r;
	}
	if (id < 0)
		return id;
	if (p.index >= p.argc && !a->o.image && !a->profile) {
		err_set(e, -EINVAL, "run needs a command");
		return err_hint(e, -EINVAL, "coffer run -- make test");
	}
	if (p.index < p.argc && !*p.argv[p.index])
		return err_set(e, -EINVAL, "the command is an empty string");
	a->o.argc = p.argc - p.index;
	a->o.argv = p.argv + p.index;
	r = a->profile ? run_profile_apply(a, a->profile, &a->added, e) : 0;
	if (r < 0)
		return r;
	if (a->o.argc == 0 && !a->o.image)
		return err_set(e, -EINVAL, "run needs a command: the profile names none");
	if (a->tty > 0 && !a->o.detach && !isatty(0)) {
		err_set(e, -EINVAL, "standard input is not a terminal, so -t cannot work");
		return err_hint(e, -EINVAL, "leave -t out");
	}
	a->o.tty = a->tty >= 0 ? a->tty : !a->o.detach && isatty(0) && isatty(1);
	/* An agent is somebody else's program, and each command in its sandbox is a call: a checkpoint
	 * follows each of them. */
	if (a->profile && !a->o.each_named)
		a->o.each = true;
	if (a->o.each && !a->o.keep)
		a->o.keep = CHECKPOINT_KEEP;
	return check_option_conflicts(a, e);
}

/* Sets up the run for a restart, or for a fork of another sandbox. The workspace must still be the same
 * directory. */
static int apply_restart(struct run *r, const struct run_again *again, struct err *e)
{
	const struct spec *s = r->spec;

	if (!again)
		return 0;
	if (again->workspace && (!s->ws_path || !str_eq(s->ws_path, again->workspace)))
		return err_set(e, -ESTALE, "its workspace %s was removed or replaced since it was started",
			       again->workspace);
	r->spec->restarts = again->restarts;
	r->origin = again->origin;
	return 0;
}

/* Only a run with a name, or a detached one, can be started again: its command line is stored. */
static int format_start(const struct run_args *a, const struct run_line *l, struct buf *start, struct err *e)
{
	if (!a->o.detach && !a->o.name)
		return 0;
	return run_start_format(start, &(struct strv){ l->argv, (size_t)l->argc }, &a->o.env, a->o.name,
				a->o.home, e);
}

/* A restart that failed because the vault is locked has an exit code of its own: cofferd retries once it is
 * unlocked. */
static int report_run_error(const struct err *e, const struct run_line *l)
{
	int code = say_error(e);

	return l->again && e->code == -VAULT_LOCKED ? KEEPER_EXIT_LOCKED : code;
}

/* Runs the sandbox, from opening the state directory to the report. Returns the exit code. */
static int run_session(struct run_args *a, const struct run_line *l, int ready_fd, const struct rm_keeper *rm)
{
	autobuf struct buf start = BUF_INIT;
	CLEANUP(session_release) struct session s = SESSION_INIT;
	struct run_io io = RUN_IO_INIT;
	struct prompt_opts prompt;
	struct err e = ERR_INIT, taken = ERR_INIT;
	int r;

	/* A restart keeps its id: the vault knows the sandbox by it. */
	if (l->again && l->again->origin.kind == RUN_RESUMED)
		memcpy(s.spec.id, l->again->id, sizeof(s.spec.id));
	r = session_open(&s, a, &e);
	/* If the same line was typed twice, the port is in use by the sandbox of that name; that error says
	 * more. */
	if (r == -EADDRINUSE && !l->again && s.spec.name && state_name_check(&s.st, s.spec.name, &taken) < 0)
		e = taken;
	if (r < 0 && s.usage && !l->again)
		return say_usage(&verb_run, &e);
	if (r == 0 && a->rm)
		r = s.spec.id[0] ? 0 : state_new_id(s.spec.id, &e);
	if (r == 0 && a->rm)
		r = rm_keeper_tell(rm, s.spec.id, &e);
	if (r == 0)
		r = apply_restart(&s.run, l->again, &e);
	if (r == 0)
		r = format_start(a, l, &start, &e);
	if (r < 0)
		return report_run_error(&e, l);
	s.run.start = start.len ? &start : NULL;
	io.ready_fd = ready_fd;
	if (!a->o.detach) {
		io.in = 0;
		io.out = 1;
		io.err = 2;
		io.tty = a->o.tty ? 0 : -1;
		io.say = run_say_net;
		io.prompt = !a->o.no_prompt && run_prompt_open(&prompt, &s.st) ? &prompt : NULL;
	}
	run_say_before(&s.spec, &s.choice, &s.note);
	/* For a restart, cofferd shows the first line of the output, which should be the reason of a
	 * failure. */
	if (!l->again)
		run_say_conflicts(&s.net);
	r = run_execute(&s.run, &io, &e);
	return r < 0 ? report_run_error(&e, l) : session_end(&s, a);
}

static int run_here(struct run_args *a, const struct run_line *l, int ready_fd)
{
	struct rm_keeper rm = RM_KEEPER_INIT;
	struct err e = ERR_INIT;
	int code, removed;

	if (!a->rm)
		return run_session(a, l, ready_fd, NULL);
	if (rm_keeper_start(&rm, &e) < 0)
		return say_error(&e);
	code = run_session(a, l, ready_fd, &rm);
	removed = rm_keeper_end(&rm);
	return removed ? removed : code;
}

/* Forks the launcher of a detached sandbox. The child writes the run's id into a pipe once the sandbox is
 * ready; if it ends without doing so, its exit code is returned. */
static int start_detached(struct run_args *a, const struct run_line *l, char id[RUN_ID_LEN + 1])
{
	int p[2], status;
	ssize_t n;
	pid_t pid;

	if (pipe2(p, O_CLOEXEC) < 0 || (pid = fork()) < 0) {
		struct err e = ERR_INIT;

		err_sys(&e, -errno, "cannot start a process");
		return say_error(&e);
	}
	if (pid == 0) {
		fd_close(p[0]);
		setsid();
		_exit(run_here(a, l, p[1]));
	}
	fd_close(p[1]);
	do {
		n = read(p[0], id, RUN_ID_LEN);
	} while (n < 0 && errno == EINTR);
	fd_close(p[0]);
	if (n == RUN_ID_LEN)
		return 0;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) && WEXITSTATUS(status) ? WEXITSTATUS(status) : EXIT_OURS;
}

static int run_detached(struct run_args *a, const struct run_line *l)
{
	char id[RUN_ID_LEN + 1] = "";
	int code = start_detached(a, l, id);

	if (code == 0 && run_restart_is_wanted(a->o.restart))
		code = run_restart_keep(id);
	if (code)
		return code;
	printf("%s\n", id);
	return fflush(stdout) == 0 ? 0 : EXIT_OURS;
}

int run_again(const struct run_start *s, const struct run_again *how, char ret_id[RUN_ID_LEN + 1])
{
	CLEANUP(run_args_release) struct run_args a = RUN_ARGS_INIT;
	const struct run_line l = { (int)s->argv.n, s->argv.v, how };
	struct err e = ERR_INIT;
	int r = run_start_enter(s, &e), code;

	if (r == 0)
		r = parse_run(&a, l.argc, l.argv, &e);
	if (r != 0) {
		if (r > 0)
			err_set(&e, -EBADMSG, "its stored command line is damaged");
		return say_error(&e);
	}
	a.o.detach = true;
	a.o.tty = false;
	a.report = NULL;
	a.rm = false; /* --rm belongs to the command that was typed; nobody waits for the end of this one */
	if (how->engine && str_eq(how->engine, "gvisor") && (!a.engine || str_eq(a.engine, "auto")))
		a.engine = "gvisor";
	if (how->name || *s->name)
		a.o.name = how->name ? how->name : s->name;
	if (how->home || *s->home)
		a.o.home = how->home ? how->home : s->home;
	ret_id[0] = '\0';
	code = start_detached(&a, &l, ret_id);
	/* A forked sandbox is not yet registered with cofferd. */
	return code == 0 && how->origin.kind != RUN_RESUMED && run_restart_is_wanted(a.o.restart)
		       ? run_restart_keep(ret_id)
		       : code;
}

static int cmd_run(int argc, char **argv)
{
	static const char again[] = "--again=";
	struct run_args a = RUN_ARGS_INIT;
	const struct run_line l = { argc, argv, NULL };
	struct err e = ERR_INIT;
	int r, code;

	if (argc == 2 && str_starts(argv[1], again))
		return run_restart_again(argv[1] + sizeof(again) - 1);
	r = parse_run(&a, argc, argv, &e);
	if (r == 1)
		code = verb_print_help(&verb_run);
	else if (r < 0)
		code = say_usage(&verb_run, &e);
	else
		code = a.o.detach ? run_detached(&a, &l) : run_here(&a, &l, -1);
	run_args_release(&a);
	return code;
}

const struct verb verb_run = {
	.name = "run",
	.group = VERB_RUN,
	.synopsis = "[OPTIONS] [--] [COMMAND [ARG…]]",
	.help = "run a command in a sandbox of its own",
	.opts = run_opts_table,
	.n_opts = ARRAY_SIZE(run_opts_table),
	.run = cmd_run,
	.text = "Runs COMMAND in a fresh sandbox: its own user, process, mount, network, IPC, host name, control group and "
		"time namespaces, a private root file system with a read-only view of the host's /usr, no capability, a "
		"system call allowlist, Landlock where the kernel has it, and a network that leads nowhere but to a decision.\n"
		"\n"
		"That is engine ns. Engine gvisor puts gVisor's own kernel (runsc) between the command and the host's, inside "
		"the same namespaces; it starts in a fraction of a second instead of milliseconds, and system calls cost "
		"more. auto, the default, takes gvisor where runsc works, ns elsewhere, and says which; an engine that was "
		"named or chosen is never replaced by another. An ordinary user needs subordinate ids for gvisor, or --user 0.\n"
		"\n"
		"The current directory (or -C DIR) appears at /workspace under a layer: the command may write, the original "
		"stays as it is. Afterwards coffer says how many files changed; coffer-diff(1) shows them, coffer-apply(1) "
		"brings them out, coffer-discard(1) throws them away. A home directory, anything above one, and the root "
		"directory are refused as workspaces; where the current directory is such a one and no -C was given, the "
		"workspace is empty and wiped at the end. Renaming a directory of the original gives EXDEV inside, as on any "
		"overlay in a user namespace; mv(1), git(1) and the like copy instead.\n"
		"\n"
		"Files that usually hold credentials (.env, .ssh, .aws, .netrc, private keys and the like) appear empty "
		"inside; --show PATH opens one. A .git/config that carries a token appears without it.\n"
		"\n"
		"With --root DIR the root file system is that directory, under a layer of the run's own: the command may write "
		"everywhere, DIR stays as it is, and the layer counts against --disk and is removed at the end (that of a run "
		"with a name: by *coffer rm*). /proc, /dev, /sys, /tmp, /var/tmp, and of /etc hosts, hostname and resolv.conf are "
		"the sandbox's own. An ordinary user cannot change what others own in DIR, not even in the layer.\n"
		"\n"
		"With --image REF it is an image of *coffer image*, the same way. What its configuration says counts as with "
		"docker: entry point and command (--entrypoint, COMMAND), variables (-e), working directory (-w; without one: "
		"/workspace), and the user, by name or number in the image's own /etc/passwd; without one: root, which is you, or as "
		"root nobody, outside.\n"
		"\n"
		"Every connection and name of the command's is decided by a policy outside (" DOCS_EGRESS
		"): --allow and --policy say "
		"what is let through; without either, nothing is. The file is the ceiling, --allow and --profile are the need, and what both allow is allowed; --allow @policy needs all of the file. Hosts of --allow that the file does not allow are reported before the start. --resolver (any number "
		"of them) says whom to ask for names instead of /etc/resolv.conf's; where the policy file names resolvers too, only those "
		"that both name are asked. A name that is not allowed "
		"does not exist inside, other connections are refused with the reason, each in one line on the terminal and in the "
		"log (coffer-why(1), coffer-net(1)); while the command draws a screen of its own, such lines wait for its end. --net observe lets through and writes down what no rule denies, never private "
		"addresses; --net none leaves loopback. A policy file is watched: a change counts at once, one that is broken leaves "
		"the policy as it was. It must be where neither the sandbox nor others can write. Where a rule looks into TLS, "
		"programs inside find a certificate authority of the sandbox's own by the usual variables and in the system's bundle "
		"(not Java's); where a change of the file brings the first such rule, those that start afterwards do. If the processes that carry the network cannot be kept running, the sandbox is ended.\n"
		"\n"
		"An act that a rule leaves to a person waits for an answer (coffer-ask(1)). In the foreground the question is asked on the "
		"terminal: the command's output is held back, input typed before is discarded, and the answer is the code that is shown, "
		"followed by _sandbox_, _2h_ or _3x_ to allow more than once; or _deny_, _later_, _never_. Ctrl-C leaves the question open. "
		"With --ask-prompt never, a line on the terminal reports the question instead.\n"
		"\n"
		"With -p a port of this machine leads to one inside, also with --net none; 127.0.0.1 unless an address is named, and "
		"one that others can reach needs --public. Port 0 takes any that is free; *coffer ps --json* tells.\n"
		"\n"
		"The environment is empty but for PATH, HOME, USER, TERM, LANG, TZ and what -e and --env-file name. A .env file has "
		"lines NAME=VALUE, which the sandbox sees as they are: keys and tokens belong in the vault (coffer-secret(1)). Nothing of the caller's "
		"is inherited: no descriptor, no terminal. On a terminal the command gets a private one of its own.\n"
		"\n"
		"With --restart a sandbox that runs in the background under a name is started again when it has ended: *on-failure* "
		"unless it exited with 0 (*:N*: at most N times in a row), *always* however it ended; with all that it wrote, its "
		"id and its name. The pause before each start doubles, from a tenth of a second up to a minute, and begins again "
		"after a run of ten seconds. *coffer stop* ends it for good. It is *cofferd* that does so (coffer-gateway(1)), "
		"which is started when there is none; to have sandboxes come back after a reboot, have it started at boot.\n"
		"\n"
		"A limit that was named and cannot be enforced here is an error; a default that cannot be is said in one line, "
		"once until the machine is started again, and always in the report and by coffer-doctor(1).\n"
		"\n"
		"With --rm nothing is kept of the run, neither its changes nor its name, also when its launcher is killed.\n"
		"\n"
		"Some options of docker run are accepted as those of coffer (--network as --net, --pids-limit as --pids, --cap-add "
		"as --cap, -u as --user); -i, --init and --cap-drop ask for what always holds, and are ignored.\n"
		"\n"
		"Exit status: that of COMMAND, 128+N when it died of signal N; 124 when the time limit was reached; 125 when "
		"coffer itself failed, 126 when COMMAND could not be executed, 127 when it was not found; 2 for a wrong "
		"command line.",
	.examples = "coffer run -- make test\n"
		    "\t# build in a layer over the current directory\n"
		    "coffer run --ephemeral --memory 1g --timeout 60s -- python3 -c 'print(1)'\n"
		    "\t# nothing of the host, a minute at most\n"
		    "coffer run -d --name web -- python3 -m http.server\n"
		    "\t# in the background; then: coffer exec web -- ps\n"
		    "coffer run --allow @pypi --allow api.example.com -- pip install -r requirements.txt\n"
		    "\t# these and nothing else\n",
	.args = "command",
};
