/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The output of `coffer policy` about a policy's rules for tool calls and for apply: as text, as JSON, and as
 * a diff. Rules are compared by their text.
 */
#include "cli/net/policy_acts.h"

#include "base/str.h"

void cli_policy_acts_count(const struct acts *a, struct buf *out)
{
	if (a->has_tools)
		buf_addf(out, ", %zu rule%s on tools", a->n_rules, a->n_rules == 1 ? "" : "s");
	if (a->has_apply)
		buf_addf(out, ", apply: %s", policy_action_name(a->apply));
}

void cli_policy_acts_describe(const struct acts *a, struct buf *out)
{
	if (a->has_tools)
		buf_adds(out, "tools, all others denied:\n");
	for (size_t i = 0; i < a->n_rules; i++) {
		buf_adds(out, "  ");
		tool_rule_text(&a->rules[i], out);
		buf_addc(out, '\n');
	}
	if (a->has_apply)
		buf_addf(out, "apply: %s\n", policy_action_name(a->apply));
}

void cli_policy_acts_json(const struct acts *a, struct json *j)
{
	if (a->has_tools)
		json_arr(j, "tools");
	else
		json_none(j, "tools");
	for (size_t i = 0; i < a->n_rules; i++) {
		autobuf struct buf text = BUF_INIT;

		tool_rule_text(&a->rules[i], &text);
		json_str(j, NULL, buf_cstr(&text));
		j->out->error = j->out->error ? j->out->error : buf_error(&text);
	}
	if (a->has_tools)
		json_end_arr(j);
	json_str(j, "apply", a->has_apply ? policy_action_name(a->apply) : NULL);
}

static bool has_tool_rule(const struct acts *a, const struct tool_rule *r)
{
	autobuf struct buf want = BUF_INIT;
	bool found = false;

	tool_rule_text(r, &want);
	for (size_t i = 0; !found && i < a->n_rules; i++) {
		autobuf struct buf text = BUF_INIT;

		tool_rule_text(&a->rules[i], &text);
		found = str_eq(buf_cstr(&text), buf_cstr(&want));
	}
	return found;
}

static size_t add_missing_rules(const struct acts *in, const struct acts *of, const char *words,
				struct buf *out)
{
	size_t n = 0;

	for (size_t i = 0; i < of->n_rules; i++) {
		if (has_tool_rule(in, &of->rules[i]))
			continue;
		buf_addf(out, "~ tools: %s ", words);
		tool_rule_text(&of->rules[i], out);
		buf_addc(out, '\n');
		n++;
	}
	return n;
}

static const char *apply_action_name(const struct acts *a)
{
	return a->has_apply ? policy_action_name(a->apply) : "allow";
}

size_t cli_policy_acts_diff(const struct acts *from, const struct acts *to, struct buf *out)
{
	size_t n = add_missing_rules(to, from, "no longer", out) + add_missing_rules(from, to, "now", out);

	if (from->has_tools != to->has_tools) {
		buf_adds(out, to->has_tools ? "~ tools: calls that no rule covers are denied now\n"
					    : "~ tools: there is no list any more, and all are allowed\n");
		n++;
	}
	if (!str_eq(apply_action_name(from), apply_action_name(to))) {
		buf_addf(out, "~ apply: %s, was %s\n", apply_action_name(to), apply_action_name(from));
		n++;
	}
	return n;
}

void cli_policy_acts_verdict_json(const struct tool_verdict *v, const char *name, struct buf *out)
{
	autobuf struct buf rule = BUF_INIT, why = BUF_INIT;
	struct json j = JSON_INIT(out);

	tool_verdict_text(v, name, &why);
	if (v->rule)
		tool_rule_text(v->rule, &rule);
	json_obj(&j, NULL);
	json_str(&j, "tool", name);
	json_str(&j, "decision", policy_action_name(v->action));
	json_str(&j, "rule", v->rule ? buf_cstr(&rule) : NULL);
	json_str(&j, "why", buf_cstr(&why));
	json_end_obj(&j);
	buf_addc(out, '\n');
}
