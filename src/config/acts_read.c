/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads `tools:` and `apply:` of a policy file (acts_read.h), and writes them back. Checks of the rules
 * themselves are in policy/acts.c. An unknown key is refused.
 */

#include "config/acts_read.h"

#include "base/cleanup.h"
#include "base/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct draft {
	struct tool_rule rule;
	struct tool_when when[TOOL_WHEN_MAX];
	const struct ynode *names;
	enum policy_action action;
};

/* Stores which list of names the rule has, and its action. */
static int tool_set_names(struct source *s, const struct ynode *n, struct draft *d, enum policy_action a)
{
	if (d->names)
		return read_fail(s, n, "a rule on tools has one of 'allow', 'ask' and 'deny'");
	d->names = n;
	d->action = a;
	return 0;
}

static int tool_key_allow(struct source *s, const struct ynode *n, void *to)
{
	return tool_set_names(s, n, to, POLICY_ALLOW);
}

static int tool_key_ask(struct source *s, const struct ynode *n, void *to)
{
	return tool_set_names(s, n, to, POLICY_ASK);
}

static int tool_key_deny(struct source *s, const struct ynode *n, void *to)
{
	return tool_set_names(s, n, to, POLICY_DENY);
}

static int read_bounded_text(struct source *s, const struct ynode *n, const char *what, char *ret,
			     size_t size)
{
	const char *text = "";
	int r = read_text(s, n, what, &text);

	if (r < 0)
		return r;
	if (!text[0] || strlen(text) >= size)
		return read_fail(s, n, "%s has 1 to %zu bytes", what, size - 1);
	memcpy(ret, text, strlen(text) + 1);
	return 0;
}

/* `when:`, the conditions of a rule on tools. */
static int tool_key_when(struct source *s, const struct ynode *n, void *to)
{
	struct draft *d = to;
	int r = 0;

	if (n->kind != YNODE_MAP || n->n == 0)
		return read_fail(
			s, n,
			"expected the arguments that the rule is about, such as {env: production}, but here is %s",
			ynode_kind_name(n));
	if (n->n > TOOL_WHEN_MAX)
		return read_fail(s, n, "a rule has at most %d conditions", TOOL_WHEN_MAX);
	for (size_t i = 0; r == 0 && i < n->n; i++) {
		struct tool_when *w = &d->when[i];

		r = read_bounded_text(s, n->keys[i], "the name of an argument", w->key, sizeof(w->key));
		r = r < 0 ? r
			  : read_bounded_text(s, n->items[i], "the value of an argument", w->value,
					      sizeof(w->value));
	}
	d->rule.when = d->when;
	d->rule.n_when = n->n;
	return r;
}

static const struct key rule_keys[] = {
	{ "allow", tool_key_allow },
	{ "ask", tool_key_ask },
	{ "deny", tool_key_deny },
	{ "when", tool_key_when },
};

static int add_tool_name(struct source *s, const struct ynode *n, void *to)
{
	struct draft *d = to;
	int r = read_bounded_text(s, n, "the name of a tool", d->rule.name, sizeof(d->rule.name));

	d->rule.line = n->line;
	return r < 0 ? r : read_wrap(s, n, acts_add_rule(&s->out->acts, &d->rule, s->e));
}

static int read_tool_rule(struct source *s, const struct ynode *n, void *to)
{
	struct draft d = { 0 };
	int r = read_map(s, n, "a rule on tools", rule_keys, ARRAY_SIZE(rule_keys), &d);

	(void)to;
	if (r == 0 && (!d.names || (d.names->kind == YNODE_SEQ && !d.names->n) || ynode_is_null(d.names)))
		return read_fail(s, n, "a rule on tools names one, under 'allow', 'ask' or 'deny'");
	if (r < 0)
		return r;
	d.rule.action = d.action;
	snprintf(d.rule.source, sizeof(d.rule.source), "%s", s->name);
	return read_each(s, d.names, add_tool_name, &d);
}

int read_tools(struct source *s, const struct ynode *n, void *to)
{
	if (n->kind != YNODE_SEQ && !ynode_is_null(n))
		return read_fail(s, n, "expected a list of rules (lines that begin with -), but here is %s",
				 ynode_kind_name(n));
	/* The rules of one list would be exceptions to those of the other. */
	if (s->out->acts.has_tools)
		return read_fail(s, n,
				 "another file has a list of tools already, and two cannot be combined");
	s->out->acts.has_tools = true;
	return read_each(s, n, read_tool_rule, to);
}

int read_apply(struct source *s, const struct ynode *n, void *to)
{
	static const char *const words[] = {
		[POLICY_DENY] = "deny", [POLICY_ASK] = "ask", [POLICY_ALLOW] = "allow"
	};
	struct acts *a = &s->out->acts;
	unsigned v = 0;
	int r = read_word(s, n, words, ARRAY_SIZE(words), &v);

	(void)to;
	if (r < 0)
		return r;
	/* Of several files the strictest applies. */
	if (!a->has_apply || v < (unsigned)a->apply) {
		a->apply = (enum policy_action)v;
		a->apply_line = n->line;
		snprintf(a->apply_source, sizeof(a->apply_source), "%s", s->name);
	}
	a->has_apply = true;
	return 0;
}

bool acts_are_all(const struct ynode *root)
{
	bool some = false;

	if (root->kind != YNODE_MAP)
		return false;
	for (size_t i = 0; i < root->n; i++) {
		const char *key = root->keys[i]->text;

		if (!str_eq(key, "version") && !str_eq(key, "tools") && !str_eq(key, "apply"))
			return false;
		some = some || !str_eq(key, "version");
	}
	return some;
}

void config_acts_format(const struct acts *a, struct buf *out)
{
	struct json j = JSON_INIT(out);

	json_obj(&j, NULL);
	json_u64(&j, "version", 1);
	if (a->has_apply)
		json_str(&j, "apply", policy_action_name(a->apply));
	if (a->has_tools)
		json_arr(&j, "tools");
	for (size_t i = 0; i < a->n_rules; i++) {
		const struct tool_rule *r = &a->rules[i];

		json_obj(&j, NULL);
		json_str(&j, policy_action_name(r->action), r->name);
		if (r->n_when)
			json_obj(&j, "when");
		for (size_t k = 0; k < r->n_when; k++) {
			/* json_str() takes only keys of ours; this key may contain any character. */
			json_str(&j, NULL, r->when[k].key);
			buf_addc(out, ':');
			j.comma = false;
			json_str(&j, NULL, r->when[k].value);
		}
		if (r->n_when)
			json_end_obj(&j);
		json_end_obj(&j);
	}
	if (a->has_tools)
		json_end_arr(&j);
	json_end_obj(&j);
	buf_addc(out, '\n');
}
