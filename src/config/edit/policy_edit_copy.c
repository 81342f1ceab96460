/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a rule for one host and port from one for many: duplicates its lines after it, with that host and port, and adds one entry.
 * The rest of the rule (terms, other entries, comments) then exists twice. No other byte of the file may change
 * (policy_edit.E1).
 */
#include "config/edit/policy_edit_int.h"

#include "base/cleanup.h"
#include "base/str.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of the rule's lines that differ in the copy. */
struct change {
	size_t at, len;
	struct buf text;
};

struct copy {
	struct ynode *list, *rule, *entries;
	size_t at, entry;
	struct change changes[3];
	size_t n;
};

static void copy_release(struct copy *c)
{
	for (size_t i = 0; i < c->n; i++)
		buf_release(&c->changes[i].text);
}

static struct change *add_change(struct copy *c, size_t at, size_t len)
{
	struct change *x = &c->changes[c->n++];

	*x = (struct change){ .at = at, .len = len };
	return x;
}

/* The position and length of a scalar, or of a list in brackets on one line. */
static int node_extent(struct edit *d, const struct ynode *n, size_t *at, size_t *len)
{
	const struct line *l = &d->lines[n->line <= d->n_lines ? n->line : 0];
	const char *end;
	int r = edit_offset(d, n, at);

	if (r < 0)
		return r;
	if (n->kind == YNODE_SEQ && n->flow) {
		end = memchr(d->text + *at, ']', l->at + l->len - *at);
		*len = end ? (size_t)(end - d->text) + 1 - *at : 0;
		return end && d->text[*at] == '['
			       ? 0
			       : edit_cannot(d, n->line, "the list is not written in one line");
	}
	*len = n->kind == YNODE_TEXT ? strlen(n->text) + (n->quoted ? 2 : 0) : 0;
	if (!*len || *at + *len > l->at + l->len ||
	    memcmp(d->text + *at + n->quoted, n->text, strlen(n->text)) != 0)
		return edit_cannot(d, n->line, "its position cannot be determined");
	return 0;
}

static int set_pair_text(struct ynode *map, const char *key, const char *text)
{
	size_t k = edit_place(map, key);
	struct ynode *v = edit_new_text(text);

	if (!v || k == map->n) {
		ynode_free(v);
		return -ENOMEM;
	}
	ynode_free(map->items[k]);
	map->items[k] = v;
	return 0;
}

/* After the domain, as in the text. */
static int insert_port(struct ynode *map, const char *port)
{
	size_t k = edit_place(map, "domain") + 1;
	struct ynode *key, *value;

	if (edit_add_pair(map, "port", port) < 0)
		return -ENOMEM;
	key = map->keys[map->n - 1];
	value = map->items[map->n - 1];
	memmove(map->keys + k + 1, map->keys + k, (map->n - 1 - k) * sizeof(struct ynode *));
	memmove(map->items + k + 1, map->items + k, (map->n - 1 - k) * sizeof(struct ynode *));
	map->keys[k] = key;
	map->items[k] = value;
	return 0;
}

/* Replaces the pattern by the host, and the ports by the port; without ports adds a line. */
static int change_host_and_port(struct edit *d, struct copy *c, const struct buf *before)
{
	const char *key = edit_child(c->rule, "port") ? "port" : "ports";
	struct ynode *domain = edit_child(c->rule, "domain"), *port = edit_child(c->rule, key);
	struct change *x;
	size_t at = 0, len = 0;
	int r;

	if (!domain)
		return edit_cannot(d, c->rule->line, "the rule has no 'domain'");
	r = node_extent(d, domain, &at, &len);
	if (r < 0)
		return r;
	x = add_change(c, at, len);
	edit_add_scalar(&x->text, d->ed->host);
	if (port) {
		r = node_extent(d, port, &at, &len);
		if (r < 0)
			return r;
		x = add_change(c, at, len);
		buf_addf(&x->text, "%u", d->ed->port);
		return 0;
	}
	/* After the line of the domain. */
	x = add_change(c, d->lines[domain->line].at + d->lines[domain->line].len, 0);
	buf_addf(&x->text, "%s%*sport: %u", edit_break(d, domain->line), (int)before->len, "", d->ed->port);
	return 0;
}

/* The entry is for exactly this: it becomes an allow in the copy. */
static int change_entry(struct edit *d, struct copy *c)
{
	struct ynode *el = c->entries->items[c->entry], *ask = edit_child(el, "ask"), *key;
	size_t at = 0, len = 0;
	int r;

	if (!ask || ask->kind != YNODE_TEXT || el->n != 1 || strchr(ask->text, ','))
		return edit_cannot(d, d->ed->entry_line,
				   "more than one thing is asked for there; give each a line of its own");
	key = el->keys[0];
	r = node_extent(d, key, &at, &len);
	if (r == 0)
		buf_adds(&add_change(c, at, len)->text, "allow");
	return r;
}

/* Copies a range of the text with its changes. */
static void write_changed_bytes(const struct edit *d, const struct copy *c, size_t at, size_t end,
				struct buf *out)
{
	while (at < end) {
		const struct change *x = NULL;

		for (size_t i = 0; i < c->n; i++) {
			const struct change *y = &c->changes[i];

			if (y->at >= at && y->at < end && (!x || y->at < x->at))
				x = y;
		}
		buf_add(out, d->text + at, (x ? x->at : end) - at);
		if (!x)
			return;
		buf_add(out, x->text.data, x->text.len);
		/* A change that removes nothing is an insertion before a line break, and has its own
		 * break. */
		at = x->at + x->len;
		if (!x->len) {
			buf_add(out, d->text + at, 1);
			at++;
		}
	}
}

/* Writes the duplicated lines, with the new entry after the one that asks. */
static int write_rule_copy(struct edit *d, struct copy *c)
{
	const struct ynode *by = c->entries->items[c->entry];
	const struct line *last = &d->lines[c->rule->end_line];
	autobuf struct buf before = BUF_INIT, in = BUF_INIT;
	int r = edit_margin(d, c->rule, true, &before);

	r = r < 0 ? r : edit_margin(d, by, true, &in);
	r = r < 0 ? r : change_host_and_port(d, c, &before);
	r = r < 0 || !d->ed->turn ? r : change_entry(d, c);
	if (r < 0)
		return r;
	if (last->end == last->at + last->len)
		return edit_cannot(d, c->rule->end_line, "the file does not end with a line break");
	d->behind = c->rule->end_line;
	write_changed_bytes(d, c, d->lines[c->rule->line].at, d->lines[by->end_line].end, &d->add);
	if (!d->ed->turn) {
		buf_addf(&d->add, "%sallow: ", buf_cstr(&in));
		edit_add_scalar(&d->add, d->ed->entry);
		buf_adds(&d->add, edit_break(d, by->end_line));
	}
	write_changed_bytes(d, c, d->lines[by->end_line].end, last->end, &d->add);
	return 0;
}

/* In the copy's list: adds one entry, or changes one word. */
static int change_copied_entry(const struct edit *d, struct ynode *list, size_t at)
{
	struct ynode *en;
	int r;

	if (d->ed->turn) {
		en = list->items[at];
		ynode_free(en->keys[0]);
		en->keys[0] = edit_new_text("allow");
		return en->keys[0] ? 0 : -ENOMEM;
	}
	en = ynode_new(YNODE_MAP, 0, 0);
	r = en ? edit_add_pair(en, "allow", d->ed->entry) : -ENOMEM;
	if (r < 0) {
		ynode_free(en);
		return r;
	}
	return edit_insert(list, at + 1, en);
}

/* Makes the same change in the tree. */
static int copy_rule_in_tree(struct edit *d, const struct copy *c)
{
	CLEANUP(ynode_freep) struct ynode *n = ynode_copy(c->rule);
	struct ynode *list = n ? edit_child(n, d->ed->list) : NULL;
	char port[8];
	int r = list ? change_copied_entry(d, list, c->entry) : -ENOMEM;

	if (r < 0)
		return edit_no_memory(d);
	snprintf(port, sizeof(port), "%u", d->ed->port);
	/* At the same place as in the text. */
	r = edit_child(n, "port") || edit_child(n, "ports")
		    ? set_pair_text(n, edit_child(n, "ports") ? "ports" : "port", port)
		    : insert_port(n, port);
	r = r < 0 ? r : set_pair_text(n, "domain", d->ed->host);
	if (r < 0 || edit_insert(c->list, c->at + 1, TAKE_PTR(n)) < 0)
		return edit_no_memory(d);
	return 0;
}

int edit_copy_rule(struct edit *d)
{
	CLEANUP(copy_release) struct copy c = { 0 };
	int r = edit_check_text(d, d->ed->entry, false);

	r = r < 0 ? r : edit_check_host(d, d->ed->host);
	r = r < 0 ? r : edit_find_entry(d, true, &c.list, &c.at, &c.entries, &c.entry);
	if (r < 0 || !c.list || !c.entries)
		return r < 0 ? r : edit_cannot(d, d->ed->rule_line, "there is no rule in that line");
	c.rule = c.list->items[c.at];
	if (c.entries->flow)
		return edit_cannot(d, d->ed->entry_line,
				   "the list is in brackets; write it as lines that begin with '-'");
	if (edit_child(c.entries->items[c.entry], "path"))
		return edit_cannot(d, d->ed->entry_line, "it has a 'path' of its own");
	r = write_rule_copy(d, &c);
	return r < 0 ? r : copy_rule_in_tree(d, &c);
}
