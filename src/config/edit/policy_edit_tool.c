/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Edits of rules on tools, and of `apply:`. No byte of the file may change but those that policy_edit.E1
 * names.
 */
#include "config/edit/policy_edit_int.h"

#include "base/cleanup.h"
#include "base/str.h"

#include <errno.h>
#include <string.h>

#define NO_TOOL "there is no rule on tools in that line that asks"

/* One name in one rule. */
struct tool_at {
	struct ynode *list; /* tools: */
	size_t at;	    /* the rule in it */
	struct ynode *el, *key, *names;
	size_t name; /* in names, where that is a list */
};

static bool is_tool_name(const struct edit *d, const struct ynode *n)
{
	return n->kind == YNODE_TEXT && n->line == d->ed->entry_line && str_eq(n->text, d->ed->name);
}

/* How often the rule has that name in that line. */
static size_t count_tool_name(const struct edit *d, const struct ynode *names, size_t *ret)
{
	size_t n = 0;

	if (names->kind == YNODE_TEXT)
		return is_tool_name(d, names);
	for (size_t i = 0; names->kind == YNODE_SEQ && i < names->n; i++) {
		if (is_tool_name(d, names->items[i])) {
			*ret = i;
			n++;
		}
	}
	return n;
}

/* Finds the rule on tools, and the name in it, that asks in the given line. */
static int find_tool_rule(struct edit *d, struct tool_at *x)
{
	size_t found = 0;

	x->list = edit_child(d->tree, "tools");
	for (size_t i = 0; x->list && x->list->kind == YNODE_SEQ && i < x->list->n; i++) {
		struct ynode *el = x->list->items[i], *names = edit_child(el, "ask");
		size_t n = names ? count_tool_name(d, names, &x->name) : 0;

		found += n;
		if (!n)
			continue;
		x->at = i;
		x->el = el;
		x->names = names;
		x->key = el->keys[edit_place(el, "ask")];
	}
	if (!found)
		return edit_cannot(d, d->ed->entry_line, NO_TOOL);
	if (found > 1)
		return edit_cannot(d, d->ed->entry_line, "the tool is named there more than once");
	if (edit_has_literal(x->el))
		return edit_cannot(d, d->ed->entry_line, "it contains a text of several lines");
	return 0;
}

/* --- one more rule ------------------------------------------------------------------------------------------------ */

/* In JSON syntax, which YAML reads the same way everywhere. */
static int add_conditions(struct edit *d, const struct ynode *when, struct buf *out)
{
	int r = 0;

	buf_adds(out, "when: {");
	for (size_t i = 0; r == 0 && i < when->n; i++) {
		const struct ynode *v = when->items[i];

		r = v->kind == YNODE_TEXT ? edit_check_text(d, when->keys[i]->text, true)
					  : edit_cannot(d, v->line, "a condition is not a text");
		r = r < 0 ? r : edit_check_text(d, v->text, true);
		if (r == 0)
			buf_addf(out, "%s\"%s\": \"%s\"", i ? ", " : "", when->keys[i]->text, v->text);
	}
	buf_adds(out, "}");
	return r;
}

/* Writes the new rule, in the style of the list. */
static int write_tool_rule(struct edit *d, const struct tool_at *x, const struct ynode *when)
{
	autobuf struct buf before = BUF_INIT, cond = BUF_INIT, all = BUF_INIT;
	const char *nl = edit_break(d, x->el->end_line);
	size_t at = 0;
	int r = when ? add_conditions(d, when, &cond) : 0;

	if (r < 0)
		return r;
	if (x->list->flow) {
		r = edit_offset(d, x->el, &at);
		buf_addf(&all, "{allow: \"%s\"%s%s}, ", d->ed->entry, when ? ", " : "", buf_cstr(&cond));
		if (r == 0 && (buf_error(&all) || buf_error(&cond)))
			return edit_no_memory(d);
		return r < 0 ? r : edit_splice(d, at, 0, buf_cstr(&all));
	}
	r = edit_margin(d, x->el, true, &before);
	if (r < 0)
		return r;
	d->behind = x->el->end_line;
	buf_addf(&d->add, "%sallow: ", buf_cstr(&before));
	edit_add_scalar(&d->add, d->ed->entry);
	buf_adds(&d->add, nl);
	if (when)
		buf_addf(&d->add, "%*s%s%s", (int)before.len, "", buf_cstr(&cond), nl);
	return buf_error(&cond) || buf_error(&before) ? edit_no_memory(d) : 0;
}

/* Adds `- allow: ENTRY` with everything else that the rule has besides its names. */
static int add_tool_rule(struct edit *d, const struct tool_at *x)
{
	const struct ynode *when = ynode_get(x->el, "when");
	struct ynode *n, *copy = NULL, *key = NULL;
	int r = edit_check_text(d, d->ed->entry, false);

	if (r == 0 && x->el->n != 1u + (when != NULL))
		r = edit_cannot(d, x->el->line, "the rule has keys other than 'ask' and 'when'");
	r = r < 0 ? r : write_tool_rule(d, x, when);
	if (r < 0)
		return r;
	n = ynode_new(YNODE_MAP, 0, 0);
	r = n ? edit_add_pair(n, "allow", d->ed->entry) : -ENOMEM;
	if (r == 0 && when) {
		copy = ynode_copy(when);
		key = edit_new_text("when");
		r = copy && key ? ynode_add(n, key, copy) : -ENOMEM;
		if (!copy || !key) {
			ynode_free(copy);
			ynode_free(key);
		}
	}
	if (r < 0) {
		ynode_free(n);
		return edit_no_memory(d);
	}
	return edit_insert(x->list, x->at + !x->list->flow, n) < 0 ? edit_no_memory(d) : 0;
}

int edit_add_tool(struct edit *d)
{
	struct tool_at x = { 0 };
	int r = find_tool_rule(d, &x);

	return r < 0 ? r : add_tool_rule(d, &x);
}

/* --- the rule that is for exactly that ----------------------------------------------------------------------------- */

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* Removes an element of a list in brackets with one comma: the one after it, or the one before the last
 * element. */
static int cut_name_in_brackets(struct edit *d, const struct tool_at *x)
{
	const struct ynode *n = x->names->items[x->name];
	size_t at = 0, end;
	int r = edit_offset(d, n, &at);

	if (r < 0)
		return r;
	end = at + strlen(n->text) + (n->quoted ? 2 : 0);
	if (end > d->len || memcmp(d->text + at + n->quoted, n->text, strlen(n->text)) != 0)
		return edit_cannot(d, n->line, "its position cannot be determined");
	if (x->name + 1 == x->names->n) {
		while (at && is_blank(d->text[at - 1]))
			at--;
		if (!at || d->text[at - 1] != ',')
			return edit_cannot(d, n->line, "the list is not written in one line");
		at--;
	} else {
		while (end < d->len && is_blank(d->text[end]))
			end++;
		if (end == d->len || d->text[end] != ',')
			return edit_cannot(d, n->line, "the list is not written in one line");
		for (end++; end < d->len && is_blank(d->text[end]);)
			end++;
	}
	return edit_splice(d, at, end - at, "");
}

static int cut_name_line(struct edit *d, const struct tool_at *x)
{
	autobuf struct buf before = BUF_INIT;
	const struct ynode *n = x->names->items[x->name];
	int r = edit_margin(d, n, true, &before);

	d->cut_from = n->line;
	d->cut_to = n->end_line;
	return r;
}

int edit_turn_tool(struct edit *d)
{
	struct tool_at x = { 0 };
	int r = find_tool_rule(d, &x);

	if (r < 0 || !x.names)
		return r < 0 ? r : edit_cannot(d, d->ed->entry_line, NO_TOOL);
	if (x.names->kind == YNODE_TEXT || x.names->n == 1)
		return edit_word(d, x.key, "ask", "allow");
	r = x.names->flow ? cut_name_in_brackets(d, &x) : cut_name_line(d, &x);
	r = r < 0 ? r : add_tool_rule(d, &x);
	if (r < 0)
		return r;
	ynode_free(edit_take_out(x.names, x.name));
	return 0;
}

int edit_turn_apply(struct edit *d)
{
	struct ynode *apply = edit_child(d->tree, "apply");

	if (!apply || apply->kind != YNODE_TEXT || !str_eq(apply->text, "ask"))
		return edit_cannot(d, 1, "the file does not contain 'apply: ask'");
	return edit_word(d, apply, "ask", "allow");
}
