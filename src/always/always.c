/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An approval for good (always.h): chooses the edit of the policy file for a network question, verifies the
 * edited policy before anything is written, and logs it. It never widens more than the question: an edit that
 * cannot be exact is refused.
 */
#include "always/always.h"

#include "base/cleanup.h"
#include "base/jsonget.h"
#include "base/str.h"
#include "config/edit/policy_edit.h"
#include "policy/build.h"
#include "policy/explain.h"
#include "workspace/change/textdiff.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DIFF_LOGGED_MAX 4096

void always_release(struct always *a)
{
	net_plan_release(&a->plan);
	buf_release(&a->before);
	buf_release(&a->after);
	buf_release(&a->diff);
	*a = ALWAYS_INIT;
}

int always_compile(const struct always *a, const struct buf *text, struct config_policy *ret, struct err *e)
{
	struct config_policy_args args = net_plan_args(&a->plan);

	args.text = buf_cstr(text);
	args.text_len = text->len;
	return config_policy_load(&args, ret, e);
}

/* --- choosing the edit ---------------------------------------------------------------------------------- */

/* always.W2: does the rule cover this host and port, and no other? */
static bool rule_is_exact(const struct policy_rule *r, const struct always_act *x)
{
	bool host = r->by_addr ? x->host.kind == HOST_ADDR && addr_eq(&r->range.base, &x->host.addr) &&
					 r->range.bits == 128
			       : str_eq(r->host.text, x->host_text);

	return host && r->n_ports == 1 && r->ports[0].lo == x->port && r->ports[0].hi == x->port;
}

static bool rule_is_in_file(const struct always *a, const struct policy_rule *r)
{
	char shown[POLICY_SOURCE_MAX + 1];

	return r->layer == 0 && r->line && str_eq(r->source, str_safe(a->plan.file, shown, sizeof(shown)));
}

/* Does the entry cover exactly this act, so that no entry that allows it could be more specific? */
static bool entry_is_exact(const struct policy_entry *en, const struct always_act *x)
{
	method_set m;

	if (pathpat_has_star(en->path) || (en->name && pathpat_has_star(en->name)))
		return false;
	if (en->kind == POLICY_HTTP)
		return method_parse(x->method, strlen(x->method), &m, NULL) == 0 && en->methods == m;
	return en->acts == (x->act ? x->act : POLICY_GIT_FETCH);
}

static int refuse_edit(const struct always_act *x, const char *rule, const char *why, struct err *e)
{
	autobuf struct buf b = BUF_INIT;

	always_act_describe(x, &b);
	err_set(e, -EOPNOTSUPP, "the rule %s asks about %s, and the file cannot be edited for it: %s", rule,
		buf_cstr(&b), why);
	return err_hint(e, -EOPNOTSUPP,
			"edit the file by hand, or allow it as long as the sandbox lives: --sandbox");
}

static const char *const entry_lists[] = { "http", "graphql", "git" };

static bool rule_has_limits(const struct policy_limits *l)
{
	return l->bytes_up || l->bandwidth || l->connections || l->requests_per_minute;
}

/*
 * The rule covers more than this host and port, so it gets no entry itself; a copy of it for these alone gets
 * it. The copy is the most specific rule and lists requests, so it decides everything asked of this host and
 * port: nothing else changes if the original alone decided that until now. Limits and secrets, which are
 * counted or given by rule, would exist twice, so a rule that has them is refused.
 */
static int plan_rule_copy(const struct policy *p, const struct always_act *x, const struct policy_verdict *v,
			  const char *text, struct policy_edit *ret, struct err *e)
{
	const struct policy_target t = { .name = &x->host, .port = x->port };
	const struct policy_rule *r = v->rule;

	if (r->by_addr || !policy_rule_is_alone(p, r, &t))
		return refuse_edit(
			x, v->rule_text,
			"the rule covers other hosts or ports, and another rule matches this one too", e);
	if (rule_has_limits(&r->limits) || r->secret[0] || r->capture[0])
		return refuse_edit(
			x, v->rule_text,
			"the rule covers other hosts or ports, and its limits or secret are shared by all of them",
			e);
	*ret = (struct policy_edit){ .act = POLICY_EDIT_COPY_RULE,
				     .rule_line = r->line,
				     .entry_line = v->entry->line,
				     .list = entry_lists[v->entry->kind],
				     .entry = text,
				     .host = x->host_text,
				     .port = x->port,
				     .turn = entry_is_exact(v->entry, x) };
	return 0;
}

static int plan_edit(const struct always *a, const struct policy *p, const struct always_act *x,
		     const struct policy_verdict *v, const char *text, struct policy_edit *ret, struct err *e)
{
	const struct policy_rule *r = v->rule;
	const struct policy_entry *en = v->entry;

	if (!r || (!en && x->kind != ALWAYS_CONNECT))
		return refuse_edit(
			x, v->rule_text,
			"the rule covers all requests to the host; an entry for one request would deny the others",
			e);
	if (!en) {
		*ret = (struct policy_edit){ .act = rule_is_exact(r, x) && rule_is_in_file(a, r)
							    ? POLICY_EDIT_MOVE_RULE
							    : POLICY_EDIT_ADD_RULE,
					     .rule_line = r->line,
					     .host = x->host_text,
					     .port = x->port };
		return 0;
	}
	if (!rule_is_in_file(a, r))
		return refuse_edit(x, v->rule_text, "the rule is not in the policy file itself", e);
	if (!rule_is_exact(r, x))
		return plan_rule_copy(p, x, v, text, ret, e);
	*ret = (struct policy_edit){ .act = entry_is_exact(en, x) ? POLICY_EDIT_TURN_ENTRY
								  : POLICY_EDIT_ADD_ENTRY,
				     .rule_line = r->line,
				     .entry_line = en->line,
				     .list = entry_lists[en->kind],
				     .entry = text };
	return 0;
}

/* Does a rule cover the host already? Another rule for it that lists requests would deny what the first one
 * allows. */
static bool host_has_rule(const struct policy *p, const struct always_act *x)
{
	const struct policy_target t = { .name = &x->host, .port = x->port };
	struct policy_verdict v;

	policy_connect(p, &t, &v);
	return v.rule != NULL;
}

/* Something that no rule covers may be widened; something that a rule denies may not. */
static bool is_denied_by_rule(const struct policy_verdict *v)
{
	return v->action == POLICY_DENY && !v->is_default &&
	       (!v->rule || v->rule->action == POLICY_DENY || v->entry);
}

/* Plans the edit for a requested rule (ASK_WIDEN): an entry beside those of the same host, or a rule of its
 * own. */
static int plan_widening(const struct always *a, const struct policy *p, const struct always_act *x,
			 const struct policy_verdict *v, const char *text, struct policy_edit *ret,
			 struct err *e)
{
	for (size_t i = 0; x->kind == ALWAYS_HTTP && i < policy_rule_count(p); i++) {
		const struct policy_rule *r = policy_rule_at(p, i);

		for (size_t k = 0; r->action == POLICY_ALLOW && rule_is_exact(r, x) &&
				   rule_is_in_file(a, r) && k < r->n_entries;
		     k++) {
			if (r->entries[k].kind != POLICY_HTTP)
				continue;
			*ret = (struct policy_edit){ .act = POLICY_EDIT_ADD_ENTRY,
						     .rule_line = r->line,
						     .list = "http",
						     .entry = text,
						     .pattern = true };
			return 0;
		}
	}
	if (host_has_rule(p, x))
		return err_set(e, -EOPNOTSUPP,
			       "the host already has a rule (%s); another rule would narrow it",
			       v->rule_text);
	*ret = (struct policy_edit){ .act = POLICY_EDIT_ADD_RULE,
				     .host = x->host_text,
				     .port = x->port,
				     .http = x->kind == ALWAYS_HTTP ? text : NULL,
				     .pattern = true };
	return 0;
}

/* --- verifying the edit (always.W1) --------------------------------------------------------------------- */

static int refuse_still_decided(const struct always_act *x, const struct policy_verdict *v, struct err *e)
{
	autobuf struct buf b = BUF_INIT;

	always_act_describe(x, &b);
	if (v->action == POLICY_ASK)
		err_set(e, -EOPNOTSUPP, "after the edit, the rule %s would still ask about %s", v->rule_text,
			buf_cstr(&b));
	else
		err_set(e, -EPERM, "%s would still be denied: %s", buf_cstr(&b), v->why);
	return err_hint(e, v->action == POLICY_ASK ? -EOPNOTSUPP : -EPERM,
			"edit the file by hand, or allow it as long as the sandbox lives: --sandbox");
}

/* Nothing that was allowed may be denied or get other terms; if a rule was copied, exactly the one request is
 * new. */
static int check_others(const struct policy *old, const struct policy *now, bool copied, struct err *e)
{
	autobuf struct buf lines = BUF_INIT;
	struct policy_diff d;
	int r = policy_diff(old, now, &lines, &d, e);

	if (r == 0 && (d.denied || d.changed || (copied && d.allowed != 1)))
		return err_set(e, -EOPNOTSUPP, "the edit would also change other decisions: %.200s",
			       buf_cstr(&lines));
	return r;
}

static int check_edited_policy(const struct always *a, const struct always_act *x, const struct policy *old,
			       const struct policy_verdict *was, bool copied, const struct buf *text,
			       struct err *e)
{
	CLEANUP(config_policy_release) struct config_policy now = { 0 };
	struct policy_verdict v;
	int r = always_compile(a, text, &now, e);

	if (r < 0)
		return err_wrap(e, r, "the edited policy is invalid");
	always_act_decide(now.policy, x, &v);
	if (!policy_allows(&v))
		return refuse_still_decided(x, &v, e);
	if (!x->widen && !policy_terms_eq(was, &v))
		return refuse_edit(
			x, was->rule_text,
			"the rule also sets 'limits', 'to', 'ca', 'pool' or 'depth', which a new rule would lack",
			e);
	return check_others(old, now.policy, copied, e);
}

/* --- applying the edits --------------------------------------------------------------------------------- */

static int edit_for_act(const struct always *a, const struct always_act *x, const struct policy *old,
			const struct policy_verdict *v, struct buf *text, struct err *e)
{
	autobuf struct buf entry = BUF_INIT, out = BUF_INIT;
	struct policy_edit ed = { 0 };
	char shown[POLICY_SOURCE_MAX + 1];
	int r;

	always_act_text(x, &entry);
	if (buf_error(&entry))
		return err_set(e, -ENOMEM, "out of memory");
	r = x->widen ? plan_widening(a, old, x, v, buf_cstr(&entry), &ed, e)
		     : plan_edit(a, old, x, v, buf_cstr(&entry), &ed, e);
	if (r < 0)
		return r;
	r = config_edit_policy(str_safe(a->plan.file, shown, sizeof(shown)), buf_cstr(text), text->len, &ed,
			       &out, e);
	r = r < 0 ? r : check_edited_policy(a, x, old, v, ed.act == POLICY_EDIT_COPY_RULE, &out, e);
	if (r == 0) {
		buf_clear(text);
		buf_add(text, out.data, out.len);
	}
	return r < 0 ? r : buf_error(text);
}

static int edit_for_acts(struct always *a, const struct always_acts *l, struct err *e)
{
	for (size_t i = 0; i < l->n; i++) {
		CLEANUP(config_policy_release) struct config_policy old = { 0 };
		struct policy_verdict v;
		int r = always_compile(a, &a->after, &old, e);

		if (r < 0)
			return err_wrap(e, r, "the policy file is invalid");
		always_act_decide(old.policy, &l->v[i], &v);
		/* Requests that `observe` lets through are not allowed by a rule. */
		if (policy_allows(&v) && !v.would_deny)
			continue;
		if (v.action == POLICY_DENY && (!l->v[i].widen || is_denied_by_rule(&v)))
			return refuse_still_decided(&l->v[i], &v, e);
		r = edit_for_act(a, &l->v[i], old.policy, &v, &a->after, e);
		if (r < 0)
			return r;
		a->needed = true;
	}
	return 0;
}

/* --- secrets -------------------------------------------------------------------------------------------- */

/* Finds the single rule that asks before this secret is used at this host and port. */
static int find_secret_rule(const struct always *a, const struct policy *p, const struct always_act *x,
			    const struct policy_verdict *v, const struct policy_rule **ret, struct err *e)
{
	const struct policy_rule *found = NULL;
	size_t n = 0;

	for (size_t i = 0; i < policy_rule_count(p); i++) {
		const struct policy_rule *r = policy_rule_at(p, i);

		if (r->secret_ask && rule_is_exact(r, x)) {
			found = r;
			n++;
		}
	}
	if (n == 0)
		return refuse_edit(
			x, v->rule_text,
			"the rule covers other hosts or ports; the secret would be used for all of them without a question",
			e);
	if (n > 1 || !str_eq(found->secret, x->name))
		return refuse_edit(x, v->rule_text,
				   "other rules ask about it too, or the rule is about another secret", e);
	if (!rule_is_in_file(a, found))
		return refuse_edit(x, v->rule_text, "the rule is not in the policy file itself", e);
	*ret = found;
	return 0;
}

/* always.W1 for secrets: the same decision on the same terms, except that nobody is asked; there and nowhere
 * else. */
static int check_secret_edit(const struct always *a, const struct always_act *x, const struct policy *old,
			     struct policy_verdict was, const struct buf *text, struct err *e)
{
	CLEANUP(config_policy_release) struct config_policy now = { 0 };
	autobuf struct buf lines = BUF_INIT;
	struct policy_verdict v;
	struct policy_diff d;
	int r = always_compile(a, text, &now, e);

	if (r < 0)
		return err_wrap(e, r, "the edited policy is invalid");
	always_act_decide(now.policy, x, &v);
	was.terms.secret_ask = false;
	if (v.action != was.action || !policy_terms_eq(&was, &v))
		return refuse_edit(x, was.rule_text,
				   "the edit would not end the question, or would change other terms", e);
	r = policy_diff(old, now.policy, &lines, &d, e);
	if (r == 0 && (d.allowed || d.denied || d.changed != 1))
		return err_set(e, -EOPNOTSUPP, "the edit would also change other decisions: %.200s",
			       buf_cstr(&lines));
	return r;
}

static int edit_for_secret(struct always *a, const struct always_act *x, struct err *e)
{
	CLEANUP(config_policy_release) struct config_policy old = { 0 };
	autobuf struct buf out = BUF_INIT;
	struct policy_edit ed = { .act = POLICY_EDIT_TURN_SECRET };
	const struct policy_rule *by = NULL;
	struct policy_verdict v;
	char shown[POLICY_SOURCE_MAX + 1];
	int r = always_compile(a, &a->after, &old, e);

	if (r < 0)
		return err_wrap(e, r, "the policy file is invalid");
	always_act_decide(old.policy, x, &v);
	if (v.action == POLICY_DENY)
		return refuse_still_decided(x, &v, e);
	if (v.terms.secret && str_eq(v.terms.secret, x->name) && !v.terms.secret_ask)
		return 0;
	r = find_secret_rule(a, old.policy, x, &v, &by, e);
	if (r < 0 || !by)
		return r;
	ed.rule_line = by->line;
	r = config_edit_policy(str_safe(a->plan.file, shown, sizeof(shown)), buf_cstr(&a->after),
			       a->after.len, &ed, &out, e);
	r = r < 0 ? r : check_secret_edit(a, x, old.policy, v, &out, e);
	if (r < 0)
		return r;
	buf_clear(&a->after);
	buf_add(&a->after, out.data, out.len);
	a->needed = true;
	return buf_error(&a->after) ? err_set(e, -ENOMEM, "out of memory") : 0;
}

/* --- opening -------------------------------------------------------------------------------------------- */

static int make_diff(struct always *a, struct err *e)
{
	if (textdiff(buf_cstr(&a->before), a->before.len, buf_cstr(&a->after), a->after.len, &a->diff) < 0 ||
	    buf_error(&a->diff))
		return err_set(e, -ENOMEM, "out of memory");
	return 0;
}

static int refuse_no_file(const struct always *a, int kind, struct err *e)
{
	err_set(e, -EOPNOTSUPP,
		"sandbox %s has no policy file that could be edited: it was started without --policy",
		a->run);
	return err_hint(e, -EOPNOTSUPP,
			kind == ASK_TOOL || kind == ASK_APPLY
				? "edit the file by hand, or allow it as long as the sandbox lives: --sandbox"
				: "allow it as long as the sandbox lives: --sandbox");
}

/* If the path now leads elsewhere, whoever changed the link chose the file, not the person who started the
 * run. */
static int check_link_target(const struct net_plan *p, struct err *e)
{
	autofree char *now = realpath(p->file, NULL);
	char shown[256];

	if (now && str_eq(now, p->real))
		return 0;
	err_set(e, -ELOOP, "%s leads to another file than when the run began: a link in its path was changed",
		str_safe(p->file, shown, sizeof(shown)));
	return err_hint(e, -ELOOP,
			"edit the file by hand, or allow it as long as the sandbox lives: --sandbox");
}

static int read_policy_file(struct always *a, int run_fd, int kind, struct err *e)
{
	int r = net_plan_recall(&a->plan, run_fd, e);

	if (r < 0)
		return r;
	if (!a->plan.file)
		return refuse_no_file(a, kind, e);
	r = check_link_target(&a->plan, e);
	r = r < 0 ? r : always_file_read(a->plan.real, &a->before, e);
	if (r < 0)
		return r;
	buf_add(&a->after, a->before.data, a->before.len);
	return buf_error(&a->after) ? err_set(e, -ENOMEM, "out of memory") : 0;
}

int always_open(struct always *a, int run_fd, const json_t *ask, struct err *e)
{
	CLEANUP(always_acts_release) struct always_acts l = { 0 };
	const char *id = jsonget_text_or_null(ask, "id"), *run = jsonget_text_or_null(ask, "sandbox"),
		   *word = jsonget_text_or_null(ask, "kind");
	int kind = ask_kind_parse(word ? word : ""), r = 0;

	snprintf(a->ask, sizeof(a->ask), "%s", id ? id : "");
	snprintf(a->run, sizeof(a->run), "%s", run ? run : "");
	if (kind != ASK_TOOL && kind != ASK_APPLY)
		r = always_acts_read(&l, ask, e);
	r = r < 0 ? r : read_policy_file(a, run_fd, kind, e);
	if (r < 0)
		return r;
	r = kind == ASK_TOOL	 ? always_tool(a, ask, e)
	    : kind == ASK_APPLY	 ? always_apply(a, ask, e)
	    : kind == ASK_SECRET ? edit_for_secret(a, &l.v[0], e)
				 : edit_for_acts(a, &l, e);
	return r < 0 ? r : make_diff(a, e);
}

/* --- writing -------------------------------------------------------------------------------------------- */

struct edit_log {
	struct always *a;
	struct audit *audit;
	const struct ask_who *who;
};

static int log_edit(void *ctx, struct err *e)
{
	const struct edit_log *l = ctx;
	const struct always *a = l->a;
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);
	char hex[HASH_HEX_LEN + 1];
	int r;

	json_str(&j, "ask", a->ask);
	json_str(&j, "file", a->plan.file);
	hash_sha256_hex(buf_cstr(&a->before), a->before.len, hex);
	json_str(&j, "before", hex);
	hash_sha256_hex(buf_cstr(&a->after), a->after.len, hex);
	json_str(&j, "after", hex);
	json_strn(&j, "diff", buf_cstr(&a->diff),
		  a->diff.len < DIFF_LOGGED_MAX ? a->diff.len : DIFF_LOGGED_MAX);
	json_u64(&j, "uid", l->who->uid);
	if (l->who->name[0])
		json_str(&j, "name", l->who->name);
	json_str(&j, "via", l->who->via);
	r = buf_error(&b) ? -ENOMEM : audit_append(l->audit, "policy.edit", a->run[0] ? a->run : NULL, &b, e);
	return r < 0 ? err_wrap(e, r, "the audit log cannot be written, so the policy file was not changed")
		     : 0;
}

int always_commit(struct always *a, struct audit *audit, const struct ask_who *who, struct err *e)
{
	struct edit_log l = { a, audit, who };

	return a->needed ? always_file_write(a->plan.real, &a->before, &a->after, log_edit, &l, e) : 0;
}
