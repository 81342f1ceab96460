/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a policy says of acts that are not connections: calls of tools, by name, and bringing changes out (`coffer apply`).
 *
 * This is hygiene, not a wall. A tool's name and its arguments are what its caller says that it is about to do; what the
 * command then really does is held by the sandbox, and by nothing here.
 *
 * Invariants
 *  C1  Anything but POLICY_ALLOW is a denial until a person has said otherwise. A zeroed verdict denies.
 *  C2  The most specific rule that matches decides: by name (one that the other's pattern contains), then by conditions (all
 *      of the other's, and more), in whatever order rules stand. Between equals, and where neither is the more specific,
 *      deny beats ask beats allow.
 *  C3  A policy that has a list of tools denies what no rule covers; one that has none has no opinion. Of several policies
 *      (acts_stricter) the strictest decides.
 *  C4  An allow is matched to the letter: each value at its key must fit. A deny or an ask is matched generously: letters of
 *      either case are one, and one value of several is enough.
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

/* One condition: the argument at this place (members of objects are joined by dots) has such a value. */
struct tool_when {
	char key[TOOL_KEY_MAX + 1];
	char value[TOOL_VALUE_MAX + 1]; /* a pattern: each star stands for any number of bytes */
};

struct tool_rule {
	enum policy_action action;
	char name[TOOL_NAME_MAX + 1]; /* a pattern likewise */
	struct tool_when *when;
	size_t n_when;
	char source[POLICY_SOURCE_MAX + 1];
	unsigned line;
};

struct acts {
	bool has_tools; /* there is a list, if an empty one */
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

/* Letters, digits and _ - . / : @, 1 to TOOL_NAME_MAX of them: what a person can read and a rule can name. */
bool tool_name_is_valid(const char *s, size_t len);

/* Copies the rule, checked: -EINVAL, -E2BIG with words. */
int acts_add_rule(struct acts *a, const struct tool_rule *r, struct err *e) MUST_CHECK;

/* One argument of a call. A list has an entry for each of its elements, all with its key. */
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
/* Over all that decides on a tool, as hex: the same digest, the same answers. */
#define ACTS_DIGEST_LEN 64
void acts_digest(const struct acts *a, char out[ACTS_DIGEST_LEN + 1]);
/* Puts the stricter of both into *to; one without an opinion changes nothing. */
void tool_verdict_stricter(struct tool_verdict *to, const struct tool_verdict *other);

/*
 * Where a call of `name` that this rule asks about is to be allowed for good (config/edit/policy_edit.h).
 *   tool_rule_covers   is the rule about such a name, whatever the arguments?
 *   tool_rule_what     what a question says of it: "deploy when env=production"
 *   acts_overruled     a rule that would have no say any more in calls that it decides now, if `allow: name` with the conditions
 *                      of `ask` stood beside it; NULL: none, and every other call is decided as before
 */
bool tool_rule_covers(const struct tool_rule *r, const char *name);
void tool_rule_what(const struct tool_rule *r, const char *name, struct buf *out);
const struct tool_rule *acts_overruled(const struct acts *a, const struct tool_rule *ask, const char *name);

/* "ask: deploy when env=production"; the same with " (policy.yaml:7)" behind it. */
void tool_rule_text(const struct tool_rule *r, struct buf *out);
void tool_rule_place(const struct tool_rule *r, struct buf *out);
/* What a person reads: the decision, and by which rule of which file. */
void tool_verdict_text(const struct tool_verdict *v, const char *name, struct buf *out);
/* The decision, then all rules that match, the one that decides marked. */
void acts_explain_tool(const struct acts *a, const char *name, const struct tool_arg *args, size_t n_args,
		       struct buf *out, struct tool_verdict *ret);

#endif
