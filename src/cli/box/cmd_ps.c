/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer ps: lists the runs of the state directory, newest first. Whether a run is alive is decided by the
 * lock on its directory, which the kernel releases when the launcher dies, never by its meta.json.
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"
#include "cli/box/ps_filter.h"
#include "cli/box/ps_stats.h"
#include "cli/common/look.h"
#include "cli/common/run_json.h"
#include "cli/common/run_size.h"
#include "cli/core/say.h"
#include "cli/core/table.h"
#include "cli/core/verb.h"
#include "run/run.h"
#include "sandbox/state/state.h"

#include <errno.h>

enum { OPT_ALL = 1, OPT_QUIET, OPT_JSON, OPT_NO_TRUNC, OPT_STATS, OPT_NO_STREAM, OPT_FILTER, OPT_FORMAT };

static const struct opt ps_opts[] = {
	{ "all", 'a', NULL, "also list sandboxes that have ended", OPT_ALL },
	{ "quiet", 'q', NULL, "print only the ids", OPT_QUIET },
	{ "no-trunc", 0, NULL, "do not cut long names and commands", OPT_NO_TRUNC },
	{ "stats", 0, NULL, "show the resources of each, live on a terminal", OPT_STATS },
	{ "no-stream", 0, NULL, "with --stats: print once", OPT_NO_STREAM },
	{ "filter", 'f', "KEY=VALUE", "list only sandboxes that match", OPT_FILTER,
	  "name= id= status= engine= image= exited= profile= net=", .many = true },
	{ "format", 0, "FORMAT", "table or json", OPT_FORMAT, "table json" },
	{ "json", 0, NULL, "print a JSON array", OPT_JSON },
};

struct ps_want {
	bool all, quiet, json, no_trunc, stats, once;
	struct ps_filter filter;
};

static void ps_want_release(struct ps_want *w)
{
	cli_ps_filter_release(&w->filter);
}

#define COLUMNS 9	   /* with -a there is one more: SIZE */
#define SIZE_BUDGET 40000u /* files whose sizes -a adds up: less than a tenth of a second of processor time */
#define ROOT_WIDTH 32
#define NAME_WIDTH 24
#define COMMAND_WIDTH 48

/* "5 s", "3 min", "2 h", "4 d": one unit is enough to tell runs apart. */
static const char *format_ps_span(uint64_t ns, char out[CLOCK_TEXT_LEN])
{
	uint64_t s = ns / NSEC_PER_SEC;

	if (s < 60)
		snprintf(out, CLOCK_TEXT_LEN, "%u s", (unsigned)s);
	else if (s < 3600)
		snprintf(out, CLOCK_TEXT_LEN, "%u min", (unsigned)(s / 60));
	else if (s < 86400)
		snprintf(out, CLOCK_TEXT_LEN, "%u h", (unsigned)(s / 3600));
	else
		snprintf(out, CLOCK_TEXT_LEN, "%llu d", (unsigned long long)(s / 86400));
	return out;
}

static uint64_t elapsed_since(uint64_t now, uint64_t then)
{
	return now > then ? now - then : 0; /* the clock may have been set back */
}

/* "running 3 min", "exited 0, 2 h ago", "oom, 2 h ago" */
static void format_run_status(const struct run_meta *m, bool alive, uint64_t now, struct buf *out)
{
	char text[CLOCK_TEXT_LEN];

	if (alive && !m->started) {
		buf_adds(out, "starting");
		return;
	}
	if (alive) {
		buf_addf(out, "running %s",
			 format_ps_span(elapsed_since(now, m->since ? m->since : m->started), text));
		return;
	}
	if (!m->ended) {
		buf_adds(out, "broken off");
		return;
	}
	if (!m->cause || str_eq(m->cause, "exit"))
		buf_addf(out, "exited %d", m->exit_code);
	else if (str_eq(m->cause, "caller"))
		buf_adds(out, "launcher killed");
	else
		buf_addf(out, "%s (%d)", m->cause, m->exit_code);
	buf_addf(out, ", %s ago", format_ps_span(elapsed_since(now, m->ended), text));
}

/* The kind of its root file system: host, a directory, or an image. */
static void format_run_root(const struct run_meta *m, bool no_trunc, struct buf *out)
{
	if (!m->image) {
		buf_adds(out, m->root ? m->root : "host");
		return;
	}
	buf_adds(out, m->image);
	if (m->image_digest && no_trunc)
		buf_addf(out, "@%s", m->image_digest);
}

struct ps_out {
	struct table table;
	struct buf text; /* ids, or JSON */
	struct json json;
	uint64_t now;
	uint64_t budget; /* files that may still be looked at to compute sizes */
};

static int add_ps_row(struct ps_out *out, const struct run_meta *m, bool alive, const struct ps_want *want,
		      const struct run_size *size)
{
	struct table *t = &out->table;
	bool no_trunc = want->no_trunc;
	autobuf struct buf status = BUF_INIT, root = BUF_INIT;
	char started[CLOCK_TEXT_LEN + 8] = "-", text[CLOCK_TEXT_LEN], changes[24] = "-", restart[64] = "-";
	char bytes[24];
	int r = 0;

	format_run_status(m, alive, out->now, &status);
	if (m->started)
		snprintf(started, sizeof(started), "%s ago",
			 format_ps_span(elapsed_since(out->now, m->started), text));
	if (!alive && m->ended)
		snprintf(changes, sizeof(changes), "%llu", (unsigned long long)m->changes);
	if (m->restart)
		snprintf(restart, sizeof(restart), "%.30s (%llu)", m->restart,
			 (unsigned long long)m->restarts);
	format_run_root(m, no_trunc, &root);
	const struct {
		const char *text;
		size_t max;
	} cells[] = {
		{ m->id, 0 },
		{ m->name ? m->name : "-", NAME_WIDTH },
		{ m->engine ? m->engine : "-", 0 },
		{ buf_cstr(&root), ROOT_WIDTH },
		{ buf_cstr(&status), 0 },
		{ started, 0 },
		{ restart, 0 },
		{ changes, 0 },
		{ bytes, 0 },
		{ m->command ? m->command : "", COMMAND_WIDTH },
	};

	cli_run_size_format(size, bytes);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(cells); i++) {
		if (cells[i].text != bytes || want->all)
			r = table_add(t, cells[i].text, no_trunc ? 0 : cells[i].max);
	}
	return r;
}

/* `size` is NULL without -a. */
static void add_ps_json(struct json *j, const struct run_meta *m, bool alive, const struct run_size *size)
{
	json_obj(j, NULL);
	cli_run_json_add(j, m, alive);
	if (size) {
		json_u64(j, "size", size->bytes);
		json_bool(j, "size_is_part", size->is_part);
	}
	json_end_obj(j);
}

static void ps_out_release(struct ps_out *out)
{
	table_release(&out->table);
	buf_release(&out->text);
}

static int list_run(struct state *st, const char *id, const struct ps_want *want, struct ps_out *out,
		    struct err *e)
{
	CLEANUP(state_meta_release) struct run_meta m = { 0 };
	struct run_size size = { 0 };
	autoclose int fd = -1;
	bool alive = false;
	int r = 0;

	fd = state_run_open(st, id, &alive, e);
	if (fd < 0)
		return fd == -ENOENT ? 0 : fd; /* removed since the list was read */
	/* A sandbox that waits for its command in the warm pool is not a run yet. */
	if ((!alive && !want->all) || !state_run_has_begun(fd))
		return 0;
	r = state_meta_read(fd, &m, e);
	if (r == -ENOENT) /* it has just begun, or was broken off before it wrote its record */
		snprintf(m.id, sizeof(m.id), "%s", id);
	else if (r < 0)
		return r;
	if (!cli_ps_filter_fits(&want->filter, &m, alive))
		return 0;
	if (want->all && !want->quiet)
		cli_run_size_read(fd, &out->budget, &size);
	if (want->json)
		add_ps_json(&out->json, &m, alive, want->all ? &size : NULL);
	else if (want->quiet)
		buf_addf(&out->text, "%s\n", m.id);
	else
		return add_ps_row(out, &m, alive, want, &size);
	return 0;
}

static int list_runs(const struct ps_want *want, struct ps_out *out, struct err *e)
{
	static const char *const heads[COLUMNS] = { "ID",      "NAME",	  "ENGINE",  "ROOT",   "STATUS",
						    "STARTED", "RESTART", "CHANGES", "COMMAND" };
	CLEANUP(state_release) struct state st = STATE_INIT;
	autostrv struct strv ids = STRV_INIT;
	int r = cli_look_open(&st, e);

	for (size_t i = 0; r >= 0 && i < COLUMNS; i++) {
		if (i == COLUMNS - 1 && want->all)
			r = table_add(&out->table, "SIZE", 0);
		r = r < 0 ? r : table_add(&out->table, heads[i], 0);
	}
	if (r >= 0)
		r = state_run_list(&st, &ids, e);
	for (size_t i = 0; r >= 0 && i < ids.n; i++)
		r = list_run(&st, ids.v[i], want, out, e);
	return r;
}

static int show_runs(const struct ps_want *want)
{
	CLEANUP(ps_out_release)
	struct ps_out out = { .table = TABLE_INIT(want->all ? COLUMNS + 1 : COLUMNS),
			      .now = clock_nsec(CLOCK_REALTIME),
			      .budget = SIZE_BUDGET };
	struct err e = ERR_INIT;
	int r;

	out.json = JSON_INIT(&out.text);
	if (want->json)
		json_arr(&out.json, NULL);
	r = list_runs(want, &out, &e);
	if (r < 0) {
		if (!e.code)
			err_sys(&e, r, "cannot list the runs");
		return say_error(&e);
	}
	if (want->json) {
		json_end_arr(&out.json);
		buf_addc(&out.text, '\n');
	} else if (!want->quiet) {
		table_format(&out.table, &out.text);
	}
	return say_out(&out.text);
}

static int check_ps_want(const struct ps_want *want, struct err *e)
{
	if (want->once && !want->stats)
		return err_set(e, -EINVAL, "--no-stream needs --stats");
	if (want->stats && cli_ps_filter_wants_ended(&want->filter))
		return err_set(e, -EINVAL,
			       "--stats shows running sandboxes; the filter selects some that have ended");
	if (want->stats && (want->all || want->quiet))
		return err_set(e, -EINVAL, "--stats and %s exclude each other",
			       want->all ? "--all" : "--quiet");
	return 0;
}

/* Docker's templates are not supported: they would have to have the names of docker's fields. */
static int take_format_option(struct ps_want *want, const char *value, struct err *e)
{
	int r = str_starts(value, "table ") || strstr(value, "{{")
			? err_set(e, -EINVAL, "--format has no templates: table or json")
			: opt_one_of("--format", value, "table json", e);

	if (r < 0 && strstr(value, "{{"))
		return err_hint(e, r, "coffer ps --json | jq -r '.[] | .id + \" \" + .command'");
	want->json = want->json || r == 1;
	return r < 0 ? r : 0;
}

static int take_ps_option(struct ps_want *want, int id, const char *value, struct err *e)
{
	want->all = want->all || id == OPT_ALL;
	want->quiet = want->quiet || id == OPT_QUIET;
	want->json = want->json || id == OPT_JSON;
	want->no_trunc = want->no_trunc || id == OPT_NO_TRUNC;
	want->stats = want->stats || id == OPT_STATS;
	want->once = want->once || id == OPT_NO_STREAM;
	return id == OPT_FILTER	  ? cli_ps_filter_add(&want->filter, value, e)
	       : id == OPT_FORMAT ? take_format_option(want, value, e)
				  : 0;
}

static int cmd_ps(int argc, char **argv)
{
	struct optparse p = OPTPARSE_MIXED(argc, argv, ps_opts, ARRAY_SIZE(ps_opts));
	CLEANUP(ps_want_release) struct ps_want want = { 0 };
	struct err e = ERR_INIT;
	const char *value;
	int id;

	while ((id = opt_next(&p, &value, &e)) > 0) {
		if (id == OPT_HELP)
			return verb_print_help(&verb_ps);
		if (take_ps_option(&want, id, value, &e) < 0)
			return say_usage(&verb_ps, &e);
	}
	if (id == 0 && p.index < p.argc)
		id = err_set(&e, -EINVAL, "ps takes no arguments, but got '%.100s'", p.argv[p.index]);
	if (id == 0)
		id = check_ps_want(&want, &e);
	if (id < 0)
		return say_usage(&verb_ps, &e);
	if (want.stats)
		return cli_ps_stats(&(struct ps_stats_want){ .json = want.json,
							     .no_trunc = want.no_trunc,
							     .once = want.once,
							     .filter = &want.filter });
	want.all = want.all || cli_ps_filter_wants_ended(&want.filter);
	return show_runs(&want);
}

const struct verb verb_ps = {
	.name = "ps",
	.group = VERB_MANAGE,
	.synopsis = "[OPTIONS]",
	.help = "list sandboxes",
	.opts = ps_opts,
	.n_opts = ARRAY_SIZE(ps_opts),
	.run = cmd_ps,
	.text = "Lists the running sandboxes, newest first; with *-a* also those that have ended and "
		"whose layers are kept, until *coffer rm* removes them.\n"
		"\n"
		"STATUS is *starting*, *running*, *exited* with the command's exit code, the cause "
		"that ended it (*oom*, *pids*, *timeout*, *disk*, *stopped*, …), *launcher killed* if "
		"its launcher was killed (*caller* in JSON and in *--filter*), or *broken off* if the "
		"cleanup after that is still pending. RESTART is its restart policy, "
		"and how often it was restarted. CHANGES is the number of files of the workspace that "
		"differ from the original. SIZE (with *-a*) is the disk space of its layers and its "
		"output; \">\" means at least that much, because not everything was counted.\n"
		"\n"
		"*--filter* KEY=VALUE shows only sandboxes that match. Filters with the same key are "
		"alternatives; different keys must all match. The keys are *name* (a part of it), *id* "
		"(its beginning), *status* (*starting*, *running*, *exited*, *broken*, or the cause of "
		"the end: *oom*, *timeout*, *stopped*, …), *exited* (the exit code), *engine*, *image* "
		"(with or without its tag), *profile*, *net* (*none*, *observe*, *enforce*). A filter "
		"that only ended sandboxes can match shows them without *-a*.\n"
		"\n"
		"*--format json* is the same as *--json*. There are no templates; use *coffer ps "
		"--json | jq -r '.[].name'*.\n"
		"\n"
		"*--stats* shows the resources that each sandbox uses: on a terminal it is updated "
		"every second until Ctrl-C; otherwise, or with *--no-stream* or *--json*, it is "
		"printed once. MEMORY and PIDS are shown with their limits. FROM is the source of "
		"MEMORY: the control group (*cgroup*, without file pages that the kernel can reclaim "
		"at once), or, without a control group, the sum over the sandbox's processes: *pss*, "
		"or *rss* where the kernel has no pss, which counts shared pages more than once; both "
		"count only the part of gVisor's memory that is mapped at the moment. CPU is in "
		"percent of one processor, since the last update, or at first over the sandbox's life; "
		"TIME is the total processor time. PIDS are processes and threads, on engine gvisor "
		"those of its kernel on the host. coffer's own processes are not counted.",
	.examples = "coffer ps -a\n"
		    "\t# all runs\n"
		    "coffer ps -q --filter status=exited --filter engine=gvisor\n"
		    "\t# ids of those that have ended on gVisor\n"
		    "coffer ps --stats\n"
		    "\t# resources, live\n"
		    "coffer prune --older 7d\n"
		    "\t# remove sandboxes that ended a week ago or earlier\n",
};
