/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two passes. The first parses the whole document and records the offset of each operation's and fragment's selection
 * set. The second reads the selection sets of the operations again and gathers the fields at the root. It follows
 * each fragment once for each operation, and reads at most GRAPHQL_WALK_MAX tokens in all.
 */
#include "codec/body/graphql.h"

#include "codec/body/graphql_lex.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct fragment {
	struct slice name;
	size_t at;
	unsigned used_by; /* gather.number of the last operation that followed it; 0: none */
};

struct parser {
	struct gql_lex lex;
	struct graphql_doc *doc;
	struct fragment fragments[GRAPHQL_FRAGMENTS_MAX];
	unsigned n_fragments;
	unsigned depth;
	const struct graphql_seek *seek; /* of graphql_uses(); NULL: none */
	unsigned n_uses;
	const char *why; /* static text */
	int code;
};

static int graphql_fail(struct parser *p, int code, const char *why)
{
	if (!p->why) {
		p->why = why;
		p->code = code;
	}
	return p->code;
}

static int next(struct parser *p)
{
	gql_next(&p->lex);
	if (p->lex.token == GQL_BAD)
		return graphql_fail(p, p->lex.too_many ? -E2BIG : -EINVAL, p->lex.why);
	return 0;
}

static int expect(struct parser *p, char punct)
{
	if (!gql_is(&p->lex, punct))
		return graphql_fail(p, -EINVAL, "it does not match the grammar");
	return next(p);
}

static int expect_name(struct parser *p, struct slice *ret)
{
	if (p->lex.token != GQL_NAME)
		return graphql_fail(p, -EINVAL, "a name is missing");
	if (ret)
		*ret = p->lex.text;
	return next(p);
}

static int enter_nesting(struct parser *p)
{
	return ++p->depth > GRAPHQL_DEPTH_MAX ? graphql_fail(p, -E2BIG, "it is nested too deeply") : 0;
}

/* --- values, types, directives ------------------------------------------------------------------------------ */

static int take_value(struct parser *p);

/* "name: value". */
// NOLINTNEXTLINE(misc-no-recursion): enter_nesting() bounds it
static int take_pair(struct parser *p)
{
	int r = expect_name(p, NULL);

	if (r == 0)
		r = expect(p, ':');
	return r < 0 ? r : take_value(p);
}

/* "[value …]", "{name: value …}", both may be empty. */
// NOLINTNEXTLINE(misc-no-recursion): enter_nesting() bounds it
static int take_collection(struct parser *p)
{
	bool list = gql_is(&p->lex, '[');
	int r = enter_nesting(p);

	if (r == 0)
		r = next(p);
	while (r == 0 && !gql_is(&p->lex, list ? ']' : '}'))
		r = list ? take_value(p) : take_pair(p);
	p->depth--;
	return r < 0 ? r : next(p);
}

// NOLINTNEXTLINE(misc-no-recursion): enter_nesting() bounds it
static int take_value(struct parser *p)
{
	int r;

	if (gql_is(&p->lex, '[') || gql_is(&p->lex, '{'))
		return take_collection(p);
	if (gql_is(&p->lex, '$')) {
		r = next(p);
		return r < 0 ? r : expect_name(p, NULL);
	}
	if (p->lex.token != GQL_NAME && p->lex.token != GQL_NUMBER && p->lex.token != GQL_STRING)
		return graphql_fail(p, -EINVAL, "a value is missing");
	return next(p);
}

/* "(name: value …)", optional, but not empty when it is there. */
static int take_arguments(struct parser *p)
{
	int r;

	if (!gql_is(&p->lex, '('))
		return 0;
	r = next(p);
	do {
		if (r == 0)
			r = take_pair(p);
	} while (r == 0 && !gql_is(&p->lex, ')'));
	return r < 0 ? r : next(p);
}

/* Takes the value of the member or of the argument, and sets *u when it is a plain string or a variable. */
// NOLINTNEXTLINE(misc-no-recursion): enter_nesting() bounds it
static int seek_value(struct parser *p, struct graphql_use *u, enum graphql_from variable)
{
	struct slice t = p->lex.text;
	int r;

	if (gql_is(&p->lex, '$')) {
		r = next(p);
		if (r == 0 && p->lex.token == GQL_NAME)
			*u = (struct graphql_use){ variable, p->lex.text };
		return r < 0 ? r : expect_name(p, NULL);
	}
	/* A block string begins with three quotes, so its second byte is a quote: it is no plain string. */
	if (variable == GRAPHQL_MEMBER && p->lex.token == GQL_STRING && t.len > 2 && t.p[1] != '"' &&
	    !memchr(t.p, '\\', t.len))
		*u = (struct graphql_use){ GRAPHQL_TEXT, { t.p + 1, t.len - 2 } };
	return take_value(p);
}

/* Takes "{name: value …}" and sets *u when the member occurs exactly once. */
// NOLINTNEXTLINE(misc-no-recursion): enter_nesting() bounds it
static int seek_member(struct parser *p, struct graphql_use *u)
{
	unsigned times = 0;
	int r = enter_nesting(p);

	if (r == 0)
		r = next(p);
	while (r == 0 && !gql_is(&p->lex, '}')) {
		struct slice name = SLICE_NONE;

		r = expect_name(p, &name);
		if (r == 0)
			r = expect(p, ':');
		if (r == 0 && slice_eq(name, p->seek->member) && ++times == 1)
			r = seek_value(p, u, GRAPHQL_MEMBER);
		else if (r == 0)
			r = take_value(p);
	}
	if (times != 1)
		*u = (struct graphql_use){ 0 };
	p->depth--;
	return r < 0 ? r : next(p);
}

/* Takes one "name: value" of a field that graphql_seek names; *times counts the occurrences of its argument. */
static int seek_pair(struct parser *p, struct graphql_use *u, unsigned *times)
{
	struct slice name = SLICE_NONE;
	int r = expect_name(p, &name);

	if (r == 0)
		r = expect(p, ':');
	if (r < 0)
		return r;
	if (!slice_eq(name, p->seek->arg) || ++*times > 1)
		return take_value(p);
	return gql_is(&p->lex, '{') ? seek_member(p, u) : seek_value(p, u, GRAPHQL_ARGUMENT);
}

/* take_arguments() of a field that graphql_seek names: records one use of it. */
static int seek_arguments(struct parser *p)
{
	struct graphql_use use = { 0 };
	unsigned times = 0;
	int r = 0;

	if (p->n_uses == p->seek->max)
		return graphql_fail(p, -E2BIG, "it uses a field too often");
	if (gql_is(&p->lex, '(')) {
		r = next(p);
		do {
			r = r < 0 ? r : seek_pair(p, &use, &times);
		} while (r == 0 && !gql_is(&p->lex, ')'));
		r = r < 0 ? r : next(p);
	}
	p->seek->v[p->n_uses++] = times == 1 ? use : (struct graphql_use){ 0 };
	return r;
}

static int take_directives(struct parser *p)
{
	int r = 0;

	while (r == 0 && gql_is(&p->lex, '@')) {
		r = next(p);
		if (r == 0)
			r = expect_name(p, NULL);
		if (r == 0)
			r = take_arguments(p);
	}
	return r;
}

/* "Name" or "[Type]", either with an optional "!" after it. */
static int take_type(struct parser *p)
{
	unsigned lists = 0;
	int r = 0;

	for (; r == 0 && gql_is(&p->lex, '['); r = next(p)) {
		if (++lists > GRAPHQL_DEPTH_MAX)
			return graphql_fail(p, -E2BIG, "it is nested too deeply");
	}
	if (r == 0)
		r = expect_name(p, NULL);
	if (r == 0 && gql_is(&p->lex, '!'))
		r = next(p);
	for (; r == 0 && lists; lists--) {
		r = expect(p, ']');
		if (r == 0 && gql_is(&p->lex, '!'))
			r = next(p);
	}
	return r;
}

static int take_variable(struct parser *p)
{
	int r = expect(p, '$');

	if (r == 0)
		r = expect_name(p, NULL);
	if (r == 0)
		r = expect(p, ':');
	if (r == 0)
		r = take_type(p);
	if (r == 0 && gql_is(&p->lex, '=')) {
		r = next(p);
		if (r == 0)
			r = take_value(p);
	}
	return r < 0 ? r : take_directives(p);
}

static int take_variables(struct parser *p)
{
	int r;

	if (!gql_is(&p->lex, '('))
		return 0;
	r = next(p);
	do {
		if (r == 0)
			r = take_variable(p);
	} while (r == 0 && !gql_is(&p->lex, ')'));
	return r < 0 ? r : next(p);
}

/* --- selections --------------------------------------------------------------------------------------------- */

/* The second pass over one operation. Functions that parse a selection get NULL in the first pass and below the root. */
struct gather {
	struct graphql_op *op;
	unsigned number; /* of this walk, from 1, for fragment.used_by */
	unsigned follow[GRAPHQL_FRAGMENTS_MAX];
	unsigned n_follow;
	uint32_t hashes
		[GRAPHQL_FIELDS_MAX]; /* of the operation's fields: 10 times faster to compare than names */
};

static uint32_t hash_of(struct slice s)
{
	uint32_t h = 2166136261u;

	for (size_t i = 0; i < s.len; i++)
		h = (h ^ (uint8_t)s.p[i]) * 16777619u;
	return h;
}

static int gather_field(struct parser *p, struct gather *g, struct slice name)
{
	struct graphql_doc *d = p->doc;
	uint32_t hash = hash_of(name);

	for (unsigned i = 0; i < g->op->n_fields; i++) {
		unsigned at = g->op->first_field + i;

		if (g->hashes[i] != hash || !slice_same(d->fields[at], name))
			continue;
		if (d->times[at] < UINT16_MAX)
			d->times[at]++;
		return 0;
	}
	if (d->n_fields == GRAPHQL_FIELDS_MAX)
		return graphql_fail(p, -E2BIG, "it has too many fields at the root");
	d->times[d->n_fields] = 1;
	d->fields[d->n_fields++] = name;
	g->hashes[g->op->n_fields++] = hash;
	return 0;
}

static int gather_spread(struct parser *p, struct gather *g, struct slice name)
{
	for (unsigned i = 0; i < p->n_fragments; i++) {
		struct fragment *f = &p->fragments[i];

		if (!slice_same(f->name, name))
			continue;
		if (f->used_by != g->number)
			g->follow[g->n_follow++] = i;
		f->used_by = g->number;
		return 0;
	}
	return graphql_fail(p, -EINVAL, "it uses a fragment that it does not define");
}

static int take_set(struct parser *p, struct gather *g);

/* "...Name", "... on Type {}", "... @directive {}". */
// NOLINTNEXTLINE(misc-no-recursion): enter_nesting() bounds it
static int take_spread(struct parser *p, struct gather *g)
{
	struct slice name = SLICE_NONE;
	int r = next(p);

	if (r == 0 && p->lex.token == GQL_NAME && !gql_is_name(&p->lex, "on")) {
		r = expect_name(p, &name);
		if (r == 0 && g)
			r = gather_spread(p, g, name);
		return r < 0 ? r : take_directives(p);
	}
	if (r == 0 && gql_is_name(&p->lex, "on")) {
		r = next(p);
		if (r == 0)
			r = expect_name(p, NULL);
	}
	if (r == 0)
		r = take_directives(p);
	return r < 0 ? r : take_set(p, g);
}

/* "alias: name(arguments) @directives {}". The selection below a field is not at the root, so it is not gathered. */
// NOLINTNEXTLINE(misc-no-recursion): enter_nesting() bounds it
static int take_field(struct parser *p, struct gather *g)
{
	struct slice name = SLICE_NONE;
	int r = expect_name(p, &name);

	if (r == 0 && gql_is(&p->lex, ':')) {
		r = next(p);
		if (r == 0)
			r = expect_name(p, &name);
	}
	if (r == 0 && g)
		r = gather_field(p, g, name);
	if (r == 0)
		r = g && p->seek && slice_eq(name, p->seek->field) ? seek_arguments(p) : take_arguments(p);
	if (r == 0)
		r = take_directives(p);
	if (r == 0 && gql_is(&p->lex, '{'))
		r = take_set(p, NULL);
	return r;
}

// NOLINTNEXTLINE(misc-no-recursion): enter_nesting() bounds it
static int take_set(struct parser *p, struct gather *g)
{
	int r = enter_nesting(p);

	if (r == 0)
		r = expect(p, '{');
	do {
		if (r == 0)
			r = p->lex.token == GQL_SPREAD ? take_spread(p, g) : take_field(p, g);
	} while (r == 0 && !gql_is(&p->lex, '}'));
	if (r == 0)
		r = next(p);
	p->depth--;
	return r;
}

/* --- the document ------------------------------------------------------------------------------------------- */

static size_t offset(const struct parser *p)
{
	return (size_t)(p->lex.text.p - p->lex.s);
}

static const char *const type_names[] = {
	[GRAPHQL_QUERY] = "query",
	[GRAPHQL_MUTATION] = "mutation",
	[GRAPHQL_SUBSCRIPTION] = "subscription",
};
static_assert(sizeof(type_names) / sizeof(type_names[0]) == GRAPHQL_TYPE_COUNT, "each type has a name");

const char *graphql_type_name(enum graphql_type t)
{
	return (unsigned)t < GRAPHQL_TYPE_COUNT ? type_names[t] : "unknown";
}

static int add_op(struct parser *p, enum graphql_type type, struct slice name)
{
	struct graphql_doc *d = p->doc;

	if (!gql_is(&p->lex, '{'))
		return graphql_fail(p, -EINVAL, "an operation has no selection");
	if (d->n_ops == GRAPHQL_OPS_MAX)
		return graphql_fail(p, -E2BIG, "it has too many operations");
	for (unsigned i = 0; i < d->n_ops; i++) {
		if (name.len == 0 || d->ops[i].name.len == 0 || slice_same(name, d->ops[i].name))
			return graphql_fail(p, -EINVAL,
					    "it has several operations, and not all have names of their own");
	}
	d->ops[d->n_ops++] = (struct graphql_op){ .type = type, .name = name, .at = (uint32_t)offset(p) };
	return take_set(p, NULL);
}

static int take_operation(struct parser *p, enum graphql_type type)
{
	struct slice name = SLICE_NONE;
	int r = next(p);

	if (r == 0 && p->lex.token == GQL_NAME)
		r = expect_name(p, &name);
	if (r == 0)
		r = take_variables(p);
	if (r == 0)
		r = take_directives(p);
	return r < 0 ? r : add_op(p, type, name);
}

static int add_fragment(struct parser *p, struct slice name)
{
	if (!gql_is(&p->lex, '{'))
		return graphql_fail(p, -EINVAL, "a fragment has no selection");
	if (p->n_fragments == GRAPHQL_FRAGMENTS_MAX)
		return graphql_fail(p, -E2BIG, "it has too many fragments");
	for (unsigned i = 0; i < p->n_fragments; i++) {
		if (slice_same(name, p->fragments[i].name))
			return graphql_fail(p, -EINVAL, "it defines a fragment twice");
	}
	p->fragments[p->n_fragments++] = (struct fragment){ .name = name, .at = offset(p) };
	return take_set(p, NULL);
}

static int take_fragment(struct parser *p)
{
	struct slice name = SLICE_NONE;
	int r = next(p);

	if (r == 0 && gql_is_name(&p->lex, "on"))
		return graphql_fail(p, -EINVAL, "a fragment has no name");
	if (r == 0)
		r = expect_name(p, &name);
	if (r == 0 && !gql_is_name(&p->lex, "on"))
		return graphql_fail(p, -EINVAL, "a fragment does not name its type");
	if (r == 0)
		r = next(p);
	if (r == 0)
		r = expect_name(p, NULL);
	if (r == 0)
		r = take_directives(p);
	return r < 0 ? r : add_fragment(p, name);
}

static int take_definition(struct parser *p)
{
	if (gql_is(&p->lex, '{'))
		return add_op(p, GRAPHQL_QUERY, SLICE_NONE);
	if (gql_is_name(&p->lex, "fragment"))
		return take_fragment(p);
	for (unsigned t = 0; t < GRAPHQL_TYPE_COUNT; t++) {
		if (gql_is_name(&p->lex, type_names[t]))
			return take_operation(p, (enum graphql_type)t);
	}
	return graphql_fail(p, -EINVAL,
			    "it contains a definition that is neither an operation nor a fragment");
}

static int take_document(struct parser *p)
{
	int r = next(p);

	while (r == 0 && p->lex.token != GQL_END)
		r = take_definition(p);
	if (r == 0 && p->doc->n_ops == 0)
		r = graphql_fail(p, -EINVAL, "it has no operation");
	return r;
}

/* --- the roots ---------------------------------------------------------------------------------------------- */

static int gather_set(struct parser *p, struct gather *g, size_t at)
{
	int r;

	p->lex.at = at;
	p->lex.token = GQL_END;
	r = next(p);
	return r < 0 ? r : take_set(p, g);
}

static int gather_op(struct parser *p, unsigned i, unsigned number)
{
	struct gather g = { .op = &p->doc->ops[i], .number = number };
	int r;

	g.op->first_field = (uint16_t)p->doc->n_fields;
	r = gather_set(p, &g, g.op->at);
	for (unsigned k = 0; r == 0 && k < g.n_follow; k++)
		r = gather_set(p, &g, p->fragments[g.follow[k]].at);
	if (r == 0 && g.op->n_fields == 0)
		r = graphql_fail(p, -EINVAL, "an operation has no field at its root");
	return r;
}

static int select_op(struct parser *p, struct slice name)
{
	struct graphql_doc *d = p->doc;

	if (name.len == 0 && d->n_ops > 1)
		return graphql_fail(p, -EINVAL,
				    "it has several operations, and the request does not select one");
	for (unsigned i = 0; i < d->n_ops; i++) {
		if (name.len && !slice_same(name, d->ops[i].name))
			continue;
		d->selected = (int)i;
		return 0;
	}
	return graphql_fail(p, -EINVAL, "it has no operation with the name in the request");
}

static int parse_document(struct parser *p, struct slice op_name)
{
	int r = take_document(p);

	p->lex.left = GRAPHQL_WALK_MAX;
	for (unsigned i = 0; r == 0 && i < p->doc->n_ops; i++)
		r = gather_op(p, i, i + 1);
	return r < 0 ? r : select_op(p, op_name);
}

static int cannot(const struct parser *p, int r, struct err *e)
{
	return err_set(e, r, "the GraphQL document cannot be judged: %s (byte %zu)", p->why, p->lex.at);
}

int graphql_parse(const char *doc, size_t len, const char *op_name, size_t op_name_len,
		  struct graphql_doc *ret, struct err *e)
{
	struct parser p = { .lex = { .s = doc, .len = len, .left = GRAPHQL_TOKENS_MAX }, .doc = ret };
	int r;

	memset(ret, 0, sizeof(*ret));
	if (len > GRAPHQL_TEXT_MAX)
		return err_set(e, -E2BIG, "the GraphQL document is too long");
	r = parse_document(&p, (struct slice){ op_name, op_name ? op_name_len : 0 });
	if (r == 0)
		return 0;
	memset(ret, 0, sizeof(*ret));
	return cannot(&p, r, e);
}

static int find_uses(struct parser *p, struct slice op_name, const struct graphql_seek *seek)
{
	struct graphql_doc *d = p->doc;
	int r = parse_document(p, op_name);

	if (r < 0)
		return r;
	/* A third walk, over the selected operation only, with a number that no operation of the second pass had. */
	p->seek = seek;
	p->lex.left = GRAPHQL_WALK_MAX;
	d->n_fields = 0;
	d->ops[d->selected].n_fields = 0;
	return gather_op(p, (unsigned)d->selected, GRAPHQL_OPS_MAX + 1);
}

int graphql_uses(const char *doc, size_t len, const char *op_name, size_t op_name_len,
		 const struct graphql_seek *s, struct err *e)
{
	struct parser p = { .lex = { .s = doc, .len = len, .left = GRAPHQL_TOKENS_MAX } };
	int r;

	if (len > GRAPHQL_TEXT_MAX)
		return err_set(e, -E2BIG, "the GraphQL document is too long");
	p.doc = calloc(1, sizeof(*p.doc));
	if (!p.doc)
		return err_set(e, -ENOMEM, "out of memory");
	r = find_uses(&p, (struct slice){ op_name, op_name ? op_name_len : 0 }, s);
	free(p.doc);
	return r < 0 ? cannot(&p, r, e) : (int)p.n_uses;
}
