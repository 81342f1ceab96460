/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One more rule in a policy file that a person wrote: text in, text out, nothing else. For `coffer approve --always`.
 *
 * Invariants
 *  E1  Every byte that was there stays, in its order: lines are added (an element, where a list stands in brackets), one word becomes
 *      another (`ask` `allow`, `true` `false`), one name is taken out of a list of several, or the lines of one rule stand under
 *      `allow:` instead of `ask:`, with the margin of that list, or are there twice. Nothing is dumped anew.
 *  E2  The new text, parsed, is the old one with that one change made to its tree. What cannot be edited so (several that ask in
 *      one line) is refused with words, never guessed.
 *  E3  What is added is in a form that YAML cannot read as anything else, whatever bytes it was asked with: what has other bytes than
 *      a rule may have, or a star, which would be a pattern, is refused.
 */
#ifndef CONFIG_POLICY_EDIT_H
#define CONFIG_POLICY_EDIT_H

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum policy_edit_act {
	POLICY_EDIT_ADD_ENTRY,	 /* `- allow: ENTRY` behind the entry that asks */
	POLICY_EDIT_TURN_ENTRY,	 /* the entry that asks is for exactly this: it allows */
	POLICY_EDIT_ADD_RULE,	 /* `- domain: HOST`, `port: N` at the end of allow: */
	POLICY_EDIT_MOVE_RULE,	 /* the rule that asks is for exactly this: it moves from ask: to allow: */
	POLICY_EDIT_TURN_SECRET, /* `ask: true` of the rule's secret becomes `ask: false` */
	POLICY_EDIT_ADD_TOOL, /* `- allow: ENTRY` behind the rule on tools that asks, with its conditions */
	POLICY_EDIT_TURN_TOOL, /* ENTRY is what it names: it allows; of several names that one is taken out and allowed */
	POLICY_EDIT_TURN_APPLY, /* `apply: ask` becomes `apply: allow` */
	/* The lines of the rule once more behind it, for HOST and PORT alone, with `- allow: ENTRY` behind the entry that asks; with `turn` that one allows there */
	POLICY_EDIT_COPY_RULE,
	POLICY_EDIT_ACT_COUNT
};

struct policy_edit {
	enum policy_edit_act act;
	/* Where that stands which asks: struct policy_rule's line, struct policy_entry's, struct tool_rule's (entry_line). Not for
	 * ADD_RULE. ADD_ENTRY with an entry_line of 0: behind the last one of the list. */
	unsigned rule_line, entry_line;
	const char *list;  /* of the entry: "http", "graphql", "git" */
	const char *entry; /* ADD_ENTRY: "PUT /repos/o/r/pulls/7/merge"; *_TOOL: the tool's name */
	const char *name;  /* *_TOOL: the name that the rule has, a pattern perhaps */
	const char *host;  /* ADD_RULE, COPY_RULE: a name, or an address */
	uint16_t port;
	const char *http; /* ADD_RULE: the rule is for this request alone; NULL: for all of the host */
	bool turn;	  /* COPY_RULE: the entry that asks is for exactly this */
	bool pattern;	  /* a person was asked for the rule itself: a star in it is meant */
};

/* `name` stands for the file in messages. -EINVAL: the file is broken; -EOPNOTSUPP: it cannot be edited, and why. *out is what the
 * file is to be; it is as it was on failure. */
int policy_edit(const char *name, const char *text, size_t len, const struct policy_edit *ed, struct buf *out,
		struct err *e) MUST_CHECK;

#endif
