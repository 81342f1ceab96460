/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Edits of rules on the network: their entries, the rules themselves, their secrets. No byte of the file may
 * change but those that policy_edit.E1 names.
 */
#include "config/edit/policy_edit_int.h"

#include "base/cleanup.h"
#include "base/str.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NO_RULE "there is no rule in that line"
#define NO_ENTRY "there is no entry in that line that asks"
#define ONE_LINE "several are in that line; give each a line of its own"

/* --- finding --------------------------------------------------------------------------------------------------- */

/* The one element that begins in that line; `lines`: the list must be in block style. */
static int find_element(struct edit *d, const struct ynode *list, unsigned line, bool lines, size_t *ret)
{
	size_t found = 0;

	for (size_t i = 0; list && list->kind == YNODE_SEQ && i < list->n; i++) {
		if (list->items[i]->line == line) {
			*ret = i;
			found++;
		}
	}
	if (!found)
		return 0;
	if (found > 1)
		return edit_cannot(d, line, ONE_LINE);
	if (lines && list->flow)
		return edit_cannot(d, line, "the list is in brackets; write it as lines that begin with '-'");
	if (lines && list->items[*ret]->flow)
		return edit_cannot(d, line, "it is in braces; write it as lines, one for each key");
	if (edit_has_literal(list->items[*ret]))
		return edit_cannot(d, line, "it contains a text of several lines");
	return 1;
}

/* Finds the rule that begins in the given line, under allow: or ask:. */
static int find_rule_by_line(struct edit *d, bool lines, const char **ret_key, struct ynode **ret_list,
			     size_t *ret)
{
	static const char *const keys[] = { "allow", "ask" };

	for (size_t k = 0; k < ARRAY_SIZE(keys); k++) {
		struct ynode *list = edit_child(edit_section(d), keys[k]);
		int r = find_element(d, list, d->ed->rule_line, lines, ret);

		if (r < 0)
			return r;
		if (r == 1) {
			*ret_key = keys[k];
			*ret_list = list;
			return 0;
		}
	}
	return edit_cannot(d, d->ed->rule_line, NO_RULE);
}

/* Does the element ask by a text in that line? */
static bool element_asks_in(const struct ynode *el, unsigned line)
{
	const struct ynode *ask = el->kind == YNODE_MAP ? ynode_get(el, "ask") : NULL;

	if (!ask)
		return false;
	if (ask->kind == YNODE_TEXT)
		return ask->line == line;
	for (size_t i = 0; i < ask->n; i++) {
		if (ask->items[i]->line == line)
			return true;
	}
	return false;
}

int edit_find_entry(struct edit *d, bool lines, struct ynode **ret_rules, size_t *ret_rule,
		    struct ynode **ret_list, size_t *ret)
{
	struct ynode *rules = NULL, *list;
	const char *key;
	size_t at = 0, found = 0;
	int r = find_rule_by_line(d, lines, &key, &rules, &at);

	if (r < 0 || !rules)
		return r < 0 ? r : edit_cannot(d, d->ed->rule_line, NO_RULE);
	list = edit_child(rules->items[at], d->ed->list);
	if (!list || list->kind != YNODE_SEQ)
		return edit_cannot(d, d->ed->entry_line, "there is no list in that line");
	for (size_t i = 0; i < list->n; i++) {
		if (d->ed->entry_line ? element_asks_in(list->items[i], d->ed->entry_line)
				      : i + 1 == list->n) {
			*ret = i;
			found++;
		}
	}
	if (!found)
		return edit_cannot(d, d->ed->entry_line, NO_ENTRY);
	if (found > 1)
		return edit_cannot(d, d->ed->entry_line, ONE_LINE);
	if (edit_has_literal(list->items[*ret]))
		return edit_cannot(d, d->ed->entry_line, "it contains a text of several lines");
	*ret_rules = rules;
	*ret_rule = at;
	*ret_list = list;
	return 0;
}

static int find_asking_entry(struct edit *d, struct ynode **ret_list, size_t *ret)
{
	struct ynode *rules = NULL;
	size_t at = 0;

	return edit_find_entry(d, false, &rules, &at, ret_list, ret);
}

/* --- texts ------------------------------------------------------------------------------------------------------ */

int edit_check_host(struct edit *d, const char *s)
{
	static const char may[] = "abcdefghijklmnopqrstuvwxyz0123456789.-:_";

	s += d->ed->pattern && str_starts(s, "*.") ? 2 : 0;
	if (!*s || strspn(s, may) != strlen(s))
		return err_set(d->e, -EOPNOTSUPP, "the host name is not valid in a rule");
	return 0;
}

/* --- the ways ------------------------------------------------------------------------------------------------ */

/* Flow style: inserts the new element before the one that asks. The tree does not know where that one ends,
 * and order is irrelevant. */
static int add_entry_in_brackets(struct edit *d, const struct ynode *by, const char *path)
{
	autobuf struct buf b = BUF_INIT;
	size_t at = 0;
	int r = edit_offset(d, by, &at);

	buf_addf(&b, "{allow: \"%s\"", d->ed->entry);
	if (path)
		buf_addf(&b, ", path: \"%s\"", path);
	buf_adds(&b, "}, ");
	if (r == 0 && buf_error(&b))
		return edit_no_memory(d);
	return r < 0 ? r : edit_splice(d, at, 0, buf_cstr(&b));
}

/* Block style: adds the new element as lines after the one that asks. */
static int add_entry_in_lines(struct edit *d, const struct ynode *by, const char *path)
{
	autobuf struct buf before = BUF_INIT;
	const char *nl;
	int r = edit_margin(d, by, true, &before);

	if (r < 0)
		return r;
	d->behind = by->end_line;
	nl = edit_break(d, d->behind);
	buf_add(&d->add, before.data, before.len);
	buf_adds(&d->add, "allow: ");
	edit_add_scalar(&d->add, d->ed->entry);
	buf_adds(&d->add, nl);
	if (!path)
		return 0;
	buf_addf(&d->add, "%*spath: ", (int)before.len, "");
	edit_add_scalar(&d->add, path);
	buf_adds(&d->add, nl);
	return 0;
}

/* The endpoint of the entry that asks, if it names one. */
static int entry_path(struct edit *d, const struct ynode *el, const char **ret)
{
	const struct ynode *path = ynode_get(el, "path");

	*ret = path ? path->text : NULL;
	if (path && path->kind != YNODE_TEXT)
		return edit_cannot(d, path->line, "'path' is not a text");
	return path ? edit_check_text(d, path->text, true) : 0;
}

int edit_add_entry(struct edit *d)
{
	struct ynode *list = NULL, *n;
	const char *path = NULL;
	size_t at = 0;
	int r = edit_check_text(d, d->ed->entry, d->ed->pattern);

	r = r < 0 ? r : find_asking_entry(d, &list, &at);
	if (r < 0 || !list)
		return r < 0 ? r : edit_cannot(d, d->ed->entry_line, NO_ENTRY);
	r = entry_path(d, list->items[at], &path);
	if (r == 0)
		r = list->flow ? add_entry_in_brackets(d, list->items[at], path)
			       : add_entry_in_lines(d, list->items[at], path);
	if (r < 0)
		return r;
	n = ynode_new(YNODE_MAP, 0, 0);
	r = n ? edit_add_pair(n, "allow", d->ed->entry) : -ENOMEM;
	r = r < 0 || !path ? r : edit_add_pair(n, "path", path);
	if (r < 0) {
		ynode_free(n);
		return edit_no_memory(d);
	}
	return edit_insert(list, at + !list->flow, n) < 0 ? edit_no_memory(d) : 0;
}

int edit_turn_entry(struct edit *d)
{
	struct ynode *list = NULL, *el, *ask, *key;
	size_t at = 0;
	int r = find_asking_entry(d, &list, &at);

	if (r < 0 || !list)
		return r < 0 ? r : edit_cannot(d, d->ed->entry_line, NO_ENTRY);
	el = list->items[at];
	ask = edit_child(el, "ask");
	if (!ask)
		return edit_cannot(d, el->line, NO_ENTRY);
	key = el->keys[edit_place(el, "ask")];
	if (ask->kind != YNODE_TEXT || el->n != 1u + (edit_child(el, "path") != NULL))
		return edit_cannot(d, key->line,
				   "more than one thing is asked for there; give each a line of its own");
	if (str_eq(d->ed->list, "graphql") && strchr(ask->text, ','))
		return edit_cannot(
			d, key->line,
			"several operations are asked for in that line; give each a line of its own");
	return edit_word(d, key, "ask", "allow");
}

int edit_turn_secret(struct edit *d)
{
	struct ynode *rules = NULL, *secret, *ask;
	const char *key = NULL;
	size_t at = 0;
	int r = find_rule_by_line(d, false, &key, &rules, &at);

	if (r < 0 || !rules)
		return r < 0 ? r : edit_cannot(d, d->ed->rule_line, NO_RULE);
	secret = edit_child(rules->items[at], "secret");
	ask = secret ? edit_child(secret, "ask") : NULL;
	if (!ask || ask->kind != YNODE_TEXT || !str_eq(ask->text, "true"))
		return edit_cannot(d, d->ed->rule_line, "that rule does not ask for a secret");
	return edit_word(d, ask, "true", "false");
}

/* Makes an empty list in place of the null value, or under a new key. */
static struct ynode *make_allow_list(struct ynode *sec)
{
	struct ynode *list = ynode_new(YNODE_SEQ, 0, 0), *key;
	size_t k = edit_place(sec, "allow");

	if (list && k < sec->n) {
		ynode_free(sec->items[k]);
		sec->items[k] = list;
		return list;
	}
	key = list ? edit_new_text("allow") : NULL;
	if (!key) {
		ynode_free(list);
		return NULL;
	}
	return ynode_add(sec, key, list) < 0 ? NULL : list;
}

/* The list is empty or missing: starts it below an empty `allow:`, or after the last line of ask: with a new
 * key. */
static int begin_allow_list(struct edit *d, struct ynode **ret, struct buf *before)
{
	struct ynode *sec = edit_section(d), *list = edit_child(sec, "allow"), *ask = edit_child(sec, "ask");
	size_t k = edit_place(sec, list ? "allow" : "ask");
	const struct ynode *by = k < sec->n ? sec->keys[k] : NULL;
	autobuf struct buf in = BUF_INIT;
	int r;

	if (sec->flow || (list && list->flow))
		return edit_cannot(d, sec->line,
				   "allow: is in brackets; write it as lines that begin with '-'");
	if (!by || (!list && edit_has_literal(ask)))
		return edit_cannot(d, sec->line ? sec->line : 1, "the file has no 'allow:' list; add one");
	if (list && !ynode_is_null(list))
		return edit_cannot(d, by->line, "allow: is not a list");
	r = edit_margin(d, by, false, &in);
	if (r < 0)
		return r;
	d->behind = !list && ask->end_line > by->line ? ask->end_line : by->line;
	if (!list)
		buf_addf(&d->add, "%sallow:%s", buf_cstr(&in), edit_break(d, d->behind));
	buf_addf(before, "%s  - ", buf_cstr(&in));
	*ret = make_allow_list(sec);
	return *ret ? 0 : edit_no_memory(d);
}

/* Finds the list that rules are added to, and the indentation of its elements; creates it if missing. */
static int open_allow_list(struct edit *d, struct ynode **ret, struct buf *before)
{
	struct ynode *list = edit_child(edit_section(d), "allow");
	const struct ynode *last;

	if (!list || list->kind != YNODE_SEQ || list->flow || !list->n)
		return begin_allow_list(d, ret, before);
	last = list->items[list->n - 1];
	if (edit_has_literal(last))
		return edit_cannot(d, last->line, "it contains a text of several lines");
	d->behind = last->end_line;
	*ret = list;
	return edit_margin(d, last, true, before);
}

static void add_rule_key(struct edit *d, const struct buf *before, bool first, const char *key,
			 const char *value)
{
	if (first)
		buf_add(&d->add, before->data, before->len);
	else
		buf_addf(&d->add, "%*s", (int)before->len, "");
	buf_addf(&d->add, "%s: ", key);
	edit_add_scalar(&d->add, value);
	buf_adds(&d->add, edit_break(d, d->behind));
}

/* Adds `http:` with one request to a new rule. */
static int add_rule_http(struct edit *d, const struct buf *before, struct ynode *rule)
{
	struct ynode *key = edit_new_text("http"), *list = ynode_new(YNODE_SEQ, 0, 0),
		     *en = ynode_new(YNODE_MAP, 0, 0);
	int r = key && list && en ? edit_add_pair(en, "allow", d->ed->http) : -ENOMEM;

	if (r < 0) {
		ynode_free(key);
		ynode_free(list);
		ynode_free(en);
		return r;
	}
	r = ynode_add(list, NULL, en);
	if (r < 0) {
		ynode_free(key);
		ynode_free(list);
		return r;
	}
	buf_addf(&d->add, "%*shttp:%s%*s  - allow: ", (int)before->len, "", edit_break(d, d->behind),
		 (int)before->len, "");
	edit_add_scalar(&d->add, d->ed->http);
	buf_adds(&d->add, edit_break(d, d->behind));
	return ynode_add(rule, key, list);
}

int edit_add_rule(struct edit *d)
{
	autobuf struct buf before = BUF_INIT;
	struct ynode *list = NULL, *n;
	const char *key =
		strspn(d->ed->host, "0123456789.") == strlen(d->ed->host) || strchr(d->ed->host, ':')
			? "address"
			: "domain";
	char port[8];
	int r = edit_check_host(d, d->ed->host);

	r = r < 0 || !d->ed->http ? r : edit_check_text(d, d->ed->http, d->ed->pattern);
	r = r < 0 ? r : open_allow_list(d, &list, &before);
	if (r < 0)
		return r;
	snprintf(port, sizeof(port), "%u", d->ed->port);
	n = ynode_new(YNODE_MAP, 0, 0);
	r = n ? edit_add_pair(n, key, d->ed->host) : -ENOMEM;
	r = r < 0 ? r : edit_add_pair(n, "port", port);
	add_rule_key(d, &before, true, key, d->ed->host);
	buf_addf(&d->add, "%*sport: %s%s", (int)before.len, "", port, edit_break(d, d->behind));
	if (r == 0 && d->ed->http)
		r = add_rule_http(d, &before, n);
	if (r < 0) {
		ynode_free(n);
		return edit_no_memory(d);
	}
	return ynode_add(list, NULL, n) < 0 ? edit_no_memory(d) : 0;
}

/* Copies the rule's lines, adjusting only the indentation if the lists are indented differently. */
static void move_rule_lines(struct edit *d, const struct buf *old, const struct buf *new)
{
	for (unsigned i = d->cut_from; i <= d->cut_to; i++) {
		const struct line *l = &d->lines[i];
		const char *p = d->text + l->at;
		size_t n = l->len, in = 0;

		while (in < n && in < old->len && (p[in] == ' ' || (i == d->cut_from && p[in] == '-')))
			in++;
		if (i == d->cut_from)
			buf_add(&d->add, new->data, new->len);
		else if (in == old->len)
			buf_addf(&d->add, "%*s", (int)new->len, "");
		else
			in = 0;
		buf_add(&d->add, p + in, n - in);
		buf_adds(&d->add, edit_break(d, i));
	}
}

int edit_move_rule(struct edit *d)
{
	autobuf struct buf old = BUF_INIT, new = BUF_INIT;
	struct ynode *list = NULL, *to = NULL, *rule;
	const char *key = NULL;
	size_t at = 0, k;
	int r = find_rule_by_line(d, true, &key, &list, &at);

	if (r < 0 || !key || !list)
		return r < 0 ? r : edit_cannot(d, d->ed->rule_line, NO_RULE);
	if (!str_eq(key, "ask"))
		return edit_cannot(d, d->ed->rule_line, "the rule is not under 'ask:'");
	r = edit_margin(d, list->items[at], true, &old);
	r = r < 0 ? r : open_allow_list(d, &to, &new);
	if (r < 0)
		return r;
	rule = list->items[at];
	d->cut_from = rule->line;
	d->cut_to = rule->end_line;
	/* Only in brackets could the next element begin in its last line, and those were refused. */
	move_rule_lines(d, &old, &new);
	rule = edit_take_out(list, at);
	if (list->n == 0) {
		k = edit_place(edit_section(d), "ask");
		ynode_free(edit_section(d)->items[k]);
		edit_section(d)->items[k] = edit_new_text("");
		if (!edit_section(d)->items[k]) {
			edit_section(d)->items[k] = rule;
			return edit_no_memory(d);
		}
	}
	return ynode_add(to, NULL, rule) < 0 ? edit_no_memory(d) : 0;
}
