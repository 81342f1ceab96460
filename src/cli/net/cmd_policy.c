/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer policy: checks, shows, compares and explains policy files before anything depends on them. Starts
 * no sandbox and no process, and touches no network.
 */
#include "config/policy_file.h"

#include "approval/toolcall.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "cli/core/say.h"
#include "cli/core/table.h"
#include "cli/core/verb.h"
#include "cli/net/policy_acts.h"
#include "cli/net/policy_ask.h"
#include "config/preset.h"
#include "crypto/hash.h"
#include "policy/build.h"
#include "policy/explain.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#define EXIT_NO 1 /* the file is wrong, the request denied, the files differ */

enum { OPT_JSON = 1, OPT_PRESET, OPT_GRAPHQL, OPT_PUSH, OPT_ALLOW, OPT_TOOL, OPT_ARGS };

static const struct opt policy_opts[] = {
	{ "allow", 0, "WHAT", "explain, show: as with 'coffer run --allow'; may be repeated", OPT_ALLOW,
	  .many = true },
	{ "graphql", 0, "DOCUMENT", "explain: the GraphQL document in the request's body", OPT_GRAPHQL },
	{ "push", 0, "REF[=ACT]", "explain: a git push to this ref (create, update, delete or force)",
	  OPT_PUSH },
	{ "tool", 0, "NAME", "explain: a call of this tool, instead of a request", OPT_TOOL },
	{ "args", 0, "JSON", "explain: the tool's arguments, an object", OPT_ARGS },
	{ "preset", 0, "NAME", "show: a preset, as a policy file to use or to change", OPT_PRESET },
	{ "json", 0, NULL, "print JSON", OPT_JSON },
};

enum act { ACT_CHECK, ACT_EXPLAIN, ACT_DIFF, ACT_PRESETS, ACT_SHOW, ACT_COUNT };
static const char act_names[] = "check explain diff presets show";

#define ALLOW_MAX 64

struct args {
	enum act act;
	bool json;
	const char *preset, *graphql, *push, *tool, *args;
	const char *allow[ALLOW_MAX];
	size_t n_allow;
	int argc;
	char **argv;
};

static int load_named_policy(const struct args *a, const char *const *files, size_t n,
			     struct config_policy *ret, struct err *e)
{
	struct config_policy_args args = {
		.files = files, .n_files = n, .mode = -1, .for_checking = a->act != ACT_CHECK
	};

	args.allow = a->allow;
	args.n_allow = a->n_allow;
	return config_policy_load(&args, ret, e);
}

static void say_warnings(const struct config_policy *c)
{
	for (size_t i = 0; i < c->warnings.n; i++)
		say_warn("%s", c->warnings.v[i]);
	for (size_t i = 0; i < c->conflicts.n; i++)
		say_warn("%s", c->conflicts.v[i]);
}

static int print_policy_text(struct buf *out, struct err *e)
{
	return buf_error(out) ? err_set(e, -ENOMEM, "out of memory") : say_out(out) ? -EIO : 0;
}

static void add_check_json(const char *file, const struct config_policy *c, struct buf *out)
{
	unsigned char digest[POLICY_DIGEST_LEN];
	char hex[2 * POLICY_DIGEST_LEN + 1];
	struct json j = JSON_INIT(out);

	policy_digest(c->policy, digest);
	hash_hex(digest, sizeof(digest), hex);
	json_obj(&j, NULL);
	json_str(&j, "file", file);
	json_u64(&j, "rules", policy_rule_count(c->policy));
	json_str(&j, "mode", policy_mode(c->policy) == POLICY_OBSERVE ? "observe" : "enforce");
	if (c->acts.has_tools)
		json_u64(&j, "tools", c->acts.n_rules);
	if (c->acts.has_apply)
		json_str(&j, "apply", policy_action_name(c->acts.apply));
	json_str(&j, "digest", hex);
	json_arr(&j, "warnings");
	for (size_t i = 0; i < c->warnings.n; i++)
		json_str(&j, NULL, c->warnings.v[i]);
	json_end_arr(&j);
	json_end_obj(&j);
	buf_addc(out, '\n');
}

static int check_policy(const struct args *a, struct err *e)
{
	CLEANUP(config_policy_release) struct config_policy c = { 0 };
	autobuf struct buf out = BUF_INIT;
	const char *file = a->argv[0];
	size_t n;
	char shown[256];

	if (load_named_policy(a, &file, 1, &c, e) < 0) {
		say_error(e);
		return EXIT_NO;
	}
	n = policy_rule_count(c.policy);
	if (a->json) {
		add_check_json(file, &c, &out);
	} else {
		say_warnings(&c);
		buf_addf(&out, "%s: %zu rule%s, %s", str_safe(file, shown, sizeof(shown)), n,
			 n == 1 ? "" : "s", policy_mode(c.policy) == POLICY_OBSERVE ? "observe" : "enforce");
		cli_policy_acts_count(&c.acts, &out);
		buf_addf(&out, ", %zu warning%s\n", c.warnings.n, c.warnings.n == 1 ? "" : "s");
	}
	return print_policy_text(&out, e);
}

static void add_verdict_json(const struct policy_verdict *v, struct buf *out)
{
	struct json j = JSON_INIT(out);

	json_obj(&j, NULL);
	json_str(&j, "decision", policy_action_name(v->action));
	json_str(&j, "rule", v->rule_text);
	json_str(&j, "why", v->why);
	json_str(&j, "depth", policy_allows(v) ? policy_depth_name(v->depth) : NULL);
	json_str(&j, "hint", v->hint);
	json_bool(&j, "needs_body", v->need != 0);
	json_end_obj(&j);
	buf_addc(out, '\n');
}

static int explain_tool(const struct args *a, struct err *e)
{
	CLEANUP(config_policy_release) struct config_policy c = { 0 };
	CLEANUP(toolcall_release) struct toolcall t = TOOLCALL_INIT;
	autobuf struct buf out = BUF_INIT;
	const char *file = a->argv[0];
	struct tool_verdict v;
	int r = toolcall_parse(&t, a->tool, a->args, a->args ? strlen(a->args) : 0, e);

	if (r == 0)
		r = load_named_policy(a, &file, 1, &c, e);
	if (r < 0) {
		say_error(e);
		return EXIT_USAGE;
	}
	acts_explain_tool(&c.acts, t.name, t.v, t.n, &out, &v);
	if (a->json) {
		buf_clear(&out);
		cli_policy_acts_verdict_json(&v, t.name, &out);
	}
	r = print_policy_text(&out, e);
	return r < 0 ? r : v.action == POLICY_ALLOW ? 0 : EXIT_NO;
}

/* Explains the decision about a connection or a request, or with --tool about a call. */
static int explain_act(const struct args *a, struct err *e)
{
	CLEANUP(config_policy_release) struct config_policy c = { 0 };
	CLEANUP(cli_policy_ask_release) struct policy_ask ask = POLICY_ASK_INIT;
	autobuf struct buf out = BUF_INIT;
	const char *file = a->argv[0];
	struct policy_verdict v;
	int r;

	if (a->tool)
		return explain_tool(a, e);
	r = cli_policy_ask_parse(&ask, a->argc > 2 ? a->argv[1] : NULL, a->argv[a->argc - 1], a->graphql,
				 a->push, e);
	if (r == 0)
		r = load_named_policy(a, &file, 1, &c, e);
	if (r < 0) {
		say_error(e);
		return EXIT_USAGE;
	}
	policy_explain(c.policy, &ask.target, ask.has_request ? &ask.request : NULL, &out, &v);
	if (a->json) {
		buf_clear(&out);
		add_verdict_json(&v, &out);
	}
	r = print_policy_text(&out, e);
	return r < 0 ? r : policy_allows(&v) ? 0 : EXIT_NO;
}

static int diff_policies(const struct args *a, struct err *e)
{
	CLEANUP(config_policy_release) struct config_policy from = { 0 }, to = { 0 };
	autobuf struct buf out = BUF_INIT;
	const char *files[] = { a->argv[0], a->argv[1] };
	struct policy_diff n = { 0 };
	int r = load_named_policy(a, &files[0], 1, &from, e);

	r = r < 0 ? r : load_named_policy(a, &files[1], 1, &to, e);
	r = r < 0 ? r : policy_diff(from.policy, to.policy, &out, &n, e);
	if (r < 0) {
		say_error(e);
		return EXIT_USAGE;
	}
	n.changed += cli_policy_acts_diff(&from.acts, &to.acts, &out);
	if (n.allowed + n.denied + n.changed == 0)
		buf_adds(&out, "both decide the same\n");
	else
		buf_addf(&out, "%zu now allowed, %zu no longer allowed, %zu otherwise\n", n.allowed, n.denied,
			 n.changed);
	r = print_policy_text(&out, e);
	return r < 0 ? r : n.allowed + n.denied + n.changed ? EXIT_NO : 0;
}

static int add_preset_row(struct table *t, const struct preset *p, struct json *j, struct err *e)
{
	autobuf struct buf about = BUF_INIT;
	autobuf struct buf params = BUF_INIT;
	unsigned version = 0;
	char number[16];
	int r = preset_about(p, &version, &about, &params, e);

	if (r < 0)
		return r;
	json_obj(j, NULL);
	json_str(j, "name", p->name);
	json_u64(j, "version", version);
	json_str(j, "parameters", buf_cstr(&params));
	json_str(j, "about", buf_cstr(&about));
	json_end_obj(j);
	snprintf(number, sizeof(number), "%u", version);
	r = table_add(t, p->name, 0);
	r = r < 0 ? r : table_add(t, number, 0);
	r = r < 0 ? r : table_add(t, params.len ? buf_cstr(&params) : "-", 0);
	r = r < 0 ? r : table_add(t, buf_cstr(&about), 0);
	return r < 0 ? err_set(e, r, "out of memory") : 0;
}

static int list_presets(const struct args *a, struct err *e)
{
	static const char *const heads[] = { "PRESET", "VERSION", "PARAMETERS", "WHAT IT LETS IN" };
	autotable struct table t = TABLE_INIT(4);
	autobuf struct buf out = BUF_INIT;
	struct json j = JSON_INIT(&out);
	int r = 0;

	json_arr(&j, NULL);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(heads); i++)
		r = table_add(&t, heads[i], 0);
	for (size_t i = 0; r == 0 && i < n_presets; i++)
		r = add_preset_row(&t, &presets[i], &j, e);
	if (r < 0)
		return e->code ? r : err_set(e, r, "out of memory");
	json_end_arr(&j);
	buf_addc(&out, '\n');
	if (!a->json) {
		buf_clear(&out);
		table_format(&t, &out);
	}
	return print_policy_text(&out, e);
}

static int show_preset(const struct args *a, struct err *e)
{
	autobuf struct buf out = BUF_INIT;
	const struct preset *p = preset_find(a->preset + (a->preset[0] == '@'));
	const char *names[64];
	const char *near;
	size_t n = 0;

	if (p) {
		int r = preset_as_policy(p, &out, e);

		return r < 0 ? r : print_policy_text(&out, e);
	}
	for (; n < n_presets && n < ARRAY_SIZE(names); n++)
		names[n] = presets[n].name;
	near = str_nearest(a->preset, names, n);
	err_set(e, -ENOENT, "there is no preset '%.60s'", a->preset);
	err_hint(e, -ENOENT, "coffer policy %s%s", near ? "show --preset " : "presets", near ? near : "");
	say_error(e);
	return EXIT_NO;
}

static int show_policy(const struct args *a, struct err *e)
{
	CLEANUP(config_policy_release) struct config_policy c = { 0 };
	autobuf struct buf out = BUF_INIT;
	const char *file = a->argc ? a->argv[0] : NULL;

	if (a->preset)
		return show_preset(a, e);
	if (load_named_policy(a, &file, a->argc ? 1 : 0, &c, e) < 0) {
		say_error(e);
		return EXIT_NO;
	}
	if (a->json) {
		policy_describe_json(c.policy, true, &out);
		buf_addc(&out, '\n');
	} else {
		say_warnings(&c);
		policy_describe(c.policy, &out);
		cli_policy_acts_describe(&c.acts, &out);
	}
	return print_policy_text(&out, e);
}

static int take_policy_option(struct args *a, int id, const char *value, struct err *e)
{
	if (id == OPT_ALLOW && a->n_allow == ALLOW_MAX)
		return err_set(e, -E2BIG, "--allow can be given at most %d times", ALLOW_MAX);
	if (id == OPT_ALLOW)
		a->allow[a->n_allow++] = value;
	a->json = a->json || id == OPT_JSON;
	a->preset = id == OPT_PRESET ? value : a->preset;
	a->graphql = id == OPT_GRAPHQL ? value : a->graphql;
	a->push = id == OPT_PUSH ? value : a->push;
	a->tool = id == OPT_TOOL ? value : a->tool;
	a->args = id == OPT_ARGS ? value : a->args;
	return 0;
}

static int check_word_count(const struct args *a, struct err *e)
{
	static const struct {
		int min, max;
		const char *want, *needs;
	} of[] = {
		[ACT_CHECK] = { 1, 1, "check FILE", "needs a file" },
		[ACT_EXPLAIN] = { 2, 3,
				  "explain FILE [METHOD] URL|HOST:PORT, or explain FILE --tool NAME [--args JSON]",
				  "needs a file, and a request or --tool NAME" },
		[ACT_DIFF] = { 2, 2, "diff FILE FILE", "needs two files" },
		[ACT_PRESETS] = { 0, 0, "presets", "takes no arguments" },
		[ACT_SHOW] = { 0, 1, "show FILE, or show --preset NAME", "needs a file, or --preset NAME" },
	};
	int min = a->act == ACT_SHOW && !a->preset && !a->n_allow ? 1 : of[a->act].min;

	if (a->act == ACT_EXPLAIN && a->tool && a->argc == 1)
		return 0;
	if (a->argc >= min && a->argc <= of[a->act].max && !a->tool && !a->args)
		return 0;
	if (a->act != ACT_EXPLAIN && (a->tool || a->args))
		err_set(e, -EINVAL, "--tool and --args are only valid with explain");
	else
		err_set(e, -EINVAL, "policy %.*s %s", (int)strcspn(of[a->act].want, " "), of[a->act].want,
			of[a->act].needs);
	return err_hint(e, -EINVAL, "coffer policy %s", of[a->act].want);
}

/* Options may come anywhere. The other words are moved to the front of argv. */
static int parse_policy_args(int argc, char **argv, struct args *a, struct err *e)
{
	struct optparse p = OPTPARSE_MIXED(argc, argv, policy_opts, ARRAY_SIZE(policy_opts));
	const char *value, *word;
	int id, act;

	while ((id = opt_next(&p, &value, e)) > 0) {
		if (id == OPT_HELP)
			return OPT_HELP;
		id = take_policy_option(a, id, value, e);
		if (id < 0)
			return id;
	}
	if (id < 0)
		return id;
	word = opt_take(&p);
	if (!word)
		return err_set(e, -EINVAL, "policy needs one of these words: %s", act_names);
	act = opt_action("policy", word, act_names, e);
	if (act < 0)
		return act;
	a->act = (enum act)act;
	a->argc = p.argc - p.index;
	a->argv = p.argv + p.index;
	return check_word_count(a, e);
}

static int cmd_policy(int argc, char **argv)
{
	static int (*const acts[])(const struct args *, struct err *) = {
		[ACT_CHECK] = check_policy,   [ACT_EXPLAIN] = explain_act, [ACT_DIFF] = diff_policies,
		[ACT_PRESETS] = list_presets, [ACT_SHOW] = show_policy,
	};
	struct args a = { 0 };
	struct err e = ERR_INIT;
	int r = parse_policy_args(argc, argv, &a, &e);

	_Static_assert(ARRAY_SIZE(acts) == ACT_COUNT, "something to do for each word");
	if (r == OPT_HELP)
		return verb_print_help(&verb_policy);
	if (r < 0 || !a.argv)
		return say_usage(&verb_policy, &e);
	r = acts[a.act](&a, &e);
	return r == -EIO ? EXIT_OURS : r < 0 ? say_error(&e) : r;
}

const struct verb verb_policy = {
	.name = "policy",
	.group = VERB_HOST,
	.synopsis = "check|show FILE | explain FILE [METHOD] URL|HOST:PORT | diff A B | presets",
	.help = "check and explain what a sandbox may reach",
	.opts = policy_opts,
	.n_opts = ARRAY_SIZE(policy_opts),
	.run = cmd_policy,
	.args = "path",
	.text = "*check* reads a policy file and reports its errors with file, line and column, and "
		"warns of entries that are valid but probably not intended. A file that others may "
		"write to is an error, as it is for coffer-run(1). *explain* shows what the "
		"policy decides about a connection or a request, by which rule, and why. *diff* shows "
		"what becomes allowed (+), what becomes denied (-) and what stays allowed under other "
		"conditions (~) if the second file replaces the first. *presets* lists the built-in "
		"rules for well-known services; *show* prints one of them as a policy file, or the "
		"rules that result from a file.\n"
		"\n"
		"The exit status is 0 if a file is valid, a request is allowed, or two files decide "
		"the same; 1 if not; 2 if there is no result because the command line, or with "
		"*explain* and *diff* a file, is wrong.",
	.examples = "coffer policy check team.yaml\n"
		    "\t# is it valid, and does it mean what was intended?\n"
		    "coffer policy explain team.yaml PUT https://api.github.com/repos/o/r/pulls/7/merge\n"
		    "\t# which rule decides, and why\n"
		    "coffer policy explain team.yaml db.example.com:5432\n"
		    "\t# a connection\n"
		    "coffer policy explain team.yaml --tool deploy --args '{\"env\":\"production\"}'\n"
		    "\t# a tool call\n"
		    "coffer policy diff old.yaml new.yaml\n"
		    "\t# what would change\n"
		    "coffer policy show --preset github-triage\n"
		    "\t# built-in rules, to use or to copy\n",
};
