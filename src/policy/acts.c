/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides on calls of tools and on applying changes (acts.h): checks and matches rules, picks the most
 * specific one, and words the result. Pure; a condition is matched generously unless it allows.
 */

#include "policy/acts.h"

#include "base/str.h"
#include "base/vec.h"
#include "crypto/hash.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void acts_release(struct acts *a)
{
	for (size_t i = 0; i < a->n_rules; i++)
		free(a->rules[i].when);
	free(a->rules);
	*a = ACTS_INIT;
}

static bool is_tool_name_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c && strchr("_-./:@", c));
}

bool tool_name_is_valid(const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (!is_tool_name_char(s[i]))
			return false;
	}
	return len >= 1 && len <= TOOL_NAME_MAX;
}

/* ---- Adding. ---- */

static int check_tool_name(const char *name, struct err *e)
{
	size_t n = strnlen(name, TOOL_NAME_MAX + 1);

	for (size_t i = 0; i < n; i++) {
		if (!is_tool_name_char(name[i]) && name[i] != '*')
			return err_set(e, -EINVAL,
				       "a tool's name has letters, digits and _ - . / : @, and * for any of "
				       "them");
	}
	return n >= 1 && n <= TOOL_NAME_MAX
		       ? 0
		       : err_set(e, -EINVAL, "a tool's name has 1 to %d letters", TOOL_NAME_MAX);
}

/* Checks a rule before it is copied: number and length of its parts. */
static int check_tool_rule(const struct acts *a, const struct tool_rule *r, struct err *e)
{
	if (a->n_rules >= TOOL_RULES_MAX)
		return err_set(e, -E2BIG, "a list has at most %d rules on tools", TOOL_RULES_MAX);
	if (r->n_when > TOOL_WHEN_MAX)
		return err_set(e, -E2BIG, "a rule has at most %d conditions", TOOL_WHEN_MAX);
	if (strnlen(r->source, sizeof(r->source)) == sizeof(r->source))
		return err_set(e, -EINVAL, "the rule has no source");
	for (size_t i = 0; i < r->n_when; i++) {
		const struct tool_when *w = &r->when[i];

		if (!w->key[0] || strnlen(w->key, sizeof(w->key)) == sizeof(w->key) ||
		    strnlen(w->value, sizeof(w->value)) == sizeof(w->value))
			return err_set(e, -EINVAL, "a condition is the name of an argument and its value");
	}
	return check_tool_name(r->name, e);
}

int acts_add_rule(struct acts *a, const struct tool_rule *r, struct err *e)
{
	struct tool_rule *v;
	int ret = check_tool_rule(a, r, e);

	if (ret < 0)
		return ret;
	if (VEC_MORE(a->rules, a->n_rules, VEC_NO_MAX) < 0)
		return err_set(e, -ENOMEM, "out of memory");
	v = &a->rules[a->n_rules];
	*v = *r;
	v->when = NULL;
	if (r->n_when) {
		v->when = calloc(r->n_when, sizeof(*v->when));
		if (!v->when)
			return err_set(e, -ENOMEM, "out of memory");
		memcpy(v->when, r->when, r->n_when * sizeof(*v->when));
	}
	a->n_rules++;
	return 0;
}

/* ---- Matching. ---- */

static int fold_case(char c, bool loose)
{
	return loose && c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
}

/*
 * A star matches any number of bytes. Only the last star has to be retried, because the text before it has matched as
 * early as possible: time is at most the product of both lengths, which are bounded.
 */
static bool pattern_matches(const char *p, const char *s, bool loose)
{
	const char *star = NULL, *from = NULL;

	while (*s) {
		if (*p == '*') {
			star = p++;
			from = s;
		} else if (*p && fold_case(*p, loose) == fold_case(*s, loose)) {
			p++;
			s++;
		} else if (star) {
			p = star + 1;
			s = ++from;
		} else {
			return false;
		}
	}
	while (*p == '*')
		p++;
	return !*p;
}

/* Does `outer` match everything that `inner` matches? A star of the inner pattern is covered only by a star
 * of the outer. */
static bool pattern_covers(const char *outer, const char *inner)
{
	return pattern_matches(outer, inner, true);
}

/* Does the condition match the arguments with its key? Several values come from a list. */
static bool condition_holds(const struct tool_when *w, const struct tool_arg *args, size_t n, bool loose)
{
	bool some = false, all = true;

	for (size_t i = 0; i < n; i++) {
		bool same = loose ? strcasecmp(args[i].key, w->key) == 0 : str_eq(args[i].key, w->key);
		bool fits = same && pattern_matches(w->value, args[i].value, loose);

		some = some || fits;
		all = all && (!same || fits);
	}
	return some && (all || loose); /* acts.C4: an allow needs every value to fit, the others need one */
}

/* A rule matches if its name and all its conditions do. */
static bool tool_rule_matches(const struct tool_rule *r, const char *name, const struct tool_arg *args,
			      size_t n)
{
	bool loose = r->action != POLICY_ALLOW;

	if (!pattern_matches(r->name, name, loose))
		return false;
	for (size_t i = 0; i < r->n_when; i++) {
		if (!condition_holds(&r->when[i], args, n, loose))
			return false;
	}
	return true;
}

static bool has_narrower_condition(const struct tool_rule *r, const struct tool_when *w)
{
	for (size_t i = 0; i < r->n_when; i++) {
		if (str_eq(r->when[i].key, w->key) && pattern_covers(w->value, r->when[i].value))
			return true;
	}
	return false;
}

static bool has_all_conditions(const struct tool_rule *r, const struct tool_rule *of)
{
	for (size_t i = 0; i < of->n_when; i++) {
		if (!has_narrower_condition(r, &of->when[i]))
			return false;
	}
	return true;
}

/* acts.C2: does `a` take precedence over `b`? */
static bool tool_rule_is_narrower(const struct tool_rule *a, const struct tool_rule *b)
{
	bool a_in_b = pattern_covers(b->name, a->name), b_in_a = pattern_covers(a->name, b->name);

	if (!a_in_b)
		return false;
	return !b_in_a || (has_all_conditions(a, b) && !has_all_conditions(b, a));
}

/* A matching rule has no effect if another matching rule is more specific. */
static bool is_overruled(const struct acts *a, const bool *match, size_t i)
{
	for (size_t k = 0; k < a->n_rules; k++) {
		if (match[k] && k != i && tool_rule_is_narrower(&a->rules[k], &a->rules[i]))
			return true;
	}
	return false;
}

static void match_tool_rules(const struct acts *a, const char *name, const struct tool_arg *args, size_t n,
			     bool match[TOOL_RULES_MAX])
{
	for (size_t i = 0; i < a->n_rules; i++)
		match[i] = tool_rule_matches(&a->rules[i], name, args, n);
}

/* The strictest of the matching rules that no other overrules (acts.C2); without any, the default
 * (acts.C3). */
static void decide_by_matches(const struct acts *a, const bool *match, struct tool_verdict *ret)
{
	*ret = (struct tool_verdict){ .action = a->has_tools ? POLICY_DENY : POLICY_ALLOW,
				      .has_opinion = a->has_tools,
				      .acts = a };
	for (size_t i = 0; i < a->n_rules; i++) {
		const struct tool_rule *r = &a->rules[i];

		if (match[i] && !is_overruled(a, match, i) && (!ret->rule || r->action < ret->action)) {
			ret->rule = r;
			ret->action = r->action;
		}
	}
}

void acts_decide_tool(const struct acts *a, const char *name, const struct tool_arg *args, size_t n_args,
		      struct tool_verdict *ret)
{
	bool match[TOOL_RULES_MAX] = { 0 };

	_Static_assert(POLICY_DENY < POLICY_ASK && POLICY_ASK < POLICY_ALLOW, "the stricter is the smaller");
	match_tool_rules(a, name, args, n_args, match);
	decide_by_matches(a, match, ret);
}

static void digest_text(struct hash_stream *h, const char *s)
{
	hash_stream_add(h, s, strlen(s) + 1);
}

void acts_digest(const struct acts *a, char out[ACTS_DIGEST_LEN + 1])
{
	unsigned char sum[HASH_LEN];
	struct hash_stream h;

	static_assert(ACTS_DIGEST_LEN == HASH_HEX_LEN, "a digest as hex");
	hash_stream_init(&h);
	hash_stream_add(&h, a->has_tools ? "1" : "0", 1);
	for (size_t i = 0; i < a->n_rules; i++) {
		const struct tool_rule *r = &a->rules[i];

		digest_text(&h, policy_action_name(r->action));
		digest_text(&h, r->name);
		for (size_t k = 0; k < r->n_when; k++) {
			digest_text(&h, r->when[k].key);
			digest_text(&h, r->when[k].value);
		}
		/* No key is empty, so an empty text ends a rule. */
		digest_text(&h, "");
	}
	hash_stream_end(&h, sum);
	hash_hex(sum, HASH_LEN, out);
}

void tool_verdict_stricter(struct tool_verdict *to, const struct tool_verdict *other)
{
	if (other->has_opinion && (!to->has_opinion || other->action < to->action))
		*to = *other;
}

/* ---- For good. ---- */

bool tool_rule_covers(const struct tool_rule *r, const char *name)
{
	return pattern_matches(r->name, name, r->action != POLICY_ALLOW);
}

static bool same_conditions(const struct tool_rule *a, const struct tool_rule *b)
{
	if (a->n_when != b->n_when)
		return false;
	for (size_t i = 0; i < a->n_when; i++) {
		if (!str_eq(a->when[i].key, b->when[i].key) || !str_eq(a->when[i].value, b->when[i].value))
			return false;
	}
	return true;
}

/*
 * Which rule would `allow: name` with the conditions of `ask` silence? The new rule matches only calls that `ask` matches, too,
 * because an allow is matched to the letter (acts.C4). So a rule that `ask` overrules has no effect on them already, and a rule
 * that the new one does not overrule keeps its effect. Any other rule is treated as lost; whether both can match the same
 * call is not examined, because keys are matched generously.
 */
const struct tool_rule *acts_overruled(const struct acts *a, const struct tool_rule *ask, const char *name)
{
	struct tool_rule n = { .action = POLICY_ALLOW, .when = ask->when, .n_when = ask->n_when };

	snprintf(n.name, sizeof(n.name), "%s", name);
	for (size_t i = 0; i < a->n_rules; i++) {
		const struct tool_rule *r = &a->rules[i];

		if (r == ask || r->action == POLICY_ALLOW || !tool_rule_covers(r, name) ||
		    (r->action == POLICY_ASK && same_conditions(r, ask)))
			continue;
		if (tool_rule_is_narrower(&n, r) && !tool_rule_is_narrower(ask, r))
			return r;
	}
	return NULL;
}

/* ---- Words. ---- */

void tool_rule_what(const struct tool_rule *r, const char *name, struct buf *out)
{
	buf_adds(out, name);
	for (size_t i = 0; i < r->n_when; i++)
		buf_addf(out, "%s%s=%s", i ? ", " : " when ", r->when[i].key, r->when[i].value);
}

void tool_rule_text(const struct tool_rule *r, struct buf *out)
{
	buf_addf(out, "%s: %s", policy_action_name(r->action), r->name);
	for (size_t i = 0; i < r->n_when; i++) {
		buf_adds(out, i ? ", " : " when ");
		str_add_safe(out, r->when[i].key, strlen(r->when[i].key), false);
		buf_addc(out, '=');
		str_add_safe(out, r->when[i].value, strlen(r->when[i].value), false);
	}
}

void tool_rule_place(const struct tool_rule *r, struct buf *out)
{
	tool_rule_text(r, out);
	if (r->source[0])
		buf_addf(out, r->line ? " (%s:%u)" : " (%s)", r->source, r->line);
}

void tool_verdict_text(const struct tool_verdict *v, const char *name, struct buf *out)
{
	static const char *const words[] = {
		[POLICY_DENY] = "denied", [POLICY_ASK] = "a person is asked", [POLICY_ALLOW] = "allowed"
	};

	buf_addf(out, "tool %s: %s", name, words[v->action]);
	if (v->rule) {
		buf_adds(out, " by ");
		tool_rule_place(v->rule, out);
	} else {
		buf_adds(out,
			 v->has_opinion ? ", as no rule covers it" : ", as the policy has no list of tools");
	}
}

void acts_explain_tool(const struct acts *a, const char *name, const struct tool_arg *args, size_t n_args,
		       struct buf *out, struct tool_verdict *ret)
{
	bool match[TOOL_RULES_MAX] = { 0 };

	match_tool_rules(a, name, args, n_args, match);
	decide_by_matches(a, match, ret);
	tool_verdict_text(ret, name, out);
	buf_addc(out, '\n');
	for (size_t i = 0; i < a->n_rules; i++) {
		if (!match[i])
			continue;
		buf_adds(out, &a->rules[i] == ret->rule ? "  * " : "    ");
		tool_rule_place(&a->rules[i], out);
		buf_addc(out, '\n');
	}
}
