/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tool call, or `coffer apply`, allowed for good: edits `tools:` and `apply:` of the policy file.
 *
 * The rule covers what a grant would cover (toolcall.h): the tool by its name, under the conditions of the
 * rule that asked, with any other arguments. The question has that name and those conditions in full; its
 * arguments may be shortened, so they are not used.
 */
#include "always/always.h"

#include "base/cleanup.h"
#include "base/jsonget.h"
#include "base/str.h"
#include "config/edit/policy_edit.h"
#include "policy/explain.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

struct asked_tool {
	const char *what; /* "deploy when env=production" */
	char name[TOOL_NAME_MAX + 1];
};

static int hint_edit_by_hand(struct err *e, int code)
{
	return err_hint(e, code,
			"edit the file by hand, or allow it as long as the sandbox lives: --sandbox");
}

static int read_asked_tool(struct asked_tool *t, const json_t *ask, struct err *e)
{
	const char *what = jsonget_text_or_null(ask, "what");
	size_t n = what ? strcspn(what, " ") : 0;

	if (!what || !tool_name_is_valid(what, n) || (what[n] && !str_starts(what + n, " when ")))
		return hint_edit_by_hand(e, err_set(e, -EOPNOTSUPP, "a rule cannot name this tool"));
	t->what = what;
	memcpy(t->name, what, n);
	return 0;
}

/* --- finding the rule that asks ------------------------------------------------------------------------- */

/* Arguments that meet the conditions of a rule, with some text for each star. */
struct sample_call {
	struct tool_arg args[TOOL_WHEN_MAX];
	struct buf values[TOOL_WHEN_MAX];
};

static void sample_call_release(struct sample_call *s)
{
	for (size_t i = 0; i < TOOL_WHEN_MAX; i++)
		buf_release(&s->values[i]);
}

static int decide_sample_call(const struct acts *a, const struct asked_tool *t, const struct tool_rule *by,
			      struct tool_verdict *ret)
{
	CLEANUP(sample_call_release) struct sample_call s = { 0 };

	for (size_t i = 0; i < by->n_when; i++) {
		for (const char *p = by->when[i].value; *p; p++) {
			if (*p == '*')
				buf_adds(&s.values[i], "any");
			else
				buf_addc(&s.values[i], *p);
		}
		if (buf_error(&s.values[i]))
			return -ENOMEM;
		s.args[i] = (struct tool_arg){ by->when[i].key, buf_cstr(&s.values[i]) };
	}
	acts_decide_tool(a, t->name, s.args, by->n_when, ret);
	return 0;
}

/* Would a question by this rule have the same words? */
static bool rule_asks_so(const struct tool_rule *r, const struct asked_tool *t)
{
	autobuf struct buf b = BUF_INIT;

	if (!tool_rule_covers(r, t->name))
		return false;
	tool_rule_what(r, t->name, &b);
	return str_eq(buf_cstr(&b), t->what);
}

static bool has_same_conditions(const struct tool_rule *a, const struct tool_rule *b)
{
	bool same = a->n_when == b->n_when;

	for (size_t i = 0; same && i < a->n_when; i++)
		same = str_eq(a->when[i].key, b->when[i].key) && str_eq(a->when[i].value, b->when[i].value);
	return same;
}

/* Two sets of conditions may have the same words (a="1, b=2"): then the rule that asked cannot be determined. */
static int keep_asking_rule(const struct tool_rule **ret, const struct tool_rule *r, struct err *e)
{
	if (*ret && !has_same_conditions(*ret, r))
		return hint_edit_by_hand(
			e, err_set(e, -EOPNOTSUPP,
				   "two rules of the policy file ask about the same tool and conditions"));
	*ret = *ret ? *ret : r;
	return 0;
}

static int refuse_denied(const struct asked_tool *t, const struct tool_verdict *v, struct err *e)
{
	autobuf struct buf b = BUF_INIT;

	tool_verdict_text(v, t->name, &b);
	return hint_edit_by_hand(e,
				 err_set(e, -EPERM, "the call would still be denied: %.300s", buf_cstr(&b)));
}

/* 1: *ret is the rule that asks; 0: the call is allowed already. */
static int find_asking_rule(const struct always *a, const struct acts *acts, const struct asked_tool *t,
			    const struct tool_rule **ret, struct err *e)
{
	struct tool_verdict v, no = { .action = POLICY_ALLOW };
	char shown[256];
	bool some = false;
	int r = 0;

	for (size_t i = 0; r == 0 && i < acts->n_rules; i++) {
		if (!rule_asks_so(&acts->rules[i], t))
			continue;
		some = true;
		if (decide_sample_call(acts, t, &acts->rules[i], &v) < 0)
			return err_set(e, -ENOMEM, "out of memory");
		if (v.action == POLICY_ASK && rule_asks_so(v.rule, t))
			r = keep_asking_rule(ret, v.rule, e);
		else if (v.action != POLICY_ALLOW)
			no = v;
	}
	if (r < 0 || *ret)
		return r < 0 ? r : 1;
	if (no.action != POLICY_ALLOW)
		return refuse_denied(t, &no, e);
	return some ? 0
		    : hint_edit_by_hand(e,
					err_set(e, -EOPNOTSUPP,
						"no rule of %s asks about this tool under these conditions",
						str_safe(a->plan.file, shown, sizeof(shown))));
}

/* --- choosing the edit ---------------------------------------------------------------------------------- */

static int refuse_tool_rule(const struct asked_tool *t, const struct tool_rule *r, const char *why,
			    struct err *e)
{
	autobuf struct buf b = BUF_INIT;

	tool_rule_text(r, &b);
	return hint_edit_by_hand(
		e, err_set(e, -EOPNOTSUPP,
			   "the rule %.300s asks about the tool %s, and the file cannot be edited for it: %s",
			   buf_cstr(&b), t->name, why));
}

static int plan_tool_edit(const struct acts *acts, const struct asked_tool *t, const struct tool_rule *r,
			  struct policy_edit *ret, struct err *e)
{
	const struct tool_rule *lost;
	autobuf struct buf b = BUF_INIT;

	*ret = (struct policy_edit){ .act = str_eq(r->name, t->name) ? POLICY_EDIT_TURN_TOOL
								     : POLICY_EDIT_ADD_TOOL,
				     .entry_line = r->line,
				     .name = r->name,
				     .entry = t->name };
	if (ret->act == POLICY_EDIT_TURN_TOOL)
		return 0;
	if (strcasecmp(r->name, t->name) == 0)
		return refuse_tool_rule(t, r, "the rule spells the name of the tool differently", e);
	lost = acts_overruled(acts, r, t->name);
	if (!lost)
		return 0;
	buf_adds(&b, "a rule for this tool alone would override ");
	tool_rule_text(lost, &b);
	return refuse_tool_rule(t, r, buf_cstr(&b), e);
}

/* --- verifying the edit (always.W1) --------------------------------------------------------------------- */

/* An edit for a tool must not change any network decision. */
static int check_network_unchanged(const struct policy *old, const struct policy *now, struct err *e)
{
	autobuf struct buf lines = BUF_INIT;
	struct policy_diff d;
	int r = policy_diff(old, now, &lines, &d, e);

	if (r == 0 && (d.allowed || d.denied || d.changed))
		return err_set(e, -EOPNOTSUPP, "the edit would also change other decisions: %.200s",
			       buf_cstr(&lines));
	return r;
}

static bool is_same_rule(const struct tool_rule *a, const struct tool_rule *b)
{
	return a->action == b->action && str_eq(a->name, b->name) && has_same_conditions(a, b);
}

/* Does `in` have each rule of `of`, except for `without`? */
static bool has_all_rules(const struct acts *in, const struct acts *of, const struct tool_rule *without)
{
	for (size_t i = 0; i < of->n_rules; i++) {
		bool found = &of->rules[i] == without;

		for (size_t k = 0; !found && k < in->n_rules; k++)
			found = is_same_rule(&of->rules[i], &in->rules[k]);
		if (!found)
			return false;
	}
	return true;
}

static bool is_rule_added(const struct tool_rule *r, const struct asked_tool *t, const struct tool_rule *by)
{
	return r->action == POLICY_ALLOW && str_eq(r->name, t->name) && has_same_conditions(r, by);
}

static int check_tool_edit(const struct config_policy *old, const struct config_policy *now,
			   const struct asked_tool *t, const struct tool_rule *by, bool turned, struct err *e)
{
	const struct tool_rule *made = NULL;
	struct tool_verdict v;

	for (size_t i = 0; i < now->acts.n_rules; i++)
		made = is_rule_added(&now->acts.rules[i], t, by) ? &now->acts.rules[i] : made;
	if (!made || now->acts.has_apply != old->acts.has_apply || now->acts.apply != old->acts.apply ||
	    now->acts.n_rules != old->acts.n_rules + !turned ||
	    !has_all_rules(&now->acts, &old->acts, turned ? by : NULL) ||
	    !has_all_rules(&old->acts, &now->acts, made))
		return hint_edit_by_hand(
			e, err_set(e, -EOPNOTSUPP, "the edit would also change other decisions"));
	if (decide_sample_call(&now->acts, t, by, &v) < 0)
		return err_set(e, -ENOMEM, "out of memory");
	if (v.action == POLICY_DENY)
		return refuse_denied(t, &v, e);
	if (v.action == POLICY_ASK)
		return refuse_tool_rule(t, v.rule, "the edit would not end the question", e);
	return check_network_unchanged(old->policy, now->policy, e);
}

/* --- tools and apply ------------------------------------------------------------------------------------ */

/* Makes the edit and compiles the resulting policy. */
static int try_edit(const struct always *a, const struct policy_edit *ed, struct buf *out,
		    struct config_policy *ret, struct err *e)
{
	char shown[POLICY_SOURCE_MAX + 1];
	int r = config_edit_policy(str_safe(a->plan.file, shown, sizeof(shown)), buf_cstr(&a->after),
				   a->after.len, ed, out, e);

	if (r < 0)
		return r;
	r = always_compile(a, out, ret, e);
	return r < 0 ? err_wrap(e, r, "the edited policy is invalid") : 0;
}

static int take_edited_text(struct always *a, const struct buf *text, struct err *e)
{
	buf_clear(&a->after);
	buf_add(&a->after, text->data, text->len);
	a->needed = true;
	return buf_error(&a->after) ? err_set(e, -ENOMEM, "out of memory") : 0;
}

static int compile_policy_file(const struct always *a, struct config_policy *ret, struct err *e)
{
	int r = always_compile(a, &a->after, ret, e);

	return r < 0 ? err_wrap(e, r, "the policy file is invalid") : 0;
}

int always_tool(struct always *a, const json_t *ask, struct err *e)
{
	CLEANUP(config_policy_release) struct config_policy old = { 0 }, now = { 0 };
	const struct tool_rule *by = NULL;
	autobuf struct buf out = BUF_INIT;
	struct asked_tool t = { .what = "" };
	struct policy_edit ed;
	int r = read_asked_tool(&t, ask, e);

	r = r < 0 ? r : compile_policy_file(a, &old, e);
	r = r < 0 ? r : find_asking_rule(a, &old.acts, &t, &by, e);
	if (r <= 0 || !by)
		return r;
	r = plan_tool_edit(&old.acts, &t, by, &ed, e);
	r = r < 0 ? r : try_edit(a, &ed, &out, &now, e);
	r = r < 0 ? r : check_tool_edit(&old, &now, &t, by, ed.act == POLICY_EDIT_TURN_TOOL, e);
	return r < 0 ? r : take_edited_text(a, &out, e);
}

static bool has_same_tools(const struct acts *a, const struct acts *b)
{
	return a->has_tools == b->has_tools && a->n_rules == b->n_rules && has_all_rules(a, b, NULL) &&
	       has_all_rules(b, a, NULL);
}

int always_apply(struct always *a, const json_t *ask, struct err *e)
{
	CLEANUP(config_policy_release) struct config_policy old = { 0 }, now = { 0 };
	const struct policy_edit ed = { .act = POLICY_EDIT_TURN_APPLY };
	const char *rule = jsonget_text_or_null(ask, "rule");
	autobuf struct buf out = BUF_INIT;
	char shown[256];
	int r;

	if (!rule || !str_eq(rule, "apply: ask"))
		return hint_edit_by_hand(
			e, err_set(e, -EOPNOTSUPP, "the question was made by --ask, not by a rule"));
	r = compile_policy_file(a, &old, e);
	if (r < 0)
		return r;
	if (old.acts.has_apply && old.acts.apply == POLICY_ALLOW)
		return 0;
	if (!old.acts.has_apply || old.acts.apply != POLICY_ASK)
		return hint_edit_by_hand(e, err_set(e, old.acts.has_apply ? -EPERM : -EOPNOTSUPP,
						    "%s no longer contains 'apply: ask'",
						    str_safe(a->plan.file, shown, sizeof(shown))));
	r = try_edit(a, &ed, &out, &now, e);
	if (r == 0 && (now.acts.apply != POLICY_ALLOW || !has_same_tools(&old.acts, &now.acts)))
		r = hint_edit_by_hand(e,
				      err_set(e, -EOPNOTSUPP, "the edit would also change other decisions"));
	r = r < 0 ? r : check_network_unchanged(old.policy, now.policy, e);
	return r < 0 ? r : take_edited_text(a, &out, e);
}
