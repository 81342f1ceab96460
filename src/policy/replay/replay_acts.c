/* SPDX-License-Identifier: Apache-2.0 */
/* Decides calls of tools, and `coffer apply`, again (replay.h). Of a call's arguments the log has only a
 * digest. */
#include "policy/replay/replay_int.h"

#include "policy/policy_int.h"

#include "base/str.h"

/* replay.Y1: could the result depend on the arguments? Only rules with conditions, or the one without, could
 * decide. */
static bool depends_on_arguments(const struct acts *a, const char *name, enum policy_action without)
{
	for (size_t i = 0; i < a->n_rules; i++) {
		if (a->rules[i].n_when && a->rules[i].action != without &&
		    tool_rule_covers(&a->rules[i], name))
			return true;
	}
	return false;
}

static enum replay_now now_from_action(enum policy_action a)
{
	return a == POLICY_ALLOW ? REPLAY_ALLOW : a == POLICY_ASK ? REPLAY_ASK : REPLAY_DENY;
}

enum replay_now replay_decide_tool(const struct replay *r, const struct replay_seen *s,
				   struct policy_verdict *v, const char **ret_why)
{
	struct tool_verdict t = { .action = POLICY_ALLOW };
	autobuf struct buf rule = BUF_INIT;
	const char *name = s->what ? s->what : "";

	/* replay.Y3: the same list that decided then. */
	if (s->list && str_eq(s->list, r->list))
		return now_from_action(s->was);
	if (r->acts)
		acts_decide_tool(r->acts, name, NULL, 0, &t);
	if (r->acts && depends_on_arguments(r->acts, name, t.action)) {
		*ret_why = "a rule depends on its arguments, which are not in the log";
		return REPLAY_UNKNOWN;
	}
	if (t.rule)
		tool_rule_place(t.rule, &rule);
	str_safe(buf_cstr(&rule), v->rule_text, sizeof(v->rule_text));
	verdict_why(v, t.has_opinion ? "no rule on tools covers it" : "the policy has no list of tools");
	return now_from_action(t.action);
}

enum replay_now replay_decide_apply(const struct replay *r, struct policy_verdict *v)
{
	const struct acts *a = r->acts;
	autobuf struct buf rule = BUF_INIT;

	if (!a || !a->has_apply) {
		verdict_why(v, "the policy has no rule for apply");
		return REPLAY_ALLOW;
	}
	buf_addf(&rule, "apply: %s (%s:%u)", policy_action_name(a->apply), a->apply_source, a->apply_line);
	str_safe(buf_cstr(&rule), v->rule_text, sizeof(v->rule_text));
	return now_from_action(a->apply);
}
