/* SPDX-License-Identifier: Apache-2.0 */
/* coffer run: a command behind the wall, in the foreground or detached. */
#include "gateway/run.h"
#include "base/clock.h"
#include "base/fd.h"
#include "cli/run_again.h"
#include "cli/run_say.h"
#include "cli/run_spec.h"
#include "cli/say.h"
#include "cli/verb.h"
#include "sys/caps.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum {
	O_ENV = 1,
	O_WORKDIR,
	O_VOLUME,
	O_WORKSPACE,
	O_EPHEMERAL,
	O_SHOW,
	O_HOME,
	O_USER,
	O_MAP_IDS,
	O_CAP,
	O_NESTED,
	O_ENGINE,
	O_NET,
	O_NAME,
	O_DETACH,
	O_TTY,
	O_NO_TTY,
	O_REPORT,
	O_I_KNOW,
	O_QUIET,
	O_CHECKPOINT,
	O_KEEP,
	O_LIMITS,
	O_LIMIT, /* and all behind it: the options whose names limits_set() knows */
};

static const struct opt run_opts_table[] = {
	OPT_SECTION("Files"),
	{ "workspace", 'C', "DIR[:ro|rw]", "show DIR at /workspace (default: here, under a layer)",
	  O_WORKSPACE, "dir" },
	{ "ephemeral", 0, NULL, "an empty workspace, wiped at the end", O_EPHEMERAL },
	{ "volume", 'v', "SRC:DST[:ro|rw]", "show a file or directory inside (ro by default)", O_VOLUME,
	  "file" },
	{ "show", 0, "PATH", "open a file that is hidden for its credentials (. for all)", O_SHOW, "file" },
	{ "home", 0, "NAME", "a named home that persists (default: an empty one)", O_HOME, "name" },
	{ "i-know", 0, NULL, "let -v show sockets, keys and the like", O_I_KNOW },
	OPT_SECTION("Command"),
	{ "env", 'e', "NAME[=VALUE]", "set or copy an environment variable", O_ENV },
	{ "workdir", 'w', "DIR", "working directory inside (default: /workspace)", O_WORKDIR },
	{ "user", 0, "UID[:GID]", "user inside (default: your own); root is never root outside", O_USER },
	{ "map-ids", 0, NULL, "map a whole range of ids, not only one (newuidmap)", O_MAP_IDS },
	{ "tty", 't', NULL, "give the command a terminal (default: when you are on one)", O_TTY },
	{ "no-tty", 'T', NULL, "give it none", O_NO_TTY },
	{ "detach", 'd', NULL, "run in the background and print the id", O_DETACH },
	{ "name", 0, "NAME", "a name for the sandbox", O_NAME, "name" },
	OPT_SECTION("Wall"),
	{ "engine", 0, "ENGINE", "how to isolate", O_ENGINE, "auto ns" },
	{ "net", 0, "MODE", "what network there is inside", O_NET, "none" },
	{ "cap", 0, "NAME[,…]", "keep a capability (within the sandbox only)", O_CAP },
	{ "nested", 0, NULL, "allow user namespaces inside (browsers, bwrap)", O_NESTED },
	OPT_SECTION("Limits"),
	{ "limits", 0, "PRESET", "default, strict, best-effort", O_LIMITS, "default strict best-effort" },
	{ "memory", 'm', "SIZE", "memory and swap together", O_LIMIT + 0 },
	{ "memory-reservation", 0, "SIZE", "memory that is kept for it", O_LIMIT + 1 },
	{ "cpus", 0, "N", "CPUs, as in 1.5", O_LIMIT + 2 },
	{ "pids", 0, "N", "processes and threads", O_LIMIT + 3 },
	{ "nofile", 0, "SOFT[:HARD]", "open files of one process", O_LIMIT + 4 },
	{ "timeout", 0, "TIME", "wall time: 90s, 10m, 2h", O_LIMIT + 5 },
	{ "tmp-size", 0, "SIZE", "/tmp, /run and the empty home together", O_LIMIT + 6 },
	{ "shm-size", 0, "SIZE", "/dev/shm", O_LIMIT + 7 },
	{ "output-limit", 0, "SIZE", "what it may print to a file or pipe", O_LIMIT + 8 },
	{ "disk", 0, "SIZE[,FILES]", "what it may write to the workspace", O_LIMIT + 9 },
	OPT_SECTION("Checkpoints"),
	{ "checkpoint", 0, "WHEN", "after each command that is started in it, or off", O_CHECKPOINT,
	  "each off" },
	{ "keep", 0, "N", "so many checkpoints at most (100 with each)", O_KEEP },
	OPT_SECTION("Afterwards"),
	{ "report", 0, "FILE", "write one JSON object about the run", O_REPORT, "file" },
	{ "quiet", 'q', NULL, "say only what went wrong", O_QUIET },
};

#define KEEP_EACH 100

struct args {
	struct run_opts o;
	int all_argc; /* the whole command line, for one that can be started again */
	char **all_argv;
	const struct run_again *again; /* NULL: as typed */
	const char *report;
	int tty; /* 1 yes, 0 no, -1 as it comes */
};

static int add_caps(uint64_t *caps, const char *text, struct err *e)
{
	autofree char *copy = strdup(text);
	char *save = NULL;

	if (!copy)
		return err_set(e, -ENOMEM, "out of memory");
	for (char *p = strtok_r(copy, ",", &save); p; p = strtok_r(NULL, ",", &save)) {
		uint64_t mask;
		int r = caps_parse(p, &mask, e);

		if (r < 0)
			return r;
		*caps |= mask;
	}
	return 0;
}

static int add_str(struct strv *l, const char *s, struct err *e)
{
	return strv_add(l, s) < 0 ? err_set(e, -ENOMEM, "out of memory") : 0;
}

static const char *opt_name(int id)
{
	for (size_t i = 0; i < ARRAY_SIZE(run_opts_table); i++) {
		if (run_opts_table[i].id == id)
			return run_opts_table[i].name;
	}
	BUG("an option that is not in the table");
}

static int set_keep(struct run_opts *o, const char *value, struct err *e)
{
	if (str_to_u64(value, &o->keep) < 0 || o->keep == 0 || o->keep > 1000000)
		return err_set(e, -EINVAL, "--keep %s: expected a number of checkpoints, from 1 on", value);
	return 0;
}

static int set_checkpoint(struct run_opts *o, const char *value, struct err *e)
{
	int r = opt_one_of("--checkpoint", value, "each off", e);

	o->each = r == 0;
	return r < 0 ? r : 0;
}

static int take_option(struct args *a, int id, const char *value, struct err *e)
{
	struct run_opts *o = &a->o;

	if (id >= O_LIMIT)
		return limits_set(&o->limits, opt_name(id), value, e);
	switch (id) {
	case O_ENV:
		return add_str(&o->env, value, e);
	case O_VOLUME:
		return add_str(&o->volumes, value, e);
	case O_SHOW:
		return add_str(&o->show, value, e);
	case O_CAP:
		return add_caps(&o->caps, value, e);
	case O_ENGINE:
		return opt_one_of("--engine", value, "auto ns", e) < 0 ? -EINVAL : 0;
	case O_NET:
		return opt_one_of("--net", value, "none", e) < 0 ? -EINVAL : 0;
	case O_LIMITS:
		return limits_preset(&o->limits, value, e);
	case O_CHECKPOINT:
		return set_checkpoint(o, value, e);
	case O_KEEP:
		return set_keep(o, value, e);
	case O_WORKDIR:
		o->workdir = value;
		return 0;
	case O_WORKSPACE:
		o->workspace = value;
		return 0;
	case O_HOME:
		o->home = value;
		return 0;
	case O_USER:
		o->user = value;
		return 0;
	case O_NAME:
		o->name = value;
		return 0;
	case O_REPORT:
		a->report = value;
		return 0;
	default:
		break;
	}
	o->ephemeral = o->ephemeral || id == O_EPHEMERAL;
	o->map_ids = o->map_ids || id == O_MAP_IDS;
	o->nested = o->nested || id == O_NESTED;
	o->detach = o->detach || id == O_DETACH;
	o->i_know = o->i_know || id == O_I_KNOW;
	a->tty = id == O_TTY ? 1 : id == O_NO_TTY ? 0 : a->tty;
	if (id == O_QUIET)
		say_quiet(true);
	return 0;
}

/* Returns 1 when --help was asked for. */
static int parse(struct args *a, int argc, char **argv, struct err *e)
{
	struct optparse p = OPTPARSE_INIT(argc, argv, run_opts_table, ARRAY_SIZE(run_opts_table));
	const char *value;
	int id, r;

	a->all_argc = argc;
	a->all_argv = argv;
	limits_defaults(&a->o.limits);
	while ((id = opt_next(&p, &value, e)) > 0) {
		if (id == OPT_HELP)
			return 1;
		r = take_option(a, id, value, e);
		if (r < 0)
			return r;
	}
	if (id < 0)
		return id;
	if (p.index >= p.argc)
		return err_set(e, -EINVAL, "which command?");
	if (!*p.argv[p.index])
		return err_set(e, -EINVAL, "the command is an empty string");
	a->o.argc = p.argc - p.index;
	a->o.argv = p.argv + p.index;
	a->o.tty = a->tty >= 0 ? a->tty : !a->o.detach && isatty(0) && isatty(1);
	if (a->tty == 1 && a->o.detach)
		return err_set(e, -EINVAL, "-t does not go with -d: there is no terminal to pass on");
	if (a->o.each && !a->o.keep)
		a->o.keep = KEEP_EACH;
	return limits_check(&a->o.limits, e);
}

static int open_report(const char *path, struct err *e)
{
	int fd;

	if (!path)
		return -1;
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0600);
	return fd < 0 ? err_sys(e, -errno, "cannot write the report %s", path) : fd;
}

static int write_report(int fd, const char *path, const struct run *r, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	int ret;

	if (fd < 0)
		return 0;
	run_report(r, &b);
	ret = buf_error(&b);
	if (ret == 0)
		ret = fd_write_all(fd, buf_cstr(&b), b.len);
	return ret < 0 ? err_sys(e, ret, "cannot write the report %s", path) : 0;
}

/* What is different for one that is started in the way of another, or once more. */
static int take_again(struct run *r, const struct run_again *again, struct err *e)
{
	const struct spec *s = r->spec;

	if (!again)
		return 0;
	if (again->workspace && (!s->ws_path || !str_eq(s->ws_path, again->workspace)))
		return err_set(e, -ESTALE, "it worked on %s, which is now another directory or none",
			       again->workspace);
	if (again->resume_fd >= 0)
		memcpy(r->spec->id, again->id, sizeof(r->spec->id));
	r->resume_fd = again->resume_fd;
	r->resume_started = again->started;
	r->populate = again->populate;
	r->forget = again->forget;
	r->populate_ctx = again->ctx;
	return 0;
}

/* A run with a name or a life of its own can be started again. */
static int note_start(const struct args *a, struct buf *start, struct err *e)
{
	if (!a->o.detach && !a->o.name)
		return 0;
	return run_start_format(start, &(struct strv){ a->all_argv, (size_t)a->all_argc }, &a->o.env,
				a->o.name, a->o.home, e);
}

/* Everything from the state directory to the last word; returns the exit code. */
static int run_here(struct args *a, int ready_fd)
{
	autobuf struct buf start = BUF_INIT;
	CLEANUP(state_release) struct state st = STATE_INIT;
	CLEANUP(spec_release) struct spec s = SPEC_INIT;
	CLEANUP(audit_freep) struct audit *audit = NULL;
	struct run_io io = { 0, 1, 2, a->o.tty ? 0 : -1, ready_fd };
	struct run r = { .st = &st, .spec = &s, .engine = &engine_ns, .resume_fd = -1 };
	struct run_spec_note note = { 0 };
	struct err e = ERR_INIT;
	autoclose int report = open_report(a->report, &e);
	int ret = report < 0 && a->report ? report : state_open(&st, &e);

	if (a->o.detach)
		io = (struct run_io){ -1, -1, -1, -1, ready_fd };
	if (ret == 0)
		ret = audit_open(&audit, st.fd, &e);
	if (ret == 0)
		ret = run_spec_build(&s, &a->o, &st, &note, &e);
	if (ret == 0)
		ret = take_again(&r, a->again, &e);
	if (ret == 0)
		ret = note_start(a, &start, &e);
	if (ret < 0)
		return say_error(&e);
	r.start = start.len ? &start : NULL;
	r.audit = audit;
	r.map_ids = a->o.map_ids;
	run_say_before(&s, &note);
	ret = run_execute(&r, &io, &e);
	if (ret < 0)
		return say_error(&e);
	run_say_after(&r);
	if (write_report(report, a->report, &r, &e) < 0)
		return say_error(&e);
	return r.end.exit_code;
}

/* The child goes on as the sandbox's launcher; its id comes back once the sandbox is there. */
static int start_detached(struct args *a, char id[RUN_ID_LEN + 1])
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
		_exit(run_here(a, p[1]));
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

static int run_detached(struct args *a)
{
	char id[RUN_ID_LEN + 1] = "";
	int code = start_detached(a, id);

	if (code)
		return code;
	printf("%s\n", id);
	return fflush(stdout) == 0 ? 0 : EXIT_OURS;
}

static void args_release(struct args *a)
{
	strv_release(&a->o.env);
	strv_release(&a->o.volumes);
	strv_release(&a->o.show);
}

int run_again(const struct run_start *s, const struct run_again *how, char ret_id[RUN_ID_LEN + 1])
{
	CLEANUP(args_release) struct args a = { .tty = -1, .again = how };
	struct err e = ERR_INIT;
	int r = run_start_enter(s, &e);

	if (r == 0)
		r = parse(&a, (int)s->argv.n, s->argv.v, &e);
	if (r != 0) {
		if (r > 0)
			err_set(&e, -EBADMSG, "what is known of its start is damaged");
		return say_error(&e);
	}
	a.o.detach = true;
	a.o.tty = false;
	a.report = NULL;
	if (how->name || *s->name)
		a.o.name = how->name ? how->name : s->name;
	if (how->home || *s->home)
		a.o.home = how->home ? how->home : s->home;
	ret_id[0] = '\0';
	return start_detached(&a, ret_id);
}

static int cmd_run(int argc, char **argv)
{
	struct args a = { .tty = -1 };
	struct err e = ERR_INIT;
	int r = parse(&a, argc, argv, &e), code;

	if (r == 1)
		code = verb_print_help(&verb_run);
	else if (r < 0)
		code = say_usage(&verb_run, &e);
	else
		code = a.o.detach ? run_detached(&a) : run_here(&a, -1);
	args_release(&a);
	return code;
}

const struct verb verb_run = {
	.name = "run",
	.group = VERB_RUN,
	.synopsis = "[OPTIONS] [--] COMMAND [ARG…]",
	.help = "run a command in a sandbox of its own",
	.opts = run_opts_table,
	.n_opts = ARRAY_SIZE(run_opts_table),
	.run = cmd_run,
	.text = "Runs COMMAND in a fresh sandbox: its own user, process, mount, network, IPC, host name, control group and "
		"time namespaces, a private root file system with a read-only view of the host's /usr, no capability, a "
		"system call allowlist, Landlock where the kernel has it, and no network but loopback.\n"
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
		"The environment is empty but for PATH, HOME, USER, TERM, LANG, TZ and what -e names. Nothing of the caller's "
		"is inherited: no descriptor, no terminal. On a terminal the command gets a private one of its own.\n"
		"\n"
		"A limit that was named and cannot be enforced here is an error; a default that cannot be is said in one line "
		"and in the report.\n"
		"\n"
		"Exit status: that of COMMAND, 128+N when it died of signal N; 124 when the time limit was reached; 125 when "
		"coffer itself failed, 126 when COMMAND could not be executed, 127 when it was not found; 2 for a wrong "
		"command line.",
	.examples = "coffer run -- make test\n"
		    "\t# build in a layer over the current directory\n"
		    "coffer run --ephemeral --memory 1g --timeout 60s -- python3 -c 'print(1)'\n"
		    "\t# nothing of the host, a minute at most\n"
		    "coffer run -d --name web -- python3 -m http.server\n"
		    "\t# in the background; then: coffer exec web -- ps\n",
	.args = "command",
};
