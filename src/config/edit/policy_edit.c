/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Edits a policy file in place (policy_edit.h): splits the text into lines, applies one change to the text
 * and to its tree, and refuses the result unless the new text parses to the new tree (policy_edit.E2).
 */

#include "config/edit/policy_edit.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "config/edit/policy_edit_int.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ENTRY_MAX 600

static void edit_release(struct edit *d)
{
	free(d->lines);
	ynode_free(d->tree);
	buf_release(&d->add);
}

int edit_no_memory(struct edit *d)
{
	return err_set(d->e, -ENOMEM, "out of memory");
}

int edit_cannot(struct edit *d, unsigned line, const char *why)
{
	return err_set(d->e, -EOPNOTSUPP, "%s:%u: %s", d->name, line, why);
}

/* --- lines ----------------------------------------------------------------------------------------------------- */

/* YAML recognises more line breaks than editors do; if the two differ, positions would, too. */
static bool has_odd_breaks(const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)s[i];

		if (c == '\r' && (i + 1 == len || s[i + 1] != '\n'))
			return true;
		if (c == 0xc2 && i + 1 < len && (unsigned char)s[i + 1] == 0x85)
			return true;
		if (c == 0xe2 && i + 2 < len && (unsigned char)s[i + 1] == 0x80 &&
		    ((unsigned char)s[i + 2] == 0xa8 || (unsigned char)s[i + 2] == 0xa9))
			return true;
	}
	return false;
}

/* Finds the lines of the text; libyaml and editors must agree on them. */
static int split_into_lines(struct edit *d)
{
	size_t n = 2, at = 0;

	if (has_odd_breaks(d->text, d->len))
		return edit_cannot(d, 1, "the file has line breaks that are neither LF nor CR LF");
	for (size_t i = 0; i < d->len; i++)
		n += d->text[i] == '\n';
	d->lines = calloc(n + 1, sizeof(*d->lines));
	if (!d->lines)
		return edit_no_memory(d);
	while (at < d->len) {
		const char *nl = memchr(d->text + at, '\n', d->len - at);
		size_t end = nl ? (size_t)(nl - d->text) + 1 : d->len, len = end - at - (nl != NULL);

		if (len && nl && d->text[at + len - 1] == '\r')
			len--;
		d->lines[++d->n_lines] = (struct line){ at, len, end };
		at = end;
	}
	return 0;
}

const char *edit_break(const struct edit *d, unsigned line)
{
	for (unsigned i = line; i >= 1; i--) {
		const struct line *l = &d->lines[i];

		if (l->end > l->at + l->len)
			return l->end - l->at - l->len == 2 ? "\r\n" : "\n";
	}
	return "\n";
}

int edit_margin(struct edit *d, const struct ynode *n, bool dash, struct buf *ret)
{
	const struct line *l = n->line <= d->n_lines ? &d->lines[n->line] : NULL;
	const char *p = l ? d->text + l->at : NULL;
	size_t dashes = 0, want = n->column - 1;

	if (!l || want > l->len)
		return edit_cannot(d, n->line, "its position cannot be determined");
	/* A byte order mark is not a column. */
	if (n->line == 1 && l->len >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0)
		return edit_cannot(d, 1, "the file begins with a byte order mark; remove it");
	for (size_t i = 0; i < want; i++) {
		if (p[i] == '-' && !dashes)
			dashes++;
		else if (p[i] != ' ')
			return edit_cannot(d, n->line,
					   "it is not on a line of its own that begins with spaces");
	}
	if (dashes != dash)
		return edit_cannot(d, n->line,
				   dash ? "the list is not written as lines that begin with '-'"
					: "the key is not on a line of its own");
	buf_add(ret, p, want);
	return 0;
}

/* Positions of nodes count characters, not bytes. */
int edit_offset(struct edit *d, const struct ynode *n, size_t *ret)
{
	const struct line *l = n->line && n->line <= d->n_lines ? &d->lines[n->line] : NULL;
	const char *p = l ? d->text + l->at : NULL;
	size_t at = 0;

	if (l && n->line == 1 && l->len >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0)
		return edit_cannot(d, 1, "the file begins with a byte order mark; remove it");
	for (unsigned left = n->column - 1; l && left && at < l->len; left--) {
		at++;
		while (at < l->len && ((unsigned char)p[at] & 0xc0) == 0x80)
			at++;
		if (left > 1 && at == l->len)
			l = NULL;
	}
	if (!l)
		return edit_cannot(d, n->line, "its position cannot be determined");
	*ret = l->at + at;
	return 0;
}

int edit_splice(struct edit *d, size_t at, size_t len, const char *text)
{
	struct splice *x = &d->splices[d->n_splices];

	if (d->n_splices == SPLICES_MAX || strlen(text) >= sizeof(x->text))
		return err_set(d->e, -EOPNOTSUPP, "it is too long for a rule");
	x->at = at;
	x->len = len;
	memcpy(x->text, text, strlen(text) + 1);
	d->n_splices++;
	return 0;
}

int edit_word(struct edit *d, struct ynode *n, const char *old, const char *now)
{
	size_t at = 0;
	char *word;
	int r = edit_offset(d, n, &at);

	if (r < 0)
		return r;
	at += n->quoted;
	if (at + strlen(old) > d->len || memcmp(d->text + at, old, strlen(old)) != 0 || !str_eq(n->text, old))
		return err_set(d->e, -EOPNOTSUPP, "%s:%u: the word '%s' is not where it was expected",
			       d->name, n->line, old);
	word = strdup(now);
	if (!word)
		return edit_no_memory(d);
	free(n->text);
	n->text = word;
	return edit_splice(d, at, strlen(old), now);
}

/* --- finding --------------------------------------------------------------------------------------------------- */

struct ynode *edit_child(const struct ynode *map, const char *key)
{
	return map ? (struct ynode *)ynode_get(map, key) : NULL;
}

size_t edit_place(const struct ynode *map, const char *key)
{
	size_t i = 0;

	while (i < map->n && !str_eq(map->keys[i]->text, key))
		i++;
	return i;
}

struct ynode *edit_section(const struct edit *d)
{
	struct ynode *egress = edit_child(d->tree, "egress");

	return egress ? egress : d->tree;
}

// NOLINTNEXTLINE(misc-no-recursion): no deeper than YTREE_DEPTH_MAX
bool edit_has_literal(const struct ynode *n)
{
	bool found = n->kind == YNODE_TEXT && n->flow;

	for (size_t i = 0; i < n->n && !found; i++)
		found = edit_has_literal(n->items[i]);
	return found;
}

/* --- the tree as it is to be ------------------------------------------------------------------------------------ */

struct ynode *edit_new_text(const char *s)
{
	struct ynode *n = ynode_new(YNODE_TEXT, 0, 0);

	if (n && !(n->text = strdup(s))) {
		ynode_free(n);
		return NULL;
	}
	return n;
}

int edit_add_pair(struct ynode *map, const char *key, const char *value)
{
	struct ynode *k = edit_new_text(key), *v = edit_new_text(value);

	if (!k || !v) {
		ynode_free(k);
		ynode_free(v);
		return -ENOMEM;
	}
	return ynode_add(map, k, v);
}

int edit_insert(struct ynode *list, size_t at, struct ynode *n)
{
	if (ynode_add(list, NULL, n) < 0)
		return -ENOMEM;
	memmove(list->items + at + 1, list->items + at, (list->n - 1 - at) * sizeof(struct ynode *));
	list->items[at] = n;
	return 0;
}

struct ynode *edit_take_out(struct ynode *list, size_t at)
{
	struct ynode *n = list->items[at];

	memmove(list->items + at, list->items + at + 1, (list->n - 1 - at) * sizeof(struct ynode *));
	list->n--;
	return n;
}

/* --- texts ------------------------------------------------------------------------------------------------------ */

/* policy_edit.E3: only bytes that are safe in every YAML style, and no star unless it is intended. */
int edit_check_text(struct edit *d, const char *s, bool star)
{
	if (strlen(s) > ENTRY_MAX)
		return err_set(d->e, -EOPNOTSUPP, "it is too long for a rule");
	for (const char *p = s; *p; p++) {
		if (*p == '*' && !star)
			return err_set(d->e, -EOPNOTSUPP, "it has a *, which a rule would read as a pattern");
		if (*p < ' ' || *p == '"' || *p == '\\' || (unsigned char)*p >= 0x7f)
			return err_set(d->e, -EOPNOTSUPP, "it has a character that is not valid in a rule");
	}
	return 0;
}

void edit_add_scalar(struct buf *b, const char *s)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/_.-~%+= ";
	bool quote = strspn(s, plain) != strlen(s) || strchr("/_.-~%+= 0123456789", s[0]) ||
		     s[strlen(s) - 1] == ' ';

	buf_addf(b, quote ? "\"%s\"" : "%s", s);
}

/* --- the text as it is to be -------------------------------------------------------------------------------------- */

/* The first splice that begins at or after `at`, and before `end`. */
static const struct splice *next_splice(const struct edit *d, size_t at, size_t end)
{
	const struct splice *found = NULL;

	for (size_t i = 0; i < d->n_splices; i++) {
		const struct splice *x = &d->splices[i];

		if (x->at >= at && x->at < end && (!found || x->at < found->at))
			found = x;
	}
	return found;
}

/* Writes one line with its splices; nothing if it is removed. */
static void write_edited_line(const struct edit *d, unsigned i, struct buf *out)
{
	size_t at = d->lines[i].at, end = d->lines[i].end, from = at;
	const struct splice *x;

	if (d->cut_from && i >= d->cut_from && i <= d->cut_to)
		return;
	/* No two begin at the same place, and none overlap: they are of different nodes. */
	for (; (x = next_splice(d, from, end)); from = x->at + 1) {
		buf_add(out, d->text + at, x->at - at);
		buf_adds(out, x->text);
		at = x->at + x->len;
	}
	buf_add(out, d->text + at, at < end ? end - at : 0);
}

/* Writes the new text. */
static void compose_text(const struct edit *d, struct buf *out)
{
	for (unsigned i = 1; i <= d->n_lines; i++) {
		const struct line *l = &d->lines[i];

		write_edited_line(d, i, out);
		if (i != d->behind)
			continue;
		if (l->end > l->at + l->len || !out->len || out->data[out->len - 1] == '\n') {
			buf_add(out, d->add.data, d->add.len);
		} else {
			/* The file ends without a line break, and stays so. */
			const char *nl = edit_break(d, i);

			buf_adds(out, nl);
			buf_add(out, d->add.data, d->add.len - strlen(nl));
		}
	}
}

/* policy_edit.E2: the new text must parse to exactly the changed tree. */
static int check_result(struct edit *d, const struct buf *out)
{
	CLEANUP(ynode_freep) struct ynode *now = NULL;
	struct err e = ERR_INIT;

	if (buf_error(out) || buf_error(&d->add))
		return edit_no_memory(d);
	if (ytree_parse(d->name, out->data, out->len, &now, &e) < 0 || !ynode_eq(now, d->tree))
		return err_set(d->e, -EOPNOTSUPP,
			       "%s is written in a way that cannot be edited safely; edit it by hand",
			       d->name);
	return 0;
}

int config_edit_policy(const char *name, const char *text, size_t len, const struct policy_edit *ed,
		       struct buf *out, struct err *e)
{
	static int (*const ways[])(struct edit *) = {
		[POLICY_EDIT_ADD_ENTRY] = edit_add_entry,     [POLICY_EDIT_TURN_ENTRY] = edit_turn_entry,
		[POLICY_EDIT_ADD_RULE] = edit_add_rule,	      [POLICY_EDIT_MOVE_RULE] = edit_move_rule,
		[POLICY_EDIT_TURN_SECRET] = edit_turn_secret, [POLICY_EDIT_ADD_TOOL] = edit_add_tool,
		[POLICY_EDIT_TURN_TOOL] = edit_turn_tool,     [POLICY_EDIT_TURN_APPLY] = edit_turn_apply,
		[POLICY_EDIT_COPY_RULE] = edit_copy_rule
	};
	CLEANUP(edit_release) struct edit d = { .name = name, .text = text, .len = len, .ed = ed, .e = e };
	autobuf struct buf made = BUF_INIT;
	int r = ytree_parse(name, text, len, &d.tree, e);

	static_assert(ARRAY_SIZE(ways) == POLICY_EDIT_ACT_COUNT, "one for each");
	if (r == 0 && (d.tree->kind != YNODE_MAP || edit_section(&d)->kind != YNODE_MAP))
		return edit_cannot(&d, 1, "the file has no policy that a rule could be added to");
	r = r < 0 ? r : split_into_lines(&d);
	r = r < 0 ? r : ways[ed->act](&d);
	if (r < 0)
		return r;
	compose_text(&d, &made);
	r = check_result(&d, &made);
	if (r == 0)
		buf_add(out, made.data, made.len);
	return r < 0 ? r : buf_error(out);
}
