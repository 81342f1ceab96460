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
	{ "ephemeral", 0, NULL, "use an empty workspace, wiped at the end", O_EPHEMERAL },
	{ "volume", 'v', "SRC:DST[:ro|rw]", "show a file or directory inside (ro by default)", O_VOLUME,
	  "file", .many = true },
	{ "show", 0, "PATH", "show a file that is hidden because of credentials (. for all)", O_SHOW, "file",
	  .many = true },
	{ "root", 0, "host|DIR", "root file system: that of the host, or DIR (default: host)", O_ROOT,
	  "dir" },
	{ "image", 0, "REF", "use an image as the root file system: NAME[:TAG][@sha256:…]", O_IMAGE, "name" },
	{ "home", 0, "NAME", "use a named home that persists (default: an empty one)", O_HOME, "name" },
	{ "checkpoint", 0, "WHEN", "each: one after every command (default: off; with --profile: each)",
	  O_CHECKPOINT, "each off" },
	{ "keep", 0, "N", "keep at most N checkpoints (default with each: 100)", O_KEEP },
	{ "i-know", 0, NULL, "allow -v for sockets, keys and similar files", O_I_KNOW },
	OPT_SECTION("Command"),
	{ "profile", 0, "NAME|FILE", "add what a known agent needs: see coffer-profile(1)", O_PROFILE,
	  "name" },
	{ "settings", 0, NULL, "copy your own settings of the agent, without credentials", O_SETTINGS },
	{ "entrypoint", 0, "COMMAND", "replace the image's own entry point", O_ENTRYPOINT },
	{ "env", 'e', "NAME[=VALUE]", "set or copy an environment variable", O_ENV, .many = true },
	{ "env-file", 0, "FILE", "set the variables of a .env file; keys belong in the vault", O_ENV_FILE,
	  "file", .many = true },
	{ "workdir", 'w', "DIR", "working directory inside (default: /workspace)", O_WORKDIR },
	{ "user", 0, "UID[:GID]", "user inside (default: your own); root is never root outside", O_USER },
	{ "map-ids", 0, NULL, "map a whole range of ids, not only one (newuidmap)", O_MAP_IDS },
	{ "tty", 't', NULL, "give the command a terminal (default: if you are on one)", O_TTY },
	{ "no-tty", 'T', NULL, "give the command no terminal", O_NO_TTY },
	{ "detach", 'd', NULL, "run in the background and print the id", O_DETACH },
	{ "name", 0, "NAME", "a name for the sandbox", O_NAME, "name" },
	{ "restart", 0, "WHEN", "with -d: no, on-failure[:N] or always (default: no)", O_RESTART,
	  RESTART_VALUES },
	OPT_SECTION("Wall"),
	RUN_OPTS_WALL,
	OPT_SECTION("Network"),
	RUN_OPTS_NET,
	{ "ask-prompt", 0, "WHEN", "auto (the default): ask questions on your terminal; never: do not",
	  O_ASK_PROMPT, RUN_PROMPT_NAMES },
	OPT_SECTION("Limits"),
	RUN_OPTS_LIMITS,
	OPT_SECTION("Afterwards"),
	{ "rm", 0, NULL, "remove the run and its changes when it ends", O_RM },
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
	if (cli_run_restart_is_wanted(o->restart) && (!o->detach || !o->name))
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

	r = cli_run_args_begin(a, e);
	if (r < 0)
		return r;
	a->o.has_net = true;
	while ((id = opt_next(&p, &value, e)) > 0) {
		if (id == OPT_HELP)
			return 1;
		r = cli_run_args_take(a, run_opts_table, ARRAY_SIZE(run_opts_table), id, value, e);
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
	r = a->profile ? cli_run_profile_apply(a, a->profile, &a->added, e) : 0;
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
	return cli_run_start_format(start, &(struct strv){ l->argv, (size_t)l->argc }, &a->o.env, a->o.name,
				    a->o.home, e);
}

/* A restart that failed because the vault is locked has an exit code of its own: cofferd retries once it is
 * unlocked. */
static int report_run_error(const struct err *e, const struct run_line *l)
{
	int code = say_error(e);

	return l->again && e->code == -VAULT_LOCKED ? KEEPER_EXIT_LOCKED : code;
}

/* Finds another running sandbox that has this port of the host. "127.0.0.1:8000->80, …" are the ports of one. */
static bool find_port_holder(struct state *st, const char *own_id, const char *port, char ret[80])
{
	autostrv struct strv ids = STRV_INIT;
	autobuf struct buf want = BUF_INIT;
	struct err ignored = ERR_INIT;
	bool found = false;

	buf_addf(&want, ":%s->", port);
	if (state_run_list(st, &ids, &ignored) < 0 || buf_error(&want))
		return false;
	for (size_t i = 0; !found && i < ids.n; i++) {
		CLEANUP(state_meta_release) struct run_meta m = { 0 };
		bool alive = false;
		autoclose int fd = state_run_open(st, ids.v[i], &alive, &ignored);

		found = fd >= 0 && alive && !str_eq(ids.v[i], own_id) &&
			state_meta_read(fd, &m, &ignored) == 0 && m.ports && strstr(m.ports, buf_cstr(&want));
		if (found)
			snprintf(ret, 80, "%s", m.name ? m.name : m.id);
	}
	return found;
}

/* coffer start and coffer fork have no -p: the port of the run has to become free. */
static void hint_to_free_port(struct session *s, const struct strv *publish, struct err *e)
{
	const char *text = s->ports.n < publish->n ? publish->v[s->ports.n] : "";
	const char *end = strrchr(text, ':'), *begin = end;
	char port[8], holder[80];

	while (begin && begin > text && begin[-1] != ':')
		begin--;
	if (!end || (size_t)snprintf(port, sizeof(port), "%.*s", (int)(end - begin), begin) >= sizeof(port))
		return;
	if (find_port_holder(&s->st, s->spec.id, port, holder))
		err_hint(e, e->code, "stop the sandbox that uses port %s: coffer stop %s", port, holder);
	else
		err_hint(e, e->code, "stop the program that uses port %s", port);
}

/* If the same line was typed twice, the port is in use by the sandbox of that name; that error says more. */
static void explain_taken_port(struct session *s, const struct run_args *a, const struct run_line *l,
			       struct err *e)
{
	struct err taken = ERR_INIT;

	if (l->again)
		hint_to_free_port(s, &a->o.publish, e);
	else if (s->spec.name && state_name_check(&s->st, s->spec.name, &taken) < 0)
		*e = taken;
}

/* Runs the sandbox, from opening the state directory to the report. Returns the exit code. */
static int run_session(struct run_args *a, const struct run_line *l, int ready_fd, const struct rm_keeper *rm)
{
	autobuf struct buf start = BUF_INIT;
	CLEANUP(cli_session_release) struct session s = SESSION_INIT;
	struct run_io io = RUN_IO_INIT;
	struct prompt_opts prompt;
	struct err e = ERR_INIT;
	int r;

	/* A restart keeps its id: the vault knows the sandbox by it. */
	if (l->again && l->again->origin.kind == RUN_RESUMED)
		memcpy(s.spec.id, l->again->id, sizeof(s.spec.id));
	r = cli_session_open(&s, a, &e);
	if (r == -EADDRINUSE)
		explain_taken_port(&s, a, l, &e);
	if (r < 0 && s.usage && !l->again)
		return say_usage(&verb_run, &e);
	if (r == 0 && a->rm)
		r = s.spec.id[0] ? 0 : state_new_id(s.spec.id, &e);
	if (r == 0 && a->rm)
		r = cli_rm_keeper_tell(rm, s.spec.id, &e);
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
		io.say = cli_run_say_net;
		io.prompt = !a->o.no_prompt && cli_run_prompt_open(&prompt, &s.st) ? &prompt : NULL;
	}
	cli_run_say_before(&s.spec, &s.choice, &s.note);
	/* For a restart, cofferd shows the first line of the output, which should be the reason of a
	 * failure. */
	if (!l->again)
		cli_run_say_conflicts(&s.net);
	r = run_execute(&s.run, &io, &e);
	return r < 0 ? report_run_error(&e, l) : cli_session_end(&s, a);
}

static int run_here(struct run_args *a, const struct run_line *l, int ready_fd)
{
	struct rm_keeper rm = RM_KEEPER_INIT;
	struct err e = ERR_INIT;
	int code, removed;

	if (!a->rm)
		return run_session(a, l, ready_fd, NULL);
	if (cli_rm_keeper_start(&rm, &e) < 0)
		return say_error(&e);
	code = run_session(a, l, ready_fd, &rm);
	removed = cli_rm_keeper_end(&rm);
	return removed ? removed : code;
}

/* A launcher that was killed, for example for a system call that it may not make (confine.C4), has printed nothing. */
static int report_launcher_end(int status)
{
	struct err e = ERR_INIT;

	if (WIFEXITED(status))
		return WEXITSTATUS(status) ? WEXITSTATUS(status) : EXIT_OURS;
	err_set(&e, -EIO,
		"the sandbox's launcher was killed by signal %d (%s) before the command was started",
		WTERMSIG(status), strsignal(WTERMSIG(status)));
	return say_error(&e);
}

/* Forks the launcher of a detached sandbox. The child writes the run's id into a pipe once the command
 * was started; if it ends without doing so, it has printed the reason, and its exit code is returned. */
static int start_detached(struct run_args *a, const struct run_line *l, char id[RUN_ID_LEN + 1])
{
	int p[2], status = 0;
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
	return report_launcher_end(status);
}

static int run_detached(struct run_args *a, const struct run_line *l)
{
	char id[RUN_ID_LEN + 1] = "";
	int code = start_detached(a, l, id);

	if (code == 0 && cli_run_restart_is_wanted(a->o.restart))
		code = cli_run_restart_keep(id);
	if (code)
		return code;
	printf("%s\n", id);
	return fflush(stdout) == 0 ? 0 : EXIT_OURS;
}

int cli_run_again(const struct run_start *s, const struct run_again *how, char ret_id[RUN_ID_LEN + 1])
{
	CLEANUP(cli_run_args_release) struct run_args a = RUN_ARGS_INIT;
	const struct run_line l = { (int)s->argv.n, s->argv.v, how };
	struct err e = ERR_INIT;
	int r = cli_run_start_enter(s, &e), code;

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
	return code == 0 && how->origin.kind != RUN_RESUMED && cli_run_restart_is_wanted(a.o.restart)
		       ? cli_run_restart_keep(ret_id)
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
		return cli_run_restart_again(argv[1] + sizeof(again) - 1);
	r = parse_run(&a, argc, argv, &e);
	if (r == 1)
		code = verb_print_help(&verb_run);
	else if (r < 0)
		code = say_usage(&verb_run, &e);
	else
		code = a.o.detach ? run_detached(&a, &l) : run_here(&a, &l, -1);
	cli_run_args_release(&a);
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
	.text = "Runs COMMAND in a fresh sandbox. The sandbox has its own user, process, mount, "
		"network, IPC, host name, control group and time namespaces, a private root file "
		"system with a read-only view of the host's /usr, no capabilities, a system call "
		"allowlist, Landlock where the kernel has it, and a network on which a policy decides "
		"about every connection.\n"
		"\n"
		"That is engine ns. Engine gvisor puts gVisor's own kernel (runsc) between the command "
		"and the host's kernel, inside the same namespaces; it starts in a fraction of a "
		"second instead of milliseconds, and system calls cost more. *--engine auto*, the "
		"default, chooses gvisor where runsc works and ns elsewhere, and prints its choice. An "
		"engine that was named or chosen is never replaced by another. An ordinary user needs "
		"subordinate ids for gvisor, or *--user 0*.\n"
		"\n"
		"The current directory (or *-C* DIR) appears at /workspace under a layer: the command "
		"may write, and the original stays unchanged. Afterwards coffer prints how many files "
		"changed; coffer-diff(1) shows the changes, coffer-apply(1) writes them to the "
		"original, coffer-discard(1) throws them away. A home directory, a directory that "
		"contains one, and the root directory are refused as workspaces; if the current "
		"directory is one of these and there is no *-C*, the workspace is empty and wiped at "
		"the end. Renaming a directory of the original fails with EXDEV inside, as on any "
		"overlay in a user namespace; mv(1), git(1) and similar programs copy it instead. With "
		"*-C* DIR:rw there is no layer: the command writes to DIR itself, and *--disk* is "
		"refused, because nothing limits the total there. With DIR:ro it cannot write there.\n"
		"\n"
		"Files that usually hold credentials (.env, .ssh, .aws, .netrc, private keys and "
		"similar files) appear empty inside; *--show* PATH makes one readable. A .git/config "
		"that contains a token appears without the token.\n"
		"\n"
		"With *--root* DIR that directory is the root file system, under a layer of the run: "
		"the command may write everywhere, and DIR stays unchanged. The layer counts against "
		"*--disk* and is removed when the run ends; the layer of a run with a name is removed "
		"by *coffer rm*. /proc, /dev, /sys, /tmp, /var/tmp, /etc/hosts, /etc/hostname and "
		"/etc/resolv.conf are the sandbox's own. An ordinary user cannot change files in DIR "
		"that belong to others, not even in the layer.\n"
		"\n"
		"With *--image* REF an image of *coffer image* is the root file system, in the same "
		"way. Its configuration applies as with docker: entry point and command "
		"(*--entrypoint*, COMMAND), variables (*-e*), working directory (*-w*; /workspace if "
		"the image names none), and the user, by name or number in the image's own "
		"/etc/passwd. If the image names no user, the command runs as root inside, which "
		"outside is you, or an unprivileged user if you are root.\n"
		"\n"
		"A policy outside of the sandbox decides about every connection and every name that "
		"the command looks up (" DOCS_EGRESS
		"). *--allow* and *--policy* define what is allowed; without them, nothing is. With "
		"both, the policy file is the ceiling: a host is reachable only if the file allows it "
		"and *--allow* or *--profile* requests it. *--allow @policy* requests everything that "
		"the file allows. Hosts of *--allow* that the file does not allow are reported before "
		"the start. *--resolver* (may be repeated) names the DNS servers to use instead of "
		"those in /etc/resolv.conf; if the policy file names resolvers too, only resolvers "
		"that are in both lists are used.\n"
		"\n"
		"A name that is not allowed does not exist inside, and other connections are refused "
		"with the reason. Each denial is one line on the terminal and in the log "
		"(coffer-why(1), coffer-net(1)); while the command draws a full-screen display, these "
		"lines wait for its end. *--net observe* allows and logs everything that no rule "
		"denies, except private addresses; *--net none* leaves only loopback.\n"
		"\n"
		"A policy file is watched: a change is in force at once, and a file with an error "
		"leaves the previous policy in force. The file must be where neither the sandbox nor "
		"other users can write. If a rule inspects TLS, programs inside find the sandbox's own "
		"certificate authority through the usual environment variables and in the system's "
		"bundle; if a change of the file adds the first such rule, programs that start "
		"afterwards find it (Java only after *coffer restart*). If the processes that carry "
		"the network cannot be kept running, the sandbox is ended.\n"
		"\n"
		"An act that a rule leaves to a person waits for an answer (coffer-ask(1)). For a run "
		"in the foreground, the question appears on the terminal: the command's output is held "
		"back, input that was typed before is discarded, and the answer is the displayed code, "
		"followed by _sandbox_, _2h_ or _3x_ to allow the act more than once; or _deny_, "
		"_later_, _never_. Ctrl-C leaves the question open. With *--ask-prompt never*, a line "
		"on the terminal reports the question instead.\n"
		"\n"
		"*-p* publishes a port of the sandbox on this machine, also with *--net none*. It "
		"listens on 127.0.0.1 unless an address is given; an address that other machines can "
		"reach needs *--public*. Port 0 takes any free port, which *coffer ps --json* shows.\n"
		"\n"
		"The environment has only PATH, HOME, USER, TERM, LANG, TZ and the variables of *-e* "
		"and *--env-file*. A .env file has lines NAME=VALUE, and the sandbox sees these "
		"values: keys and tokens belong in the vault (coffer-secret(1)). The command inherits "
		"nothing else from the caller, neither open files nor the terminal: on a terminal it "
		"gets a private one.\n"
		"\n"
		"With *--restart*, a named sandbox in the background is started again after it has "
		"ended: with *on-failure* unless it exited with 0 (*on-failure:N*: at most N times in "
		"a row), with *always* however it ended. It keeps its id, its name and everything that "
		"it wrote. The pause before each start doubles, from a tenth of a second up to a "
		"minute, and is reset after a run of ten seconds. *coffer stop* ends the sandbox for "
		"good. *cofferd* (coffer-gateway(1)) does the restarts, and is started if it does not "
		"run; for restarts after a reboot, start it at boot.\n"
		"\n"
		"A limit that was named and cannot be enforced on this machine is an error. A default "
		"limit that cannot be enforced is reported in one line, once after each boot, and "
		"always in the report and by coffer-doctor(1).\n"
		"\n"
		"With *--rm* nothing of the run is kept, neither its changes nor its name, even if its "
		"launcher is killed.\n"
		"\n"
		"Some options of docker run are accepted for those of coffer (--network for --net, "
		"--pids-limit for --pids, --cap-add for --cap, -u for --user). -i, --init and "
		"--cap-drop request what coffer always does, and are ignored.\n"
		"\n"
		"The exit status is that of COMMAND, or 128+N if signal N killed it; 124 if the time "
		"limit was reached; 125 if coffer itself failed, 126 if COMMAND could not be executed, "
		"127 if it was not found; 2 for a wrong command line.",
	.examples = "coffer run -- make test\n"
		    "\t# build in a layer over the current directory\n"
		    "coffer run --ephemeral --memory 1g --timeout 60s -- python3 -c 'print(1)'\n"
		    "\t# no files of yours, a minute at most\n"
		    "coffer run -d --name web -- python3 -m http.server\n"
		    "\t# in the background; then: coffer exec web -- ps\n"
		    "coffer run --allow @pypi --allow api.example.com -- pip install -r requirements.txt\n"
		    "\t# these hosts and no others\n",
	.args = "command",
};
