/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decisions on acts that are not connections: calls of tools, by name, and applying changes (`coffer apply`).
 *
 * This is hygiene, not a boundary. A tool's name and arguments are what its caller claims to be about to do; the effects of the
 * command are confined by the sandbox, and by nothing here.
 *
 * Invariants
 *  C1  Anything but POLICY_ALLOW is a denial until a person has decided otherwise. A zeroed verdict denies.
 *  C2  The most specific matching rule decides: by name (one that the other's pattern contains), then by conditions (all
 *      of the other's, and more), whatever the order of the rules. Between equals, and if neither is more specific,
 *      deny beats ask beats allow.
 *  C3  A policy with a list of tools denies calls that no rule covers; one without has no opinion. Of several policies
 *      the strictest decides (tool_verdict_stricter()).
 *  C4  An allow is matched to the letter: each value at its key must fit. A deny or an ask is matched generously: letter case
 *      is ignored, and one value of several is enough.
 */
#ifndef POLICY_ACTS_H
#define POLICY_ACTS_H

#include "base/buf.h"
#include "base/err.h"
#include "policy/build.h"

#include <stdbool.h>
#include <stddef.h>

#define TOOL_NAME_MAX 128
#define TOOL_RULES_MAX 256
#define TOOL_WHEN_MAX 8
#define TOOL_KEY_MAX 128
#define TOOL_VALUE_MAX 255

/* One condition: the argument with this key (members of objects are joined by dots) has such a value. */
struct tool_when {
	char key[TOOL_KEY_MAX + 1];
	char value[TOOL_VALUE_MAX + 1]; /* a pattern: each star matches any number of bytes */
};

struct tool_rule {
	enum policy_action action;
	char name[TOOL_NAME_MAX + 1]; /* a pattern, too */
	struct tool_when *when;
	size_t n_when;
	char source[POLICY_SOURCE_MAX + 1];
	unsigned line;
};

struct acts {
	bool has_tools; /* there is a list, possibly an empty one */
	struct tool_rule *rules;
	size_t n_rules;
	bool has_apply;
	enum policy_action apply;
	char apply_source[POLICY_SOURCE_MAX + 1];
	unsigned apply_line;
};

#define ACTS_INIT ((struct acts){ 0 })

void acts_release(struct acts *a);
static inline bool acts_says_something(const struct acts *a)
{
	return a->has_tools || a->has_apply;
}

/* 1 to TOOL_NAME_MAX letters, digits and _ - . / : @: a name that people can read and rules can contain. */
bool tool_name_is_valid(const char *s, size_t len);

/* Checks and copies the rule: -EINVAL, -E2BIG, with a message. */
int acts_add_rule(struct acts *a, const struct tool_rule *r, struct err *e) MUST_CHECK;

/* One argument of a call. A list gives one entry for each of its elements, all with the same key. */
struct tool_arg {
	const char *key, *value;
};

struct tool_verdict {
	enum policy_action action;
	const struct tool_rule *rule; /* NULL: no rule covers it */
	bool has_opinion;	      /* false: there is no list of tools */
	const struct acts *acts;      /* whose decision it is */
};

void acts_decide_tool(const struct acts *a, const char *name, const struct tool_arg *args, size_t n_args,
		      struct tool_verdict *ret);
/* A digest, in hex, of everything that decides on tools: the same digest means the same decisions. */
#define ACTS_DIGEST_LEN 64
void acts_digest(const struct acts *a, char out[ACTS_DIGEST_LEN + 1]);
/* Replaces *to by the stricter of both; a verdict without an opinion changes nothing. */
void tool_verdict_stricter(struct tool_verdict *to, const struct tool_verdict *other);

/*
 * For allowing a call of `name`, about which this rule asks, permanently (config/edit/policy_edit.h).
 *   tool_rule_covers   does the rule cover such a name, whatever the arguments?
 *   tool_rule_what     how an ask describes the call: "deploy when env=production"
 *   acts_overruled     a rule that would lose its effect on calls that it decides now, if `allow: name` with the conditions
 *                      of `ask` were added; NULL: none, and every other call is decided as before
 */
bool tool_rule_covers(const struct tool_rule *r, const char *name);
void tool_rule_what(const struct tool_rule *r, const char *name, struct buf *out);
const struct tool_rule *acts_overruled(const struct acts *a, const struct tool_rule *ask, const char *name);

/* "ask: deploy when env=production"; tool_rule_place() appends " (policy.yaml:7)". */
void tool_rule_text(const struct tool_rule *r, struct buf *out);
void tool_rule_place(const struct tool_rule *r, struct buf *out);
/* For people: the decision, and the rule and file that caused it. */
void tool_verdict_text(const struct tool_verdict *v, const char *name, struct buf *out);
/* The decision, then all matching rules, with the deciding one marked. */
void acts_explain_tool(const struct acts *a, const char *name, const struct tool_arg *args, size_t n_args,
		       struct buf *out, struct tool_verdict *ret);

#endif
