/* SPDX-License-Identifier: Apache-2.0 */
#include "config/yaml.h"

#include "base/cleanup.h"
#include "base/str.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <yaml.h>

static void node_free(struct yaml_node *n)
{
	if (!n)
		return;
	/* As deep as YAML_DEPTH_MAX. */
	for (size_t i = 0; i < (n->kind == YAML_MAP ? 2 * n->n : n->n); i++)
		node_free(n->items[i]);
	free(n->items);
	free(n->text);
	free(n);
}

static inline void node_freep(struct yaml_node **n)
{
	node_free(*n);
}

void yaml_release(struct yaml *y)
{
	node_free(y->root);
	free(y->file);
	*y = YAML_INIT;
}

int yaml_wrong(const struct yaml *y, const struct yaml_node *n, struct err *e, const char *fmt, ...)
{
	char text[768];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return n ? err_set(e, -EINVAL, "%s:%u:%u: %s", y->file, n->line, n->column, text)
		 : err_set(e, -EINVAL, "%s: %s", y->file, text);
}

/* What is being read. */
struct reader {
	yaml_parser_t p;
	struct yaml *y;
	size_t nodes;
};

static int wrong_at(const struct reader *rd, const yaml_mark_t *m, struct err *e, const char *what)
{
	return err_set(e, -EINVAL, "%s:%zu:%zu: %s", rd->y->file, m->line + 1, m->column + 1, what);
}

static int next_event(struct reader *rd, yaml_event_t *ev, struct err *e)
{
	char what[256];

	if (yaml_parser_parse(&rd->p, ev))
		return 0;
	if (rd->p.error == YAML_MEMORY_ERROR)
		return err_set(e, -ENOMEM, "out of memory");
	snprintf(what, sizeof(what), "this is not YAML: %s",
		 rd->p.problem ? rd->p.problem : "it cannot be read");
	return wrong_at(rd, rd->p.error == YAML_READER_ERROR ? &rd->p.mark : &rd->p.problem_mark, e, what);
}

/* Y1: an anchor or tag on whatever begins here. */
static const char *decoration(const yaml_event_t *ev)
{
	const yaml_char_t *anchor = NULL, *tag = NULL;

	switch (ev->type) {
	case YAML_ALIAS_EVENT:
		return "an alias (*name) is not taken here: write it out";
	case YAML_SCALAR_EVENT:
		anchor = ev->data.scalar.anchor;
		tag = ev->data.scalar.tag;
		break;
	case YAML_SEQUENCE_START_EVENT:
		anchor = ev->data.sequence_start.anchor;
		tag = ev->data.sequence_start.tag;
		break;
	case YAML_MAPPING_START_EVENT:
		anchor = ev->data.mapping_start.anchor;
		tag = ev->data.mapping_start.tag;
		break;
	default:
		break;
	}
	if (anchor)
		return "an anchor (&name) is not taken here: write it out";
	return tag ? "a tag (!name) is not taken here" : NULL;
}

static int add_item(struct yaml_node *to, size_t at, struct yaml_node *item)
{
	/* Room for twice as many each time a power of two is reached. */
	if ((at & (at - 1)) == 0) {
		struct yaml_node **items = realloc(to->items, (at ? 2 * at : 1) * sizeof(*items));

		if (!items)
			return -ENOMEM;
		to->items = items;
	}
	to->items[at] = item;
	return 0;
}

static int read_node(struct reader *rd, yaml_event_t *ev, unsigned depth, struct yaml_node **ret,
		     struct err *e);

static int check_key(const struct reader *rd, const struct yaml_node *map, const struct yaml_node *key,
		     struct err *e)
{
	if (key->kind != YAML_TEXT)
		return yaml_wrong(rd->y, key, e, "a key must be a word");
	for (size_t i = 0; i < map->n; i++) {
		if (str_eq(map->items[2 * i]->text, key->text))
			return yaml_wrong(rd->y, key, e, "'%.64s' stands here twice; the first is in line %u",
					  key->text, map->items[2 * i]->line);
	}
	return 0;
}

/* One key or value, or one item of a list. Takes the event. */
static int read_into(struct reader *rd, struct yaml_node *to, size_t at, yaml_event_t *ev, unsigned depth,
		     struct err *e)
{
	CLEANUP(node_freep) struct yaml_node *item = NULL;
	int r = read_node(rd, ev, depth, &item, e);

	if (r == 0 && to->kind == YAML_MAP && at % 2 == 0)
		r = check_key(rd, to, item, e);
	if (r < 0)
		return r;
	if (add_item(to, at, item) < 0)
		return err_set(e, -ENOMEM, "out of memory");
	item = NULL;
	return 0;
}

static int read_items(struct reader *rd, struct yaml_node *n, unsigned depth, struct err *e)
{
	for (size_t at = 0;; at++) {
		yaml_event_t ev;
		int r = next_event(rd, &ev, e);

		if (r < 0)
			return r;
		if (ev.type == YAML_SEQUENCE_END_EVENT || ev.type == YAML_MAPPING_END_EVENT) {
			yaml_event_delete(&ev);
			return 0;
		}
		r = read_into(rd, n, at, &ev, depth + 1, e);
		/* A key without its value yet is freed by hand: a map counts pairs. */
		if (r < 0 && n->kind == YAML_MAP && at % 2 == 1)
			node_free(n->items[at - 1]);
		if (r < 0)
			return r;
		n->n = n->kind == YAML_MAP ? (at + 1) / 2 : at + 1;
	}
}

static int fill_text(struct yaml_node *n, const yaml_event_t *ev)
{
	n->len = ev->data.scalar.length;
	n->quoted = ev->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
	n->text = malloc(n->len + 1);
	if (!n->text)
		return -ENOMEM;
	memcpy(n->text, ev->data.scalar.value, n->len);
	n->text[n->len] = '\0';
	return 0;
}

/* Deletes the event whatever comes of it. */
static int read_node(struct reader *rd, yaml_event_t *ev, unsigned depth, struct yaml_node **ret,
		     struct err *e)
{
	CLEANUP(node_freep) struct yaml_node *n = calloc(1, sizeof(*n));
	const yaml_mark_t mark = ev->start_mark;
	const char *deco = decoration(ev);
	int r = n ? 0 : err_set(e, -ENOMEM, "out of memory");

	if (r == 0 && deco)
		r = wrong_at(rd, &mark, e, deco);
	if (r == 0 && (depth > YAML_DEPTH_MAX || ++rd->nodes > YAML_NODES_MAX))
		r = wrong_at(rd, &mark, e,
			     depth > YAML_DEPTH_MAX ? "this is nested too deep"
						    : "the file has too much in it");
	if (r == 0) {
		n->line = (uint32_t)mark.line + 1;
		n->column = (uint32_t)mark.column + 1;
		n->kind = ev->type == YAML_SCALAR_EVENT		  ? YAML_TEXT
			  : ev->type == YAML_SEQUENCE_START_EVENT ? YAML_LIST
								  : YAML_MAP;
	}
	if (r == 0 && n->kind == YAML_TEXT && fill_text(n, ev) < 0)
		r = err_set(e, -ENOMEM, "out of memory");
	yaml_event_delete(ev);
	if (r == 0 && n->kind == YAML_TEXT && strlen(n->text) != n->len)
		r = yaml_wrong(rd->y, n, e, "a NUL is not taken here");
	if (r == 0 && n->kind != YAML_TEXT)
		r = read_items(rd, n, depth, e);
	if (r < 0)
		return r;
	*ret = n;
	n = NULL;
	return 0;
}

static int read_stream(struct reader *rd, struct err *e)
{
	for (bool ended = false; !ended;) {
		yaml_event_t ev;
		int r = next_event(rd, &ev, e);

		if (r < 0)
			return r;
		switch (ev.type) {
		case YAML_STREAM_END_EVENT:
			ended = true;
			break;
		case YAML_DOCUMENT_START_EVENT:
			if (rd->y->root)
				r = wrong_at(rd, &ev.start_mark, e,
					     "a second document begins here: one file, one document");
			else if (ev.data.document_start.version_directive ||
				 ev.data.document_start.tag_directives.start !=
					 ev.data.document_start.tag_directives.end)
				r = wrong_at(rd, &ev.start_mark, e, "a directive (%...) is not taken here");
			break;
		case YAML_SCALAR_EVENT:
		case YAML_SEQUENCE_START_EVENT:
		case YAML_MAPPING_START_EVENT:
		case YAML_ALIAS_EVENT:
			r = read_node(rd, &ev, 0, &rd->y->root, e);
			if (r < 0)
				return r;
			continue;
		default:
			break;
		}
		yaml_event_delete(&ev);
		if (r < 0)
			return r;
	}
	return 0;
}

/* A file with only comments has an empty text at its top. */
static void drop_nothing(struct yaml *y)
{
	if (y->root && y->root->kind == YAML_TEXT && y->root->len == 0 && !y->root->quoted) {
		node_free(y->root);
		y->root = NULL;
	}
}

int yaml_parse(struct yaml *ret, const char *file, const char *text, size_t len, struct err *e)
{
	CLEANUP(yaml_release) struct yaml y = YAML_INIT;
	struct reader rd = { .y = &y };
	int r;

	y.file = strdup(file);
	if (!y.file || !yaml_parser_initialize(&rd.p))
		return err_set(e, -ENOMEM, "out of memory");
	yaml_parser_set_encoding(&rd.p, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&rd.p, (const unsigned char *)text, len);
	r = read_stream(&rd, e);
	yaml_parser_delete(&rd.p);
	if (r < 0)
		return r;
	drop_nothing(&y);
	*ret = y;
	y = YAML_INIT;
	return 0;
}

const struct yaml_node *yaml_get(const struct yaml_node *map, const char *key)
{
	for (size_t i = 0; map && map->kind == YAML_MAP && i < map->n; i++) {
		if (str_eq(map->items[2 * i]->text, key))
			return map->items[2 * i + 1];
	}
	return NULL;
}

#define KEYS_MAX 48

static int unknown_key(const struct yaml *y, const struct yaml_node *key, const char *what,
		       const struct yaml_key *keys, size_t n, struct err *e)
{
	const char *names[KEYS_MAX], *near;
	char shown[80];
	int r;

	n = n < KEYS_MAX ? n : KEYS_MAX;
	for (size_t i = 0; i < n; i++)
		names[i] = keys[i].name;
	near = str_nearest(key->text, names, n);
	r = yaml_wrong(y, key, e, "%s has no key '%s'", what, str_safe(key->text, shown, sizeof(shown)));
	if (near)
		return err_hint(e, r, "did you mean '%s'?", near);
	if (e) {
		size_t at = (size_t)snprintf(e->hint, sizeof(e->hint), "it has:");

		for (size_t i = 0; i < n && at < sizeof(e->hint); i++)
			at += (size_t)snprintf(e->hint + at, sizeof(e->hint) - at, " %s", names[i]);
	}
	return r;
}

int yaml_take(const struct yaml *y, const struct yaml_node *n, const char *what, const struct yaml_key *keys,
	      size_t n_keys, void *ctx, struct err *e)
{
	int r = 0;

	if (!n || n->kind != YAML_MAP)
		return yaml_wrong(y, n, e, "%s must be keys with values (key: value)", what);
	for (size_t i = 0; r == 0 && i < n->n; i++) {
		const struct yaml_node *key = n->items[2 * i];
		size_t k = 0;

		while (k < n_keys && !str_eq(keys[k].name, key->text))
			k++;
		r = k == n_keys ? unknown_key(y, key, what, keys, n_keys, e)
				: keys[k].take(ctx, y, n->items[2 * i + 1], e);
	}
	return r;
}

int yaml_each(const struct yaml *y, const struct yaml_node *n, const char *what, bool or_one,
	      int (*take)(void *ctx, const struct yaml *y, const struct yaml_node *v, struct err *e),
	      void *ctx, struct err *e)
{
	int r = 0;

	if (or_one && n->kind != YAML_LIST)
		return take(ctx, y, n, e);
	if (n->kind != YAML_LIST)
		return yaml_wrong(y, n, e, "%s must be a list (lines that begin with -)", what);
	for (size_t i = 0; r == 0 && i < n->n; i++)
		r = take(ctx, y, n->items[i], e);
	return r;
}

int yaml_text(const struct yaml *y, const struct yaml_node *n, const char *what, const char **ret,
	      struct err *e)
{
	if (n->kind != YAML_TEXT)
		return yaml_wrong(y, n, e, "%s must be a text, not %s", what,
				  n->kind == YAML_LIST ? "a list" : "keys with values");
	if (n->len == 0)
		return yaml_wrong(y, n, e, "%s is empty", what);
	*ret = n->text;
	return 0;
}

int yaml_bool(const struct yaml *y, const struct yaml_node *n, const char *what, bool *ret, struct err *e)
{
	if (n->kind == YAML_TEXT && !n->quoted && (str_eq(n->text, "true") || str_eq(n->text, "false"))) {
		*ret = n->text[0] == 't';
		return 0;
	}
	return yaml_wrong(y, n, e, "%s must be true or false", what);
}

int yaml_u64(const struct yaml *y, const struct yaml_node *n, const char *what, uint64_t min, uint64_t max,
	     uint64_t *ret, struct err *e)
{
	uint64_t v;

	if (n->kind != YAML_TEXT || n->quoted || str_to_u64(n->text, &v) < 0 || v < min || v > max)
		return yaml_wrong(y, n, e, "%s must be a number from %llu to %llu", what,
				  (unsigned long long)min, (unsigned long long)max);
	*ret = v;
	return 0;
}

int yaml_one_of(const struct yaml *y, const struct yaml_node *n, const char *what, const char *words,
		struct err *e)
{
	const char *list[32], *near;
	autofree char *copy = strdup(words);
	char *save = NULL, shown[64];
	int k = 0, r;

	if (!copy)
		return err_set(e, -ENOMEM, "out of memory");
	for (char *w = strtok_r(copy, " ", &save); w && k < 32; w = strtok_r(NULL, " ", &save))
		list[k++] = w;
	for (int i = 0; n->kind == YAML_TEXT && i < k; i++) {
		if (str_eq(n->text, list[i]))
			return i;
	}
	if (n->kind != YAML_TEXT)
		return yaml_wrong(y, n, e, "%s must be one of: %s", what, words);
	near = str_nearest(n->text, list, (size_t)k);
	r = yaml_wrong(y, n, e, "%s is '%s', but must be one of: %s", what,
		       str_safe(n->text, shown, sizeof(shown)), words);
	return near ? err_hint(e, r, "did you mean '%s'?", near) : r;
}
