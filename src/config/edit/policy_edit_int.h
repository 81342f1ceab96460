/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the editor share: the text by lines, its tree, and what is done to both. */
#ifndef CONFIG_POLICY_EDIT_INT_H
#define CONFIG_POLICY_EDIT_INT_H

#include "config/edit/policy_edit.h"
#include "config/ytree.h"

struct line {
	size_t at, len, end; /* without its break; behind it */
};

#define SPLICES_MAX 2
#define SPLICE_TEXT_MAX 1536

/* Some bytes of one line become others. */
struct splice {
	size_t at, len; /* in the text */
	char text[SPLICE_TEXT_MAX];
};

/* What is done to the text: bytes of lines change, some lines are taken out, others come behind one. To the tree the same. */
struct edit {
	const char *name, *text;
	size_t len;
	const struct policy_edit *ed;
	struct line *lines; /* from 1 */
	size_t n_lines;
	struct ynode *tree;	   /* as it is; becomes what it is to be */
	unsigned behind;	   /* `add` comes behind this line; 0: nothing is added */
	struct buf add;		   /* whole lines, with breaks */
	unsigned cut_from, cut_to; /* lines that go; 0: none */
	struct splice splices[SPLICES_MAX];
	size_t n_splices;
	struct err *e;
};

/* ---- policy_edit.c ---- */

int edit_no_memory(struct edit *d);
int edit_cannot(struct edit *d, unsigned line, const char *why);

/* What new lines beside this one end with. */
const char *edit_break(const struct edit *d, unsigned line);
/* The bytes of a line in front of a node, which are to be spaces, with one dash for an element of a list. */
int edit_margin(struct edit *d, const struct ynode *n, bool dash, struct buf *ret) MUST_CHECK;
/* Where a node begins, in bytes of the text. */
int edit_offset(struct edit *d, const struct ynode *n, size_t *ret) MUST_CHECK;
int edit_splice(struct edit *d, size_t at, size_t len, const char *text) MUST_CHECK;
/* A text that is `old`, quoted or not, becomes `now`, there and in the tree. */
int edit_word(struct edit *d, struct ynode *n, const char *old, const char *now) MUST_CHECK;

struct ynode *edit_child(const struct ynode *map, const char *key);
size_t edit_place(const struct ynode *map, const char *key); /* map->n: it has none */
/* Where the lists are: below egress:, or at the top. */
struct ynode *edit_section(const struct edit *d);
bool edit_has_literal(const struct ynode *n);
struct ynode *edit_new_text(const char *s);
int edit_add_pair(struct ynode *map, const char *key, const char *value) MUST_CHECK;
/* Takes over the node, also on failure. */
int edit_insert(struct ynode *list, size_t at, struct ynode *n) MUST_CHECK;
struct ynode *edit_take_out(struct ynode *list, size_t at);

/* policy_edit.E3: of a text only bytes that mean themselves between quotes; a star only where it is meant. */
int edit_check_text(struct edit *d, const char *s, bool star) MUST_CHECK;
/* Plain where YAML can read it in no other way. */
void edit_add_scalar(struct buf *b, const char *s);

/* ---- policy_edit_rule.c, policy_edit_tool.c: the ways ---- */

int edit_add_entry(struct edit *d) MUST_CHECK;
int edit_turn_entry(struct edit *d) MUST_CHECK;
int edit_add_rule(struct edit *d) MUST_CHECK;
int edit_move_rule(struct edit *d) MUST_CHECK;
int edit_turn_secret(struct edit *d) MUST_CHECK;
int edit_add_tool(struct edit *d) MUST_CHECK;
int edit_turn_tool(struct edit *d) MUST_CHECK;
int edit_turn_apply(struct edit *d) MUST_CHECK;
int edit_copy_rule(struct edit *d) MUST_CHECK; /* policy_edit_copy.c */

/* The entry that asks: its list, and the rule that this is of. `lines`: the rule is to be written in lines. */
int edit_find_entry(struct edit *d, bool lines, struct ynode **ret_rules, size_t *ret_rule,
		    struct ynode **ret_list, size_t *ret) MUST_CHECK;
int edit_check_host(struct edit *d, const char *s) MUST_CHECK;

#endif
