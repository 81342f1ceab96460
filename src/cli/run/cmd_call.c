/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer call: one tool call in a fresh sandbox, which sees only the caller's files that are given to it and
 * is removed afterwards. The sandbox is taken from cofferd's warm pool if one is ready, and made on the spot
 * otherwise. Both ways must give the same sandbox: an option that a warm sandbox cannot have excludes it
 * (may_be_warm()).
 *
 * With --standby=FD the process is the launcher of a sandbox of the warm pool; only cofferd starts it in that
 * way.
 */
#include "base/fd.h"
#include "cli/core/say.h"
#include "cli/core/verb.h"
#include "cli/run/call_from.h"
#include "cli/run/call_tool.h"
#include "cli/run/run_say.h"
#include "cli/run/session.h"
#include "cofferdc/cofferd_client.h"
#include "daemon/pool/standby.h"
#include "workspace/apply/give.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>

enum { O_READ = O_LIMIT + 100, O_LAYER, O_FROM, O_COLD, O_TOOL, O_ARGS };

static const struct opt call_opts[] = {
	OPT_SECTION("Files"),
	{ "read", 0, "PATH", "copy a file or directory of the current directory into it", O_READ, "file",
	  .many = true },
	{ "from", 0, "SANDBOX", "make the call for this sandbox, with its workspace as it is now", O_FROM,
	  "sandbox" },
	{ "workspace", 0, NULL, "show the whole directory under a layer, and keep the changes", O_LAYER },
	{ "show", 0, "PATH", "show a file that is hidden because of credentials (. for all)", O_SHOW, "file",
	  .many = true },
	{ "root", 0, "host|DIR", "root file system: that of the host, or DIR (default: host)", O_ROOT,
	  "dir" },
	{ "image", 0, "REF", "use an image as the root file system: NAME[:TAG][@sha256:…]", O_IMAGE, "name" },
	OPT_SECTION("Command"),
	{ "entrypoint", 0, "COMMAND", "replace the image's own entry point", O_ENTRYPOINT },
	{ "env", 'e', "NAME[=VALUE]", "set or copy an environment variable", O_ENV, .many = true },
	{ "workdir", 'w', "DIR", "working directory inside (default: /workspace)", O_WORKDIR },
	{ "user", 0, "UID[:GID]", "user inside (default: your own); root is never root outside", O_USER },
	{ "map-ids", 0, NULL, "map a whole range of ids, not only one (newuidmap)", O_MAP_IDS },
	{ "cold", 0, NULL, "make a new sandbox, even if a warm one is ready", O_COLD },
	OPT_SECTION("Tool"),
	{ "tool", 0, "NAME", "name of the tool: the policy's list tools: decides about it", O_TOOL },
	{ "args", 0, "JSON", "arguments of the tool, a JSON object", O_ARGS },
	OPT_SECTION("Wall"),
	RUN_OPTS_WALL,
	{ "net", 0, "MODE", "none, observe or enforce (default: none, or what --allow needs)", O_NET,
	  NET_NAMES },
	RUN_OPTS_REACH,
	OPT_SECTION("Limits"),
	RUN_OPTS_LIMITS,
	OPT_SECTION("Afterwards"),
	{ "report", 0, "FILE", "write one JSON object about the run", O_REPORT, "file" },
	{ "quiet", 'q', NULL, "print only errors and warnings", O_QUIET },
};

struct call_args {
	struct run_args run;
	struct strv read;
	const char *from; /* as typed */
	struct call_from of;
	struct call_tool tool;
	char **argv;	      /* the whole command line */
	struct strv template; /* the options that a sandbox of the warm pool must have been made with */
	bool layer, cold;
	bool logged; /* the tool's call is in the audit log */
};

/* Does the option describe the command, not the sandbox? A warm sandbox can serve any value of such an
 * option. */
static bool is_per_call(int id)
{
	switch (id) {
	case O_READ:
	case O_LAYER:
	case O_FROM:
	case O_COLD:
	case O_TOOL:
	case O_ARGS:
	case O_SHOW:
	case O_ENTRYPOINT:
	case O_ENV:
	case O_WORKDIR:
	case O_REPORT:
	case O_QUIET:
	case O_ENGINE: /* finish_template() adds these with the values that were resolved */
	case O_RUNSC:
	case O_ROOT:
	case O_IMAGE:
		return true;
	default:
		return false;
	}
}

/* Limits that the launcher enforces itself, for each command anew. */
static bool is_kept_by_launcher(const char *name)
{
	return str_eq(name, "timeout") || str_eq(name, "output-limit");
}

static int add_template_option(struct call_args *a, int id, const char *value, struct err *e)
{
	for (size_t i = 0; i < ARRAY_SIZE(call_opts); i++) {
		const struct opt *o = &call_opts[i];
		int r;

		if (o->id != id || is_per_call(id) || is_kept_by_launcher(o->name))
			continue;
		r = value ? strv_addf(&a->template, "--%s=%s", o->name, value)
			  : strv_addf(&a->template, "--%s", o->name);
		return r < 0 ? err_set(e, -ENOMEM, "out of memory") : 0;
	}
	return 0;
}

static int take_call_option(struct call_args *a, int id, const char *value, struct err *e)
{
	switch (id) {
	case O_READ:
		return strv_add(&a->read, value) < 0 ? err_set(e, -ENOMEM, "out of memory") : 0;
	case O_LAYER:
		a->layer = true;
		return 0;
	case O_FROM:
		a->from = value;
		return 0;
	case O_COLD:
		a->cold = true;
		return 0;
	case O_TOOL:
		a->tool.name = value;
		return 0;
	case O_ARGS:
		a->tool.args = value;
		return 0;
	default:
		return cli_run_args_take(&a->run, call_opts, ARRAY_SIZE(call_opts), id, value, e);
	}
}

/* Returns 1 for --help. */
static int parse_call(struct call_args *a, int argc, char **argv, struct err *e)
{
	struct optparse p = OPTPARSE_INIT(argc, argv, call_opts, ARRAY_SIZE(call_opts));
	const char *value;
	int id, r = cli_run_args_begin(&a->run, e);

	if (r < 0)
		return r;
	a->run.o.has_net = true; /* all modes may be named */
	while ((id = opt_next(&p, &value, e)) > 0) {
		if (id == OPT_HELP)
			return 1;
		r = take_call_option(a, id, value, e);
		if (r == 0)
			r = add_template_option(a, id, value, e);
		if (r < 0)
			return r;
	}
	if (id < 0)
		return id;
	a->run.o.argc = p.argc - p.index;
	a->run.o.argv = p.argv + p.index;
	a->run.o.ephemeral = !a->layer;
	/* Without an option about it, there is no network. */
	a->run.o.has_net = a->run.o.allow.n || a->run.o.policy || a->run.o.resolvers.n || a->run.o.secret.n;
	if (a->layer && a->read.n)
		return err_set(e, -EINVAL,
			       "--read and --workspace exclude each other: --workspace shows everything");
	return limits_check(&a->run.o.limits, e);
}

/*
 * Adds the options whose values have to be resolved here and now: cofferd has another working directory,
 * where a relative path would mean another file, and later the same name may be another image.
 */
static int finish_template(struct call_args *a, const struct session *s, struct err *e)
{
	const struct spec *sp = &s->spec;
	const struct runsc *runsc = &s->choice.runsc;
	int r = strv_addf(&a->template, "--engine=%s", s->choice.engine->name);

	if (r == 0 && s->choice.named) {
		autofree char *real = realpath(runsc->path, NULL);

		if (!real)
			return err_sys(e, -errno, "cannot find %s", runsc->path);
		r = strv_addf(&a->template, "--runsc=%s@sha256:%s", real, runsc->sha256);
	}
	if (r == 0 && sp->root_mode == ROOT_DIR)
		r = strv_addf(&a->template, "--root=%s", sp->root_name);
	/* A name with a digest has that of an index, not of the manifest; it identifies the image, too. */
	if (r == 0 && sp->root_mode == ROOT_IMAGE)
		r = strchr(sp->root_name, '@')
			    ? strv_addf(&a->template, "--image=%s", sp->root_name)
			    : strv_addf(&a->template, "--image=%s@%s", sp->root_name, sp->root_digest);
	return r < 0 ? err_set(e, -ENOMEM, "out of memory") : 0;
}

/* Copies the files of --read into the empty workspace before the command starts. */
static int give_read_files(const struct call_args *a, int upper_fd, struct err *e)
{
	struct give_from from = a->of.trees;
	autoclose int here = -1;
	uint64_t bytes;

	if (!a->from) {
		from.lower = here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (here < 0)
			return err_sys(e, -errno, "cannot open the current directory");
	}
	return workspace_give(&from, &a->read, &a->run.o.show, upper_fd, &bytes, e);
}

static int give_to_new(void *ctx, struct run *r, struct err *e)
{
	autoclose int upper =
		openat(r->spec->layers_fd, "upper", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	return upper < 0 ? err_sys(e, -errno, "cannot open the run's layer") : give_read_files(ctx, upper, e);
}

/* Opens the sandbox of --from and its files, before anything is made. */
static int open_from_sandbox(struct call_args *a, struct err *e)
{
	int r;

	if (!a->from)
		return 0;
	r = cli_call_from_open(&a->of, a->from, e);
	if (r == 0 && a->read.n)
		r = cli_call_from_open_trees(&a->of, e);
	return r == 0 && a->layer ? cli_call_from_workspace(&a->of, &a->run.o, e) : r;
}

static int set_from_sandbox(struct call_args *a, struct session *s, struct err *e)
{
	if (!a->from)
		return 0;
	memcpy(s->spec.from, a->of.run.id, sizeof(s->spec.from));
	return a->layer ? cli_call_from_populate(&a->of, &s->run, &a->run.o.show, e) : 0;
}

/* -EAGAIN: the sandbox has died, and its directory is removed or being removed. */
static int give_files_to_warm(struct call_args *a, struct session *s, const char *id, struct err *e)
{
	autoclose int run = -1, upper = -1;
	bool alive;

	if (!a->read.n)
		return 0;
	run = state_run_open(&s->st, id, &alive, e);
	if (run < 0)
		return run == -ENOENT ? -EAGAIN : run;
	upper = openat(run, "upper", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (upper < 0)
		return errno == ENOENT ? -EAGAIN : err_sys(e, -errno, "cannot open the sandbox's workspace");
	return give_read_files(a, upper, e);
}

static int copy_warm_report(struct session *s, int from, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	int r = lseek(from, 0, SEEK_SET) < 0 ? -errno : fd_read_all(from, 16u << 20, &b);

	if (r == 0)
		r = fd_write_all(s->report, b.data, b.len);
	return r < 0 ? err_sys(e, r, "cannot write the report") : 0;
}

/* Runs the command in a sandbox of the warm pool. Returns the exit code, or -EAGAIN if a sandbox has to be
 * made here. */
static int call_warm(struct call_args *a, struct session *s)
{
	static const int stdio[3] = { 0, 1, 2 };
	struct standby_end end;
	struct err e = ERR_INIT;
	autoclose int sock = -1, report = -1;
	char id[RUN_ID_LEN + 1];
	int r = cofferd_take(&s->st, &a->template, &sock, id);

	if (r == -ECONNREFUSED)
		(void)!cofferd_start(&s->st, &a->template);
	if (r < 0)
		return -EAGAIN;
	r = give_files_to_warm(a, s, id, &e);
	if (r == -EAGAIN)
		return r;
	if (r == 0)
		r = cli_call_tool_log(&a->tool, s, a->from ? a->of.run.id : id, &e);
	if (r < 0)
		return say_error(&e);
	a->logged = true;
	r = standby_use(sock, &s->spec, stdio, s->report >= 0 ? STANDBY_F_REPORT : 0, &end, &report, &e);
	/* The warm sandbox died before it received the command. The call is logged again, with the run that it
	 * becomes, unless it is logged under the sandbox of --from. */
	if (r == -EPIPE || r == -ECONNRESET) {
		a->logged = a->from != NULL;
		return -EAGAIN;
	}
	if (r < 0)
		return say_error(&e);
	s->run.end = end.end;
	s->run.changes = end.changes;
	s->run.wiped = end.wiped;
	memcpy(s->spec.id, id, sizeof(id));
	memcpy(s->run.limits_off, end.limits_off, sizeof(s->run.limits_off));
	cli_run_say_after(&s->run, true);
	if (report >= 0 && s->report >= 0 && copy_warm_report(s, report, &e) < 0)
		return say_error(&e);
	return s->run.end.exit_code;
}

static int call_cold(struct call_args *a, struct session *s)
{
	struct run_io io = RUN_IO_INIT;
	struct err e = ERR_INIT;
	int r;

	io.in = 0;
	io.out = 1;
	io.err = 2;
	io.say = cli_run_say_net;
	if (a->read.n)
		s->run.origin = (struct run_origin){ .kind = RUN_GIVEN, .fill = give_to_new, .ctx = a };
	r = s->spec.id[0] ? 0 : state_new_id(s->spec.id, &e);
	if (r == 0 && !a->logged)
		r = cli_call_tool_log(&a->tool, s, a->from ? a->of.run.id : s->spec.id, &e);
	if (r == 0)
		r = run_execute(&s->run, &io, &e);
	return r < 0 ? say_error(&e) : cli_session_end(s, &a->run);
}

/*
 * A warm sandbox cannot serve every call:
 *  - a terminal can be read only by the session that it belongs to;
 *  - a layer over a directory depends on the directory's content now;
 *  - warm sandboxes have no network;
 *  - a disk limit named by root is enforced by a disk image, and only the launcher can put --read files into
 *    that.
 */
static bool may_be_warm(const struct call_args *a, const struct session *s)
{
	const struct limit *l = a->run.o.limits.l;

	/* The question that a person answered names this run's id. */
	if (a->tool.ask[0] && !a->from)
		return false;
	if (a->read.n && (l[LIMIT_DISK].named || l[LIMIT_INODES].named) && state_is_host_root())
		return false;
	return !a->cold && !a->layer && !s->run.net && !isatty(0);
}

static void remove_template_option(struct call_args *a, const char *prefix)
{
	struct strv *l = &a->template;
	size_t n = 0;

	for (size_t i = 0; i < l->n; i++) {
		if (str_starts(l->v[i], prefix))
			free(l->v[i]);
		else
			l->v[n++] = l->v[i];
	}
	if (l->v)
		l->v[n] = NULL;
	l->n = n;
}

/* A policy that has only rules for tools gives no network. */
static int open_tool_decision(struct call_args *a, struct err *e)
{
	struct run_opts *o = &a->run.o;
	bool egress = true;
	int r;

	a->tool.timeout_s = o->ask_timeout;
	r = cli_call_tool_open(&a->tool, o->policy, a->from ? &a->of.run : NULL, &egress, e);
	if (r < 0 || egress || (o->net && !str_eq(o->net, "none")) || o->allow.n || o->resolvers.n ||
	    o->secret.n)
		return r;
	o->acts_policy = o->policy;
	o->policy = NULL;
	o->has_net = false;
	remove_template_option(a, "--policy=");
	remove_template_option(a, "--ask-timeout=");
	return 0;
}

static int run_call(struct call_args *a)
{
	CLEANUP(cli_session_release) struct session s = SESSION_INIT;
	struct err e = ERR_INIT;
	struct choice shown;
	int r = open_from_sandbox(a, &e), code;

	if (r == 0)
		r = open_tool_decision(a, &e);
	if (r == 0)
		r = cli_session_open(&s, &a->run, &e);
	if (r < 0 && (s.usage || a->tool.usage))
		return say_usage(&verb_call, &e);
	if (r == 0)
		r = finish_template(a, &s, &e);
	if (r < 0)
		return say_error(&e);
	code = cli_call_tool_pass(&a->tool, &s, a->from ? &a->of.run : NULL, a->argv);
	if (code)
		return code;
	if (a->tool.name) {
		s.run.acts = &a->tool.own;
		s.run.acts_file = a->tool.file;
	}
	r = set_from_sandbox(a, &s, &e);
	if (r < 0)
		return say_error(&e);
	/* Calls are many: of the engine, only a fallback is worth a line in each. */
	shown = s.choice;
	shown.by_itself = shown.why[0] != '\0';
	cli_run_say_before(&s.spec, &shown, &s.note);
	cli_run_say_conflicts(&s.net);
	r = may_be_warm(a, &s) ? call_warm(a, &s) : -EAGAIN;
	return r == -EAGAIN ? call_cold(a, &s) : r;
}

/* The launcher of a warm sandbox: makes it, then waits for its command on the socket. */
static int serve_standby(struct call_args *a, int sock)
{
	static char none[] = "true", *argv[] = { none, NULL };
	CLEANUP(cli_session_release) struct session s = SESSION_INIT;
	struct err e = ERR_INIT;
	int r = fd_set_cloexec(sock, true);

	a->run.o.argc = 1;
	a->run.o.argv = argv;
	if (r == 0)
		r = cli_session_open(&s, &a->run, &e);
	if (r == 0)
		return standby_serve(&s.run, sock, &e) < 0 ? EXIT_OURS : 0;
	return EXIT_OURS;
}

static int cmd_call(int argc, char **argv)
{
	static const char standby[] = "--standby=";
	struct call_args a = {
		.run = RUN_ARGS_INIT, .of = CALL_FROM_INIT, .tool = CALL_TOOL_INIT, .argv = argv
	};
	struct err e = ERR_INIT;
	int sock = -1, r, code;

	if (argc > 1 && str_starts(argv[1], standby)) {
		uint64_t fd;

		if (str_to_u64(argv[1] + sizeof(standby) - 1, &fd) < 0 || fd > INT16_MAX)
			return EXIT_OURS;
		sock = (int)fd;
		argv[1] = argv[0];
		argv++;
		argc--;
	}
	r = parse_call(&a, argc, argv, &e);
	if (r == 1)
		code = verb_print_help(&verb_call);
	else if (r < 0)
		code = say_usage(&verb_call, &e);
	else if (sock >= 0)
		code = serve_standby(&a, sock);
	else if (a.run.o.argc == 0 && !a.run.o.image)
		code = say_usage(&verb_call, (err_set(&e, -EINVAL, "call needs a command"), &e));
	else
		code = run_call(&a);
	cli_call_tool_release(&a.tool);
	cli_call_from_release(&a.of);
	strv_release(&a.read);
	strv_release(&a.template);
	cli_run_args_release(&a.run);
	return code;
}

const struct verb verb_call = {
	.name = "call",
	.group = VERB_RUN,
	.synopsis = "[OPTIONS] [--] COMMAND [ARG…]",
	.help = "run one tool call in a fresh sandbox that is removed afterwards",
	.opts = call_opts,
	.n_opts = ARRAY_SIZE(call_opts),
	.run = cmd_call,
	.text = "Runs COMMAND in a fresh sandbox that is used once. The engine is chosen as coffer-run(1) "
		"chooses it: gvisor where it works, unless *--engine* or *COFFER_ENGINE* names another. It sees none of your files: its workspace is empty, "
		"and wiped at the end. *--read* PATH (may be repeated) copies a file or directory "
		"below the current directory to the same place inside; files that usually hold "
		"credentials also need *--show*. *--workspace* shows the whole current directory under "
		"a layer instead, as coffer-run(1) does, and the changes are kept for coffer-diff(1), "
		"coffer-apply(1) and coffer-discard(1).\n"
		"\n"
		"With *--from* SANDBOX the call is made for that sandbox, and the log records it. "
		"*--read* then copies files from that sandbox's workspace as it is now, with its "
		"changes, whether the sandbox runs or has ended: *--read .* copies the whole "
		"workspace. A symlink in it is not followed. The files that the call writes are wiped; "
		"coffer-cp(1) copies files into a running sandbox.\n"
		"\n"
		"*--from* SANDBOX *--workspace* shows the whole workspace of that sandbox under a "
		"layer of the call: the original directory with a copy of the sandbox's changes, for "
		"which the sandbox is paused. Files that usually hold credentials are hidden, even "
		"those that the sandbox made; the sandbox's home and root file system are not shown. "
		"The changes of the call are kept: coffer-diff(1) compares them with the sandbox's "
		"workspace, coffer-discard(1) throws them away, and coffer-apply(1) writes them to the "
		"sandbox's workspace, not to the original directory. A file that the sandbox changed "
		"meanwhile is a conflict. A sandbox on engine gvisor must have ended first.\n"
		"\n"
		"Sandboxes are made ahead, for each set of options (engine, root, user, limits) that "
		"calls use: the first call starts *cofferd*, which keeps some ready, and more if calls "
		"are frequent, within a memory budget (*COFFER_POOL_MEMORY*; by default 1/32 of the "
		"memory). Each is used once. If none is ready, the call makes its own. cofferd exits "
		"after a minute without a call.\n"
		"\n"
		"With *--tool* NAME the policy's list of tools decides by that name and the arguments "
		"(*--args*, a JSON object), before the sandbox is made: the call is allowed, denied, "
		"or waits until a person answers (*coffer ask ls*). With *--from* SANDBOX the policy "
		"of that sandbox decides too, and the stricter decision applies; the question belongs "
		"to that sandbox, so that *coffer approve --sandbox* also covers its later calls. An "
		"answer covers exactly this command line. A policy without a list of tools does not "
		"restrict them. The list is no wall: the sandbox confines what the command does, "
		"whatever name its caller gives to it.\n"
		"\n"
		"There is no network inside unless *--allow*, *--policy*, *--secret* or *--net* grants "
		"one, as with coffer-run(1).\n"
		"\n"
		"A call never uses the warm pool if its input is a terminal, if it has a network, or "
		"with *--workspace* or *--cold*; as root, also not with both *--read* and *--disk*.",
	.examples = "coffer call --read talk.mp4 -- ffprobe talk.mp4\n"
		    "\t# one file, and nothing else of yours\n"
		    "coffer call --policy team.yaml --tool deploy --args '{\"env\":\"qa\"}' "
		    "--read deploy -- ./deploy qa\n"
		    "\t# if the policy's tools: allows it, or a person does\n"
		    "coffer call --from agent --workspace -- make test\n"
		    "\t# in a copy of what the sandbox named agent sees\n"
		    "coffer call --allow api.github.com -- curl -s https://api.github.com/zen\n"
		    "\t# this host and no other\n"
		    "echo '2^100' | coffer call --timeout 5s -- bc\n"
		    "\t# no file at all\n",
	.args = "command",
};
