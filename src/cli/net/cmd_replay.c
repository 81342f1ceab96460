/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer replay: decides the requests of recorded runs again, by another policy, and shows the differences.
 * The log is the only input (replay_log.h): nothing is started, and no network is touched.
 */
#include "policy/replay/replay.h"

#include "base/json.h"
#include "base/str.h"
#include "cli/core/say.h"
#include "cli/core/table.h"
#include "cli/core/verb.h"
#include "cli/net/replay_log.h"
#include "config/policy_file.h"

#include <errno.h>
#include <stdio.h>

#define EXIT_CHANGES 1
#define ALLOW_MAX 64

enum { OPT_POLICY = 1, OPT_ALLOW, OPT_SINCE, OPT_JSON };

static const struct opt replay_opts[] = {
	{ "policy", 0, "FILE", "decide by this policy; if it is repeated, all must allow", OPT_POLICY, "file",
	  .many = true },
	{ "allow", 0, "WHAT", "as with 'coffer run --allow'; may be repeated", OPT_ALLOW, .many = true },
	{ "since", 0, "TIME", "only events since then: 2026-01-31, 2026-01-31T12:00:00Z, 2h", OPT_SINCE },
	{ "json", 0, NULL, "print JSON, one object per line", OPT_JSON },
};

struct replay_args {
	const char *files[CONFIG_LAYERS_MAX];
	size_t n_files;
	const char *allow[ALLOW_MAX];
	size_t n_allow;
	struct replay_range range;
	bool json;
};

/* --- output ---------------------------------------------------------------------------------------- */

static void add_replay_subject(const struct replay_row *row, struct buf *b)
{
	if (row->kind == REPLAY_REQUEST)
		buf_addf(b, "%s ", *row->method ? row->method : "requests");
	else if (row->kind != REPLAY_CONNECT)
		buf_addf(b, "%s ", replay_kind_name(row->kind));
	if (*row->what)
		buf_addf(b, "%s%s", row->what, *row->host ? " for " : "");
	buf_adds(b, row->host);
	if (row->port)
		buf_addf(b, ":%u", row->port);
	if (row->n_paths)
		buf_addf(b, " %s%s", row->paths[0], row->n_paths > 1 || row->more_paths ? " …" : "");
}

static int add_replay_row(struct table *t, const struct replay_row *row)
{
	autobuf struct buf what = BUF_INIT;
	char change[32], count[24];
	int r;

	snprintf(change, sizeof(change), "%s -> %s", policy_action_name(row->was),
		 row->now == REPLAY_UNKNOWN ? "?" : replay_now_name(row->now));
	snprintf(count, sizeof(count), "%llu", (unsigned long long)row->count);
	add_replay_subject(row, &what);
	r = buf_error(&what) ? -ENOMEM : table_add(t, change, 0);
	r = r < 0 ? r : table_add(t, count, 0);
	r = r < 0 ? r : table_add(t, buf_cstr(&what), 76);
	return r < 0 ? r : table_add(t, *row->rule ? row->rule : row->why, 110);
}

static void add_replay_json(struct buf *out, const struct replay_row *row)
{
	struct json j = JSON_INIT(out);

	json_obj(&j, NULL);
	json_str(&j, "type", row->now == REPLAY_UNKNOWN ? "unknown" : "change");
	json_str(&j, "kind", replay_kind_name(row->kind));
	json_str(&j, "was", policy_action_name(row->was));
	json_str(&j, "now", row->now == REPLAY_UNKNOWN ? NULL : replay_now_name(row->now));
	if (row->kind != REPLAY_TOOL && row->kind != REPLAY_APPLY) {
		json_str(&j, "host", row->host);
		json_u64(&j, "port", row->port);
	}
	if (*row->what)
		json_str(&j, replay_kind_name(row->kind), row->what);
	if (row->kind == REPLAY_REQUEST)
		json_str(&j, "method", row->method);
	json_u64(&j, "count", row->count);
	json_str(&j, "was_rule", row->was_rule);
	json_str(&j, "rule", row->rule);
	json_str(&j, "why", row->why);
	json_arr(&j, row->kind == REPLAY_ADDRESS ? "addresses" : "paths");
	for (size_t i = 0; i < row->n_paths; i++)
		json_str(&j, NULL, row->paths[i]);
	json_end_arr(&j);
	json_bool(&j, "more", row->more_paths);
	json_end_obj(&j);
	buf_addc(out, '\n');
}

static void add_sums_json(struct buf *out, const struct replay_sums *n)
{
	struct json j = JSON_INIT(out);

	json_obj(&j, NULL);
	json_str(&j, "type", "sum");
	json_u64(&j, "decisions", n->decisions);
	json_u64(&j, "same", n->same);
	json_u64(&j, "to_deny", n->to[REPLAY_DENY]);
	json_u64(&j, "to_ask", n->to[REPLAY_ASK]);
	json_u64(&j, "to_allow", n->to[REPLAY_ALLOW]);
	json_u64(&j, "unknown", n->to[REPLAY_UNKNOWN]);
	json_u64(&j, "others", n->others);
	json_end_obj(&j);
	buf_addc(out, '\n');
}

static bool has_changes(const struct replay_sums *n)
{
	return n->to[REPLAY_DENY] + n->to[REPLAY_ASK] + n->to[REPLAY_ALLOW];
}

static void add_sums_text(struct buf *out, const struct replay_sums *n)
{
	buf_addf(out, "%llu decision%s: ", (unsigned long long)n->decisions, n->decisions == 1 ? "" : "s");
	if (has_changes(n))
		buf_addf(out, "%llu would be denied, %llu asked, %llu allowed",
			 (unsigned long long)n->to[REPLAY_DENY], (unsigned long long)n->to[REPLAY_ASK],
			 (unsigned long long)n->to[REPLAY_ALLOW]);
	else
		buf_adds(out, "nothing would change");
	if (has_changes(n) || n->to[REPLAY_UNKNOWN])
		buf_addf(out, ", %llu cannot be told, %llu stay as they are",
			 (unsigned long long)n->to[REPLAY_UNKNOWN], (unsigned long long)n->same);
	buf_addc(out, '\n');
	if (n->others)
		buf_addf(out, "%llu of these have no line above: there are too many different ones\n",
			 (unsigned long long)n->others);
}

static int show_replay(struct replay *re, bool json, struct err *e)
{
	static const char *const heads[] = { "CHANGE", "TIMES", "WHAT", "BY" };
	autotable struct table t = TABLE_INIT(4);
	autobuf struct buf out = BUF_INIT;
	const struct replay_row *rows = NULL;
	struct replay_sums n = replay_sums(re);
	size_t n_rows = replay_rows(re, &rows);
	int r = 0;

	for (size_t i = 0; r == 0 && n_rows && i < ARRAY_SIZE(heads); i++)
		r = table_add(&t, heads[i], 0);
	for (size_t i = 0; r == 0 && i < n_rows; i++) {
		if (json)
			add_replay_json(&out, &rows[i]);
		else
			r = add_replay_row(&t, &rows[i]);
	}
	if (json) {
		add_sums_json(&out, &n);
	} else {
		table_format(&t, &out);
		add_sums_text(&out, &n);
	}
	if (r < 0 || buf_error(&out))
		return say_error((err_set(e, -ENOMEM, "out of memory"), e));
	if (say_out(&out))
		return EXIT_OURS;
	return has_changes(&n) ? EXIT_CHANGES : 0;
}

/* --- the command line ------------------------------------------------------------------------------------------ */

static int add_repeated_option(const char **list, size_t *n, size_t max, const char *text, struct err *e)
{
	if (*n == max)
		return err_set(e, -E2BIG, "at most %zu can be given, and '%.64s' is one more", max, text);
	list[(*n)++] = text;
	return 0;
}

static int take_replay_option(struct replay_args *a, int id, const char *value, struct err *e)
{
	switch (id) {
	case OPT_POLICY:
		return add_repeated_option(a->files, &a->n_files, ARRAY_SIZE(a->files), value, e);
	case OPT_ALLOW:
		return add_repeated_option(a->allow, &a->n_allow, ARRAY_SIZE(a->allow), value, e);
	case OPT_JSON:
		a->json = true;
		return 0;
	default:
		return opt_time("--since", value, &a->range.since, e);
	}
}

/* Returns 0, OPT_HELP, or a negative errno for a usage error. Options may come anywhere. */
static int parse_replay_args(int argc, char **argv, struct replay_args *a, struct err *e)
{
	struct optparse p = OPTPARSE_MIXED(argc, argv, replay_opts, ARRAY_SIZE(replay_opts));
	const char *value, *word;
	int id, r = 0;

	while (r == 0 && (id = opt_next(&p, &value, e)) != 0) {
		if (id < 0 || id == OPT_HELP)
			return id;
		r = take_replay_option(a, id, value, e);
	}
	while (r == 0 && (word = opt_take(&p)) != NULL)
		r = add_repeated_option(a->range.runs, &a->range.n_runs, ARRAY_SIZE(a->range.runs), word, e);
	if (r == 0 && a->n_files + a->n_allow == 0)
		r = err_set(e, -EINVAL, "replay needs --policy FILE, the rules to decide by");
	if (r == 0 && a->range.n_runs == 0 && !a->range.since)
		r = err_set(e, -EINVAL, "replay needs a run (@last is the last one), or --since");
	return r;
}

static int cmd_replay(int argc, char **argv)
{
	CLEANUP(config_policy_release) struct config_policy cp = { 0 };
	CLEANUP(state_release) struct state st = STATE_INIT;
	CLEANUP(replay_freep) struct replay *re = NULL;
	struct replay_args a = { 0 };
	struct err e = ERR_INIT;
	int r = parse_replay_args(argc, argv, &a, &e);

	if (r == OPT_HELP)
		return verb_print_help(&verb_replay);
	if (r < 0)
		return say_usage(&verb_replay, &e);
	struct config_policy_args pa = { .files = a.files,
					 .n_files = a.n_files,
					 .allow = a.allow,
					 .n_allow = a.n_allow,
					 .mode = -1,
					 .for_checking = true };
	if (config_policy_load(&pa, &cp, &e) < 0) {
		say_error(&e);
		return EXIT_USAGE;
	}
	r = state_open(&st, &e);
	r = r < 0 ? r : replay_new(&re, cp.policy, &cp.acts, &e);
	r = r < 0 ? r : cli_replay_log(re, &st, &a.range, &e);
	if (r < 0)
		return say_error(&e);
	return show_replay(re, a.json, &e);
}

const struct verb verb_replay = {
	.name = "replay",
	.group = VERB_MANAGE,
	.synopsis = "[OPTIONS] --policy FILE [SANDBOX…]",
	.help = "decide the acts of a run again, by another policy",
	.opts = replay_opts,
	.n_opts = ARRAY_SIZE(replay_opts),
	.run = cmd_replay,
	.args = "sandbox",
	.text = "Reads every lookup, connection, request, tool call and *coffer apply* of these runs "
		"from the audit log, decides each again by the given policy, and shows the "
		"differences: acts that were allowed and would be denied, acts that a person would be "
		"asked about, acts that would become allowed, and the rule for each. Acts with the "
		"same decision are one line with a count.\n"
		"\n"
		"The decisions of the two policies are compared, not the outcomes. If the run's policy "
		"required a question, its decision is *ask*, whatever the answer was, and even if "
		"there was none because the question was withdrawn or the run ended. An act that a "
		"person granted beyond the run's policy stays allowed unless a rule of the other "
		"policy covers it. A replay with the run's own policy shows no difference.\n"
		"\n"
		"Nothing is guessed. A line with *?* is an act for which the log lacks information: "
		"the operation of a GraphQL request or the refs of a push if no rule looked at them "
		"during the run, requests on a connection that was not inspected, acts that were only "
		"counted in a flood, a refusal that no rule made, a tool call whose arguments a rule "
		"looks at. Limits are not counted again, and nobody is asked.\n"
		"\n"
		"The exit code is 0 if nothing would change, 1 if something would, 2 if the command "
		"line or the policy is wrong.",
	.examples = "coffer replay @last --policy new.yaml\n"
		    "\t# would the last run still work?\n"
		    "coffer replay --since 7d --policy new.yaml --json\n"
		    "\t# what would it have changed in the last week?\n",
};
