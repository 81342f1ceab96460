/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses YAML into a small tree with positions, over libyaml (ytree.h). Depth, nodes and keys are bounded.
 * Anchors, aliases, tags and duplicate keys are refused.
 */

#include "config/ytree.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "base/vec.h"
#include "config/unicode.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

struct parse {
	yaml_parser_t p;
	const char *name;
	size_t nodes;
	struct err *e;
};

// NOLINTNEXTLINE(misc-no-recursion): no deeper than YTREE_DEPTH_MAX
void ynode_free(struct ynode *n)
{
	if (!n)
		return;
	for (size_t i = 0; i < n->n; i++) {
		if (n->keys)
			ynode_free(n->keys[i]);
		ynode_free(n->items[i]);
	}
	free(n->text);
	free(n->keys);
	free(n->items);
	free(n);
}

struct ynode *ynode_new(enum ynode_kind kind, unsigned line, unsigned column)
{
	struct ynode *n = calloc(1, sizeof(*n));

	if (n) {
		n->kind = kind;
		n->line = n->end_line = line;
		n->column = column;
	}
	return n;
}

int ynode_add(struct ynode *to, struct ynode *key, struct ynode *value)
{
	if (VEC_DOUBLE(to->items, to->n, VEC_NO_MAX) < 0 ||
	    (key && VEC_DOUBLE(to->keys, to->n, VEC_NO_MAX) < 0)) {
		ynode_free(key);
		ynode_free(value);
		return -ENOMEM;
	}
	if (key)
		to->keys[to->n] = key;
	to->items[to->n++] = value;
	return 0;
}

// NOLINTNEXTLINE(misc-no-recursion): no deeper than YTREE_DEPTH_MAX
struct ynode *ynode_copy(const struct ynode *n)
{
	CLEANUP(ynode_freep) struct ynode *c = ynode_new(n->kind, n->line, n->column);

	if (!c)
		return NULL;
	c->quoted = n->quoted;
	c->flow = n->flow;
	c->end_line = n->end_line;
	if (n->text && !(c->text = strdup(n->text)))
		return NULL;
	for (size_t i = 0; i < n->n; i++) {
		struct ynode *key = n->keys ? ynode_copy(n->keys[i]) : NULL;
		struct ynode *item = ynode_copy(n->items[i]);

		if ((n->keys && !key) || !item) {
			ynode_free(key);
			ynode_free(item);
			return NULL;
		}
		if (ynode_add(c, key, item) < 0)
			return NULL;
	}
	return TAKE_PTR(c);
}

// NOLINTNEXTLINE(misc-no-recursion): no deeper than YTREE_DEPTH_MAX
bool ynode_eq(const struct ynode *a, const struct ynode *b)
{
	if (a->kind != b->kind || a->n != b->n || ynode_is_null(a) != ynode_is_null(b))
		return false;
	if (a->kind == YNODE_TEXT)
		return ynode_is_null(a) || str_eq(a->text, b->text);
	for (size_t i = 0; i < a->n; i++) {
		if (a->kind == YNODE_MAP && !ynode_eq(a->keys[i], b->keys[i]))
			return false;
		if (!ynode_eq(a->items[i], b->items[i]))
			return false;
	}
	return true;
}

const struct ynode *ynode_get(const struct ynode *map, const char *key)
{
	for (size_t i = 0; map->kind == YNODE_MAP && i < map->n; i++) {
		if (str_eq(map->keys[i]->text, key))
			return map->items[i];
	}
	return NULL;
}

bool ynode_is_null(const struct ynode *n)
{
	return n->kind == YNODE_TEXT && !n->quoted &&
	       (n->text[0] == '\0' || str_eq(n->text, "~") || str_eq(n->text, "null"));
}

const char *ynode_kind_name(const struct ynode *n)
{
	if (ynode_is_null(n))
		return "nothing";
	return n->kind == YNODE_MAP ? "a mapping" : n->kind == YNODE_SEQ ? "a list" : "a text";
}

static int yaml_fail_at(struct parse *s, const yaml_mark_t *m, const char *what)
{
	return err_set(s->e, -EINVAL, "%s:%zu:%zu: %s", s->name, m->line + 1, m->column + 1, what);
}

static int yaml_no_memory(struct parse *s)
{
	return err_set(s->e, -ENOMEM, "%s: out of memory", s->name);
}

/* The next event of libyaml; its errors are reworded where people would not understand them. */
static int yaml_next_event(struct parse *s, yaml_event_t *ev)
{
	const char *why;

	if (yaml_parser_parse(&s->p, ev))
		return 0;
	if (s->p.error == YAML_MEMORY_ERROR)
		return yaml_no_memory(s);
	why = s->p.problem ? s->p.problem : "this is not YAML";
	if (strcmp(why, "found character that cannot start any token") == 0)
		why = "a tab or another character that YAML does not allow here; indent with spaces";
	if (s->p.context && strstr(s->p.context, "alias"))
		why = "a text that begins with * needs quotes: \"*.example.com\"";
	return err_set(s->e, -EINVAL, "%s:%zu:%zu: not YAML: %s", s->name, s->p.problem_mark.line + 1,
		       s->p.problem_mark.column + 1, why);
}

static int refuse_yaml_extras(struct parse *s, const yaml_event_t *ev, const yaml_char_t *anchor,
			      const yaml_char_t *tag)
{
	if (anchor)
		return yaml_fail_at(s, &ev->start_mark,
				    "anchors (&name) are not supported in a policy; write it out");
	if (tag)
		return yaml_fail_at(s, &ev->start_mark,
				    "tags (!name) are not supported in a policy; remove it");
	if (s->nodes++ >= YTREE_NODES_MAX)
		return yaml_fail_at(s, &ev->start_mark, "the file has too many entries");
	return 0;
}

/* A scalar; control characters are refused. */
static int read_yaml_text(struct parse *s, const yaml_event_t *ev, struct ynode **ret)
{
	CLEANUP(ynode_freep)
	struct ynode *n =
		ynode_new(YNODE_TEXT, (unsigned)ev->start_mark.line + 1, (unsigned)ev->start_mark.column + 1);
	const char *text = (const char *)ev->data.scalar.value;
	size_t len = ev->data.scalar.length;
	int r = refuse_yaml_extras(s, ev, ev->data.scalar.anchor, ev->data.scalar.tag);

	if (r < 0)
		return r;
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[i];

		if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f)
			return yaml_fail_at(s, &ev->start_mark, "a control character in a text");
	}
	if (!n || !(n->text = strndup(text, len)))
		return yaml_no_memory(s);
	n->quoted = ev->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
	n->end_line = (unsigned)ev->end_mark.line + 1;
	n->flow = ev->data.scalar.style == YAML_LITERAL_SCALAR_STYLE ||
		  ev->data.scalar.style == YAML_FOLDED_SCALAR_STYLE || n->end_line != n->line;
	*ret = TAKE_PTR(n);
	return 0;
}

static int read_yaml_node(struct parse *s, const yaml_event_t *ev, unsigned depth, struct ynode **ret);

/* A key must be a plain text, and new in its mapping. */
static int check_yaml_key(struct parse *s, const struct ynode *map, const struct ynode *key,
			  const yaml_event_t *ev)
{
	char shown[64], text[160];

	if (key->kind != YNODE_TEXT)
		return yaml_fail_at(s, &ev->start_mark, "a key is a plain word");
	if (map->n >= YTREE_KEYS_MAX) /* each one is compared with all before it */
		return yaml_fail_at(s, &ev->start_mark, "a mapping with too many keys");
	for (size_t i = 0; i < map->n; i++) {
		if (!str_eq(map->keys[i]->text, key->text))
			continue;
		snprintf(text, sizeof(text), "'%s' is a duplicate; the first one is in line %u",
			 str_safe(key->text, shown, sizeof(shown)), map->keys[i]->line);
		return yaml_fail_at(s, &ev->start_mark, text);
	}
	return 0;
}

/* Reads one child, with its key in a mapping. 1: read, 0: the end. */
// NOLINTNEXTLINE(misc-no-recursion): no deeper than YTREE_DEPTH_MAX
static int read_yaml_child(struct parse *s, struct ynode *to, unsigned depth)
{
	CLEANUP(yaml_event_delete) yaml_event_t ev = { 0 }, vev = { 0 };
	CLEANUP(ynode_freep) struct ynode *key = NULL;
	CLEANUP(ynode_freep) struct ynode *value = NULL;
	int r = yaml_next_event(s, &ev);

	if (r < 0)
		return r;
	if (ev.type == YAML_SEQUENCE_END_EVENT || ev.type == YAML_MAPPING_END_EVENT) {
		/* In brackets it ends there; otherwise with its last child, because the end mark would
		 * include trailing comments. */
		if (to->flow)
			to->end_line = (unsigned)ev.end_mark.line + 1;
		return 0;
	}
	r = read_yaml_node(s, &ev, depth, to->kind == YNODE_MAP ? &key : &value);
	if (r == 0 && to->kind == YNODE_MAP) {
		r = check_yaml_key(s, to, key, &ev);
		r = r < 0 ? r : yaml_next_event(s, &vev);
		r = r < 0 ? r : read_yaml_node(s, &vev, depth, &value);
	}
	if (r < 0)
		return r;
	if (value && value->end_line > to->end_line)
		to->end_line = value->end_line;
	return ynode_add(to, TAKE_PTR(key), TAKE_PTR(value)) < 0 ? yaml_no_memory(s) : 1;
}

// NOLINTNEXTLINE(misc-no-recursion): no deeper than YTREE_DEPTH_MAX
static int read_yaml_collection(struct parse *s, const yaml_event_t *ev, unsigned depth, struct ynode **ret)
{
	bool map = ev->type == YAML_MAPPING_START_EVENT;
	CLEANUP(ynode_freep)
	struct ynode *n = ynode_new(map ? YNODE_MAP : YNODE_SEQ, (unsigned)ev->start_mark.line + 1,
				    (unsigned)ev->start_mark.column + 1);
	int r = map ? refuse_yaml_extras(s, ev, ev->data.mapping_start.anchor, ev->data.mapping_start.tag)
		    : refuse_yaml_extras(s, ev, ev->data.sequence_start.anchor, ev->data.sequence_start.tag);

	if (r < 0)
		return r;
	if (!n)
		return yaml_no_memory(s);
	n->flow = map ? ev->data.mapping_start.style == YAML_FLOW_MAPPING_STYLE
		      : ev->data.sequence_start.style == YAML_FLOW_SEQUENCE_STYLE;
	if (depth >= YTREE_DEPTH_MAX)
		return yaml_fail_at(s, &ev->start_mark, "nested too deep for a policy");
	while ((r = read_yaml_child(s, n, depth + 1)) > 0)
		;
	if (r == 0)
		*ret = TAKE_PTR(n);
	return r;
}

// NOLINTNEXTLINE(misc-no-recursion): no deeper than YTREE_DEPTH_MAX
static int read_yaml_node(struct parse *s, const yaml_event_t *ev, unsigned depth, struct ynode **ret)
{
	switch (ev->type) {
	case YAML_SCALAR_EVENT:
		return read_yaml_text(s, ev, ret);
	case YAML_MAPPING_START_EVENT:
	case YAML_SEQUENCE_START_EVENT:
		return read_yaml_collection(s, ev, depth, ret);
	case YAML_ALIAS_EVENT:
		return yaml_fail_at(s, &ev->start_mark,
				    "aliases (*name) are not supported in a policy; write it out, or "
				    "put a name that begins with * into quotes: \"*.example.com\"");
	default:
		return yaml_fail_at(s, &ev->start_mark, "a value is missing here");
	}
}

/* Reads the stream and document around the one root node. */
static int read_yaml_document(struct parse *s, struct ynode **ret)
{
	CLEANUP(ynode_freep) struct ynode *root = NULL;
	int r = 0;

	for (bool ended = false; r == 0 && !ended;) {
		CLEANUP(yaml_event_delete) yaml_event_t ev = { 0 };

		r = yaml_next_event(s, &ev);
		if (r < 0)
			return r;
		ended = ev.type == YAML_STREAM_END_EVENT;
		if (ended || ev.type == YAML_STREAM_START_EVENT || ev.type == YAML_DOCUMENT_END_EVENT)
			continue;
		if (ev.type == YAML_DOCUMENT_START_EVENT)
			r = root ? yaml_fail_at(s, &ev.start_mark,
						"a second document (---); a policy is a single document")
				 : 0;
		else
			r = read_yaml_node(s, &ev, 0, &root);
	}
	if (r == 0 && (!root || ynode_is_null(root))) {
		ynode_free(root);
		root = ynode_new(YNODE_MAP, 1, 1);
		r = root ? 0 : yaml_no_memory(s);
	}
	if (r == 0)
		*ret = TAKE_PTR(root);
	return r;
}

int ytree_parse(const char *name, const char *text, size_t len, struct ynode **ret, struct err *e)
{
	struct parse s = { .name = name, .e = e };
	int r = unicode_check_visible(name, text, len, e);

	if (r < 0)
		return r;
	/* Some editors write a byte order mark; the parser would count it as a column of the first line. */
	if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
		text += 3;
		len -= 3;
	}
	if (!yaml_parser_initialize(&s.p))
		return yaml_no_memory(&s);
	yaml_parser_set_encoding(&s.p, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&s.p, (const unsigned char *)text, len);
	r = read_yaml_document(&s, ret);
	yaml_parser_delete(&s.p);
	return r;
}
