/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the API: the destinations of a sandbox, and the rule that decides about a request or a tool call.
 *
 * The rules are loaded from the sandbox's policy files as they are now. The digest that its guard logged
 * last tells whether they are the ones in force. Rules granted by a person (ASK_WIDEN) are read from the
 * ask server. The rules for tools and apply are those that the run has stored since its start. It must not
 * change a policy.
 */
#include "approval/toolcall.h"
#include "approval/wire/askproto.h"
#include "audit/query.h"
#include "base/fd.h"
#include "base/jsonget.h"
#include "base/str.h"
#include "cli/api/web_work.h"
#include "cli/core/ref.h"
#include "cli/net/policy_acts.h"
#include "cli/net/policy_ask.h"
#include "netd/plan/net_plan.h"
#include "policy/explain.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* --- the policy in force ---------------------------------------------------------------------------- */

/*
 * The policy in force, as the log has it: file, --allow texts and mode of the last start, and the digests
 * of the last change.
 */
struct in_force {
	char id[RUN_ID_LEN + 1];
	int run_fd;
	json_t *start;
	char digest[96];
	char base[96]; /* digest of the files alone */
	struct strv rules, by,
		until; /* granted rules: canonical text, the question's id, and the end of the grant or "" */
};

#define IN_FORCE_INIT ((struct in_force){ .run_fd = -1 })

static void in_force_release(struct in_force *f)
{
	fd_close(f->run_fd);
	json_decref(f->start);
	strv_release(&f->rules);
	strv_release(&f->by);
	strv_release(&f->until);
}

static void take_digests(struct in_force *f, const json_t *o, bool start)
{
	const char *digest = jsonget_text(o, start ? "policy_digest" : "digest"),
		   *base = jsonget_text(o, start ? "policy_base" : "base");

	snprintf(f->digest, sizeof(f->digest), "%s", digest);
	snprintf(f->base, sizeof(f->base), "%s", *base ? base : digest);
}

/* Reads the log from its end: the last event of each type counts. */
static int read_policy_log(struct web_args *a, struct in_force *f, struct err *e)
{
	CLEANUP(audit_back_freep) struct audit_back *b = NULL;
	struct audit_filter filter = { .sandbox = f->id };
	struct audit_record rec;
	int r = audit_back_open(&b, a->st.fd, &filter, UINT64_MAX, e);

	while (r >= 0 && !f->start && (r = audit_back_next(b, &rec, e)) > 0) {
		bool start = line_is_type(&rec.line, "run.start");
		autobuf struct buf text = BUF_INIT;
		json_t *o;

		if (!rec.is_event || (!start && (f->digest[0] || !line_is_type(&rec.line, "policy.change"))))
			continue;
		buf_addf(&text, "{%.*s}", (int)rec.line.fields_len, rec.line.fields);
		o = json_loadb(buf_cstr(&text), text.len, 0, NULL);
		if (!f->digest[0])
			take_digests(f, o, start);
		if (start)
			f->start = json_incref(o);
		json_decref(o);
	}
	if (r >= 0 && !f->start)
		return err_set(e, -ENOENT, "the log does not know how sandbox %s was started", f->id);
	return r < 0 ? r : 0;
}

static int keep_granted_rule(void *ctx, json_t *ask)
{
	struct in_force *f = ctx;

	if (!str_eq(jsonget_text(ask, "kind"), "widen") || !str_eq(jsonget_text(ask, "state"), "granted"))
		return 0;
	return strv_add(&f->rules, jsonget_text(ask, "what")) < 0 ||
			       strv_add(&f->by, jsonget_text(ask, "id")) < 0 ||
			       strv_add(&f->until, jsonget_text(ask, "expires")) < 0
		       ? -ENOMEM
		       : 0;
}

/* Reads the granted rules in the order in which the guard has them: the digest depends on the order. */
static int read_granted_rules(struct in_force *f, struct err *e)
{
	autoaskc struct askc c = ASKC_INIT;
	struct err none = ERR_INIT;
	int r = askc_open(&c, f->run_fd, &none);

	if (r == 0)
		r = askc_list(&c, true, keep_granted_rule, f, e);
	else if (r == -ENOENT || r == -ECONNREFUSED)
		r = askc_read_file(f->run_fd, f->id, keep_granted_rule, f, e);
	else
		*e = none;
	if (r < 0 && !*e->msg)
		return err_set(e, r, "cannot read the rules granted to sandbox %s", f->id);
	return r < 0 ? r : 0;
}

static int read_in_force(struct web_args *a, struct in_force *f, struct err *e)
{
	bool alive;
	int r = state_resolve(&a->st, cli_web_arg(a, "sandbox"), f->id, e);

	if (r < 0)
		return r;
	f->run_fd = state_run_open(&a->st, f->id, &alive, e);
	if (f->run_fd < 0)
		return f->run_fd;
	r = read_policy_log(a, f, e);
	return r < 0 ? r : read_granted_rules(f, e);
}

static bool run_had_network(const struct in_force *f)
{
	return !str_eq(jsonget_text(f->start, "net"), "none");
}

static int copy_json_texts(const json_t *list, struct strv *to, struct err *e)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *s = json_string_value(json_array_get(list, i));

		if (s && strv_add(to, s) < 0)
			return err_set(e, -ENOMEM, "out of memory");
	}
	return 0;
}

static int add_grants_to_plan(const struct in_force *f, struct net_plan *p, struct err *e)
{
	for (size_t i = 0; i < f->rules.n; i++) {
		if (strv_add(&p->widen, f->rules.v[i]) < 0 || strv_add(&p->widen_by, f->by.v[i]) < 0)
			return err_set(e, -ENOMEM, "out of memory");
	}
	return 0;
}

/*
 * The digest covers which --allow texts came from a profile. The log does not have that; the run's
 * directory does.
 */
static void recall_profile(const struct in_force *f, struct net_plan *p)
{
	CLEANUP(net_plan_release) struct net_plan saved = NET_PLAN_INIT;
	struct err ignored = ERR_INIT;

	if (net_plan_recall(&saved, f->run_fd, &ignored) < 0 || saved.allow.n != p->allow.n)
		return;
	p->profile = TAKE_PTR(saved.profile);
	p->n_profile = saved.n_profile;
}

/*
 * Compiles the policy as it would be now, with the granted rules. `note` tells why that is not the policy
 * in force, if it is not.
 */
static int compile_policy_now(const struct in_force *f, struct net_plan *p, char note[256], struct err *e)
{
	const char *net = jsonget_text(f->start, "net"), *file = jsonget_text(f->start, "policy");
	struct config_policy_args args;
	int r = copy_json_texts(json_object_get(f->start, "allow"), &p->allow, e);

	note[0] = '\0';
	r = r < 0 ? r : copy_json_texts(json_object_get(f->start, "resolvers"), &p->resolvers, e);
	if (r < 0)
		return r;
	p->file = *file ? strdup(file) : NULL;
	if (*file && !p->file)
		return err_set(e, -ENOMEM, "out of memory");
	if (!p->file && *net)
		p->mode = str_eq(net, "observe") ? POLICY_OBSERVE : POLICY_ENFORCE;
	recall_profile(f, p);
	args = net_plan_args(p);
	args.for_checking = true;
	r = config_policy_load(&args, &p->cp, e);
	r = r < 0 ? r : net_plan_widen(p, e);
	if (r >= 0 && run_had_network(f) && !str_eq(p->digest, f->base))
		snprintf(note, 256, "the file is not what is in force: it has changed, or cannot be used");
	r = r < 0 ? r : add_grants_to_plan(f, p, e);
	r = r < 0 || !p->widen.n ? r : net_plan_widen(p, e);
	return r < 0 ? r : 0;
}

/* --- the responses ---------------------------------------------------------------------------------- */

static void add_grants_json(const struct in_force *f, struct json *j)
{
	json_arr(j, "granted");
	for (size_t i = 0; i < f->rules.n; i++) {
		json_obj(j, NULL);
		json_str(j, "rule", f->rules.v[i]);
		json_str(j, "question", f->by.v[i]);
		json_str(j, "until", f->until.v[i][0] ? f->until.v[i] : NULL);
		json_end_obj(j);
	}
	json_end_arr(j);
}

static int add_acts_json(const struct in_force *f, struct json *j, struct err *e)
{
	struct acts acts = ACTS_INIT;
	int r = toolcall_read_acts(f->run_fd, f->id, &acts, e);

	if (r == 0)
		cli_policy_acts_json(&acts, j);
	acts_release(&acts);
	return r;
}

static void add_layers_json(const struct net_plan *p, struct buf *out)
{
	autobuf struct buf text = BUF_INIT;
	json_t *o = NULL;
	char *dump = NULL;

	if (p->cp.policy)
		policy_describe_json(p->cp.policy, true, &text);
	if (text.len)
		o = json_loadb(text.data, text.len, 0, NULL);
	if (o)
		dump = json_dumps(json_object_get(o, "layers"), JSON_COMPACT);
	buf_addf(out, ",\"layers\":%s", dump ? dump : "[]");
	free(dump);
	json_decref(o);
}

int web_work_policy(struct web_args *a, struct err *e)
{
	CLEANUP(in_force_release) struct in_force f = IN_FORCE_INIT;
	CLEANUP(net_plan_release) struct net_plan p = NET_PLAN_INIT;
	struct json j = JSON_INIT(&a->out);
	char note[256] = "";
	const json_t *list;
	struct err why = ERR_INIT;
	int r = read_in_force(a, &f, e);

	if (r < 0)
		return r;
	if (compile_policy_now(&f, &p, note, &why) < 0)
		snprintf(note, sizeof(note), "%.255s", why.msg);
	json_obj(&j, NULL);
	json_str(&j, "sandbox", f.id);
	json_str(&j, "net", jsonget_text_or_null(f.start, "net"));
	json_str(&j, "file", jsonget_text_or_null(f.start, "policy"));
	json_arr(&j, "allow");
	list = json_object_get(f.start, "allow");
	for (size_t i = 0; i < json_array_size(list); i++)
		json_str(&j, NULL, json_string_value(json_array_get(list, i)));
	json_end_arr(&j);
	json_str(&j, "digest", f.digest[0] ? f.digest : NULL);
	json_bool(&j, "current", !note[0]);
	json_str(&j, "note", note[0] ? note : NULL);
	add_grants_json(&f, &j);
	r = add_acts_json(&f, &j, e);
	if (r < 0) {
		a->code = "conflict";
		return r;
	}
	add_layers_json(&p, &a->out);
	json_end_obj(&j);
	buf_addc(&a->out, '\n');
	return 0;
}

/* The id of the question whose grant made this rule; NULL: it is a rule of the policy. */
static const char *grant_of_rule(const struct net_plan *p, const struct policy_rule *rule)
{
	struct policy_rule *const *all;
	size_t n = policy_widened(p->cp.policy, &all);

	for (size_t i = 0; rule && i < n; i++) {
		if (all[i] == rule)
			return rule->source + (str_starts(rule->source, "question ") ? 9 : 0);
	}
	return NULL;
}

static int explain_request_json(struct web_args *a, const struct in_force *f, const struct policy_ask *ask,
				struct err *e)
{
	CLEANUP(net_plan_release) struct net_plan p = NET_PLAN_INIT;
	struct json j = JSON_INIT(&a->out);
	autobuf struct buf text = BUF_INIT;
	struct policy_verdict v;
	char note[256];
	int r = compile_policy_now(f, &p, note, e);

	if (r < 0) {
		a->code = "conflict";
		return r;
	}
	policy_explain(p.cp.policy, &ask->target, ask->has_request ? &ask->request : NULL, &text, &v);
	json_obj(&j, NULL);
	json_str(&j, "decision", policy_action_name(v.action));
	json_str(&j, "rule", v.rule_text);
	json_str(&j, "why", v.why);
	json_str(&j, "question", grant_of_rule(&p, v.rule));
	json_str(&j, "depth", policy_allows(&v) ? policy_depth_name(v.depth) : NULL);
	json_str(&j, "hint", v.hint);
	json_bool(&j, "needs_body", v.need != 0);
	json_bool(&j, "current", !note[0]);
	json_end_obj(&j);
	return 0;
}

static int explain_tool_json(struct web_args *a, const struct in_force *f, const struct toolcall *t,
			     struct err *e)
{
	autobuf struct buf rule = BUF_INIT, why = BUF_INIT;
	struct json j = JSON_INIT(&a->out);
	struct acts acts = ACTS_INIT;
	struct tool_verdict v = { 0 };
	int r = toolcall_read_acts(f->run_fd, f->id, &acts, e);

	if (r < 0) {
		a->code = "conflict";
		return r;
	}
	acts_decide_tool(&acts, t->name, t->v, t->n, &v);
	tool_verdict_text(&v, t->name, &why);
	if (v.rule)
		tool_rule_text(v.rule, &rule);
	json_obj(&j, NULL);
	json_str(&j, "decision", policy_action_name(v.action));
	json_str(&j, "rule", v.rule ? buf_cstr(&rule) : NULL);
	json_str(&j, "why", buf_cstr(&why));
	json_none(&j, "question");
	json_none(&j, "depth");
	json_none(&j, "hint");
	json_bool(&j, "needs_body", false);
	json_bool(&j, "current", true);
	json_end_obj(&j);
	acts_release(&acts);
	return buf_error(&rule) || buf_error(&why) ? err_set(e, -ENOMEM, "out of memory") : 0;
}

/* Parses what to explain: a request or a tool call. */
static int parse_explain_args(const struct web_args *a, struct policy_ask *ask, struct toolcall *t,
			      struct err *e)
{
	const char *url = cli_web_arg(a, "url"), *tool = cli_web_arg(a, "tool"),
		   *args = cli_web_arg(a, "args");

	if (!url == !tool)
		return err_set(e, -EINVAL, "name either the url of a request or a tool");
	if (!tool && args)
		return err_set(e, -EINVAL, "args needs tool");
	if (tool && (cli_web_arg(a, "method") || cli_web_arg(a, "graphql") || cli_web_arg(a, "push")))
		return err_set(e, -EINVAL, "method, graphql and push are about a request, not about a tool");
	if (tool)
		return toolcall_parse(t, tool, args, args ? strlen(args) : 0, e);
	return cli_policy_ask_parse(ask, cli_web_arg(a, "method"), url, cli_web_arg(a, "graphql"),
				    cli_web_arg(a, "push"), e);
}

int web_work_explain(struct web_args *a, struct err *e)
{
	CLEANUP(in_force_release) struct in_force f = IN_FORCE_INIT;
	CLEANUP(cli_policy_ask_release) struct policy_ask ask = POLICY_ASK_INIT;
	CLEANUP(toolcall_release) struct toolcall t = TOOLCALL_INIT;
	int r = parse_explain_args(a, &ask, &t, e);

	if (r < 0) {
		a->code = "bad_request";
		return r;
	}
	r = read_in_force(a, &f, e);
	if (r < 0) {
		a->code = r == -ENOENT ? "not_found" : "conflict";
		return r;
	}
	r = cli_web_arg(a, "tool") ? explain_tool_json(a, &f, &t, e) : explain_request_json(a, &f, &ask, e);
	buf_addc(&a->out, '\n');
	return r;
}
