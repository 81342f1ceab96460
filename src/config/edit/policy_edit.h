/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds one rule to a policy file that a person wrote: text in, text out, nothing else. For `coffer approve --always`.
 *
 * Invariants
 *  E1  Every byte of the file stays, in its order: lines are added (an element, if a list is in brackets), one word is replaced
 *      (`ask` by `allow`, `true` by `false`), one name is removed from a list of several, or the lines of one rule move from
 *      `ask:` to `allow:`, with the indentation of that list, or are duplicated. Nothing is written anew.
 *  E2  The new text, parsed, is the old tree with that one change. A file that cannot be edited in this way (several entries that
 *      ask in one line) is refused with a message, never guessed at.
 *  E3  Whatever bytes a request had, the added text cannot be read by YAML as anything else: bytes that a rule may not
 *      contain, and a star, which would be a pattern, are refused.
 */
#ifndef CONFIG_POLICY_EDIT_H
#define CONFIG_POLICY_EDIT_H

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum policy_edit_act {
	POLICY_EDIT_ADD_ENTRY,	 /* `- allow: ENTRY` after the entry that asks */
	POLICY_EDIT_TURN_ENTRY,	 /* the entry that asks is for exactly this: it becomes an allow */
	POLICY_EDIT_ADD_RULE,	 /* `- domain: HOST`, `port: N` at the end of allow: */
	POLICY_EDIT_MOVE_RULE,	 /* the rule that asks is for exactly this: it moves from ask: to allow: */
	POLICY_EDIT_TURN_SECRET, /* `ask: true` of the rule's secret becomes `ask: false` */
	POLICY_EDIT_ADD_TOOL,	 /* `- allow: ENTRY` after the tool rule that asks, with its conditions */
	/* ENTRY is the name in the rule: it becomes an allow; of several names that one is taken out and
	 * allowed */
	POLICY_EDIT_TURN_TOOL,
	POLICY_EDIT_TURN_APPLY, /* `apply: ask` becomes `apply: allow` */
	/* The lines of the rule are duplicated after it, for HOST and PORT alone, with `- allow: ENTRY` after
	 * the entry that asks; with `turn` that entry itself allows in the copy. */
	POLICY_EDIT_COPY_RULE,
	POLICY_EDIT_ACT_COUNT
};

struct policy_edit {
	enum policy_edit_act act;
	/* The place of what asks: the line of struct policy_rule, of struct policy_entry or of struct
	 * tool_rule (entry_line). Not for ADD_RULE. ADD_ENTRY with an entry_line of 0: after the last entry
	 * of the list. */
	unsigned rule_line, entry_line;
	const char *list;  /* of the entry: "http", "graphql", "git" */
	const char *entry; /* ADD_ENTRY: "PUT /repos/o/r/pulls/7/merge"; *_TOOL: the tool's name */
	const char *name;  /* *_TOOL: the name in the rule, possibly a pattern */
	const char *host;  /* ADD_RULE, COPY_RULE: a name or an address */
	uint16_t port;
	const char *http; /* ADD_RULE: the rule is for this request alone; NULL: for the whole host */
	bool turn;	  /* COPY_RULE: the entry that asks is for exactly this */
	bool pattern;	  /* the approved request was the rule itself: a star in it is intended */
};

/* `name` stands for the file in messages. -EINVAL: the file is malformed; -EOPNOTSUPP: it cannot be edited,
 * with the reason. *out is the new contents; unchanged on failure. */
int config_edit_policy(const char *name, const char *text, size_t len, const struct policy_edit *ed,
		       struct buf *out, struct err *e) MUST_CHECK;

#endif
