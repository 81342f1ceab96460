/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the editor: the text by lines, its tree, and the functions that change both. */
#ifndef CONFIG_POLICY_EDIT_INT_H
#define CONFIG_POLICY_EDIT_INT_H

#include "config/edit/policy_edit.h"
#include "config/ytree.h"

struct line {
	size_t at, len, end; /* length without its line break; end includes it */
};

#define SPLICES_MAX 2
#define SPLICE_TEXT_MAX 1536

/* Replaces some bytes of one line. */
struct splice {
	size_t at, len; /* in the text */
	char text[SPLICE_TEXT_MAX];
};

/* One edit of the text: bytes of lines change, lines are removed, others are added after one. The tree
 * changes alike. */
struct edit {
	const char *name, *text;
	size_t len;
	const struct policy_edit *ed;
	struct line *lines; /* from 1 */
	size_t n_lines;
	struct ynode *tree;	   /* the current tree; becomes the new one */
	unsigned behind;	   /* `add` comes after this line; 0: nothing is added */
	struct buf add;		   /* whole lines, with breaks */
	unsigned cut_from, cut_to; /* lines to remove; 0: none */
	struct splice splices[SPLICES_MAX];
	size_t n_splices;
	struct err *e;
};

/* ---- policy_edit.c ---- */

int edit_no_memory(struct edit *d);
int edit_cannot(struct edit *d, unsigned line, const char *why);

/* The line break to use for new lines next to this one. */
const char *edit_break(const struct edit *d, unsigned line);
/* The bytes of a line before a node: they must be spaces, with one dash for an element of a list. */
int edit_margin(struct edit *d, const struct ynode *n, bool dash, struct buf *ret) MUST_CHECK;
/* The offset of a node in the text. */
int edit_offset(struct edit *d, const struct ynode *n, size_t *ret) MUST_CHECK;
int edit_splice(struct edit *d, size_t at, size_t len, const char *text) MUST_CHECK;
/* Replaces the scalar `old`, quoted or not, by `now`, in the text and in the tree. */
int edit_word(struct edit *d, struct ynode *n, const char *old, const char *now) MUST_CHECK;

struct ynode *edit_child(const struct ynode *map, const char *key);
size_t edit_place(const struct ynode *map, const char *key); /* map->n: not found */
/* The mapping with the lists: egress:, or the top level. */
struct ynode *edit_section(const struct edit *d);
bool edit_has_literal(const struct ynode *n);
struct ynode *edit_new_text(const char *s);
int edit_add_pair(struct ynode *map, const char *key, const char *value) MUST_CHECK;
/* Takes ownership of the node, even on failure. */
int edit_insert(struct ynode *list, size_t at, struct ynode *n) MUST_CHECK;
struct ynode *edit_take_out(struct ynode *list, size_t at);

/* policy_edit.E3: only bytes that are safe between quotes; a star only if it is intended. */
int edit_check_text(struct edit *d, const char *s, bool star) MUST_CHECK;
/* Unquoted only if YAML can read it in no other way. */
void edit_add_scalar(struct buf *b, const char *s);

/* ---- policy_edit_rule.c, policy_edit_tool.c: one function for each enum policy_edit_act ---- */

int edit_add_entry(struct edit *d) MUST_CHECK;
int edit_turn_entry(struct edit *d) MUST_CHECK;
int edit_add_rule(struct edit *d) MUST_CHECK;
int edit_move_rule(struct edit *d) MUST_CHECK;
int edit_turn_secret(struct edit *d) MUST_CHECK;
int edit_add_tool(struct edit *d) MUST_CHECK;
int edit_turn_tool(struct edit *d) MUST_CHECK;
int edit_turn_apply(struct edit *d) MUST_CHECK;
int edit_copy_rule(struct edit *d) MUST_CHECK; /* policy_edit_copy.c */

/* Finds the entry that asks: its list, and its rule. `lines`: the rule must be in block style. */
int edit_find_entry(struct edit *d, bool lines, struct ynode **ret_rules, size_t *ret_rule,
		    struct ynode **ret_list, size_t *ret) MUST_CHECK;
int edit_check_host(struct edit *d, const char *s) MUST_CHECK;

#endif
