/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verdict of one step's entries on a request: by method and path, by the operations of a GraphQL document, by the act of
 * a git request. Of the matching entries those remain that no other is more specific than, and of those the strictest applies. So two
 * entries that cannot be compared are never decided by chance.
 */
#include "policy/policy_int.h"

#include "base/str.h"

#include <string.h>

/* Iterates over all entries of one kind in a step's rules. */
struct cursor {
	const struct walk *w;
	enum policy_entry_kind kind;
	size_t at_rule, at_entry;
	const struct policy_rule *rule;
};

/* The next entry of the kind; NULL at the end. */
static const struct policy_entry *cursor_next(struct cursor *c)
{
	for (;;) {
		while (c->rule && c->at_entry < c->rule->n_entries) {
			const struct policy_entry *en = &c->rule->entries[c->at_entry++];

			if (en->kind == c->kind)
				return en;
		}
		c->rule = walk_rule(c->w, &c->at_rule);
		c->at_entry = 0;
		if (!c->rule)
			return NULL;
	}
}

/* The subject of a lookup. The kind decides which fields count. */
struct question {
	enum policy_entry_kind kind;
	method_set method;
	struct slice path;    /* GIT: the repository */
	struct slice loosely; /* GIT: the same, as denying entries read it */
	unsigned act;	      /* one bit */
	struct slice name;    /* field, ref */
	const char *within;   /* only entries about no more than this; NULL: all */
};

/* A denying pattern is read generously, a granting one to the letter. */
static bool entry_pattern_matches(const char *pattern, struct slice text, const struct policy_entry *en)
{
	return pathpat_match(pattern, text, en->action == POLICY_ALLOW ? 0 : PATHPAT_LOOSE);
}

/* Does the entry apply to the subject of the lookup? */
static bool entry_applies(const struct policy_entry *en, const struct question *q)
{
	method_set method = en->action == POLICY_ALLOW ? q->method : method_strictly(q->method);

	if (q->kind == POLICY_HTTP)
		return en->methods & method && entry_pattern_matches(en->path, q->path, en) &&
		       (!q->within || pathpat_covers(q->within, en->path));
	if (!(en->acts & q->act) || !(entry_pattern_matches(en->path, q->path, en) ||
				      (en->action != POLICY_ALLOW && q->loosely.len &&
				       entry_pattern_matches(en->path, q->loosely, en))))
		return false;
	return !en->name || entry_pattern_matches(en->name, q->name, en);
}

enum order { WIDER, SAME, NARROWER, OTHER /* neither contains the other */ };

static enum order compare_patterns(const char *a, const char *b)
{
	bool ab, ba;

	if (str_eq(a, b))
		return SAME;
	ab = pathpat_covers(a, b);
	ba = pathpat_covers(b, a);
	return ab ? (ba ? SAME : WIDER) : ba ? NARROWER : OTHER;
}

static bool is_proper_subset(uint64_t a, uint64_t b)
{
	return a != b && (a & ~b) == 0;
}

/* Is `a` more specific than `b`: by path, then by name, then by methods or acts? */
static bool entry_is_narrower(const struct policy_entry *a, const struct policy_entry *b)
{
	enum order o = compare_patterns(a->path, b->path);

	if (o != SAME)
		return o == NARROWER;
	if (a->kind == POLICY_HTTP)
		return is_proper_subset(a->methods, b->methods);
	o = a->name && b->name ? compare_patterns(a->name, b->name) : SAME;
	return o == SAME ? is_proper_subset(a->acts, b->acts) : o == NARROWER;
}

static bool entry_is_beaten(const struct walk *w, const struct policy_entry *en, const struct question *q)
{
	struct cursor c = { .w = w, .kind = q->kind };
	const struct policy_entry *other;

	while ((other = cursor_next(&c))) {
		if (other != en && entry_applies(other, q) && entry_is_narrower(other, en))
			return true;
	}
	return false;
}

static enum found found_from_action(enum policy_action a)
{
	return a == POLICY_ALLOW ? FOUND_ALLOW : a == POLICY_ASK ? FOUND_ASK : FOUND_DENY;
}

/*
 * The strictest of the entries that no other beats. Only an entry that is stricter than the best so far needs to be
 * compared with the others.
 */
static enum found strictest_entry(const struct walk *w, const struct question *q, struct finding *f)
{
	struct cursor c = { .w = w, .kind = q->kind };
	enum found best = FOUND_NOTHING;
	const struct policy_entry *en;

	while ((en = cursor_next(&c))) {
		enum found is = found_from_action(en->action);

		if (is <= best || !entry_applies(en, q) || entry_is_beaten(w, en, q))
			continue;
		best = is;
		f->rule = c.rule;
		f->entry = en;
	}
	return best;
}

void find_http(const struct walk *w, method_set method, struct slice path, const char *within,
	       struct finding *f)
{
	struct question q = { .kind = POLICY_HTTP, .method = method, .path = path, .within = within };

	*f = (struct finding){ 0 };
	f->found = strictest_entry(w, &q, f);
}

/* Ranks results from mild to severe. FOUND_UNNAMED ranks between ask and deny: in enforce it is a denial. */
static unsigned found_severity(enum found f)
{
	static const unsigned of[] = { [FOUND_NOTHING] = 0, [FOUND_ALLOW] = 1,	 [FOUND_NEED] = 2,
				       [FOUND_ASK] = 3,	    [FOUND_UNNAMED] = 4, [FOUND_DENY] = 5 };

	return of[f];
}

static void keep_severer(struct finding *f, const struct finding *one)
{
	if (found_severity(one->found) > found_severity(f->found)) {
		char scope[PATHPAT_MAX + 1];

		memcpy(scope, f->scope, sizeof(scope));
		*f = *one;
		memcpy(f->scope, scope, sizeof(scope));
	}
}

/* Looks one operation up, and keeps the severest result of all. */
static void judge_operation(const struct walk *w, const struct question *q, struct finding *f,
			    const char *what, struct slice name)
{
	struct finding one = { 0 };
	char shown[SLICE_QUOTE_LEN];

	one.found = strictest_entry(w, q, &one);
	if (one.found == FOUND_NOTHING)
		one.found = FOUND_UNNAMED;
	snprintf(one.what, sizeof(one.what), "%s%s%s", what, name.len ? " " : "",
		 slice_quote(name.p, name.len, shown));
	keep_severer(f, &one);
}

/* Do GraphQL entries apply to the path? Matched generously: a look-alike of the endpoint may be the
 * endpoint. */
static bool is_graphql_endpoint(const struct walk *w, struct slice path, struct finding *f)
{
	struct cursor c = { .w = w, .kind = POLICY_GRAPHQL };
	const struct policy_entry *en;

	while ((en = cursor_next(&c))) {
		if (pathpat_match(en->path, path, PATHPAT_LOOSE)) {
			snprintf(f->scope, sizeof(f->scope), "%s", en->path);
			return true;
		}
	}
	return false;
}

/* Judges every root field of the selected operation. */
static void judge_document(const struct walk *w, const struct graphql_doc *g, struct slice path,
			   struct finding *f)
{
	const struct graphql_op *op = &g->ops[g->selected];

	for (unsigned i = 0; i < op->n_fields; i++) {
		struct question q = { .kind = POLICY_GRAPHQL, .path = path, .act = 1u << op->type };

		q.name = g->fields[op->first_field + i];
		judge_operation(w, &q, f, graphql_type_name(op->type), q.name);
	}
}

void find_graphql(const struct walk *w, const struct policy_request *r, struct slice path, struct finding *f)
{
	*f = (struct finding){ 0 };
	if (!is_graphql_endpoint(w, path, f))
		return;
	if (r->n_gql == 0) {
		f->found = r->is_body_known ? FOUND_UNNAMED : FOUND_NEED;
		f->need = POLICY_NEED_GRAPHQL;
		snprintf(f->what, sizeof(f->what), "a body that is not a readable GraphQL request");
	}
	for (size_t i = 0; i < r->n_gql; i++)
		judge_document(w, r->gql[i], path, f);
	if (f->found == FOUND_NOTHING)
		f->found = FOUND_UNNAMED;
}

static bool step_has_git(const struct walk *w)
{
	struct cursor c = { .w = w, .kind = POLICY_GIT };

	return cursor_next(&c) != NULL;
}

/* Could any push be allowed there? For the request that git sends before it pushes. */
static void judge_push_at_all(const struct walk *w, struct slice repo, struct finding *f)
{
	struct cursor c = { .w = w, .kind = POLICY_GIT };
	const struct policy_entry *en;

	f->found = FOUND_UNNAMED;
	snprintf(f->what, sizeof(f->what), "push to that repository");
	while ((en = cursor_next(&c))) {
		if (en->acts & POLICY_GIT_FETCH || en->action == POLICY_DENY ||
		    !entry_pattern_matches(en->path, repo, en))
			continue;
		f->found = FOUND_ALLOW;
		f->rule = c.rule;
		f->entry = en;
		return;
	}
}

/* Judges every command of a push; without the body asks for it. */
static void judge_push(const struct walk *w, const struct policy_request *r, struct slice repo,
		       struct slice loosely, struct finding *f)
{
	if (!r->is_body_known && r->n_push == 0) {
		f->found = FOUND_NEED;
		f->need = POLICY_NEED_PUSH;
		return;
	}
	if (r->n_push == 0)
		judge_push_at_all(w, repo, f);
	for (size_t i = 0; i < r->n_push; i++) {
		struct question q = { .kind = POLICY_GIT, .path = repo, .loosely = loosely };

		q.act = r->push[i].act;
		q.name = r->push[i].ref;
		judge_operation(w, &q, f, "push to", q.name);
	}
}

/* "/o/r.git" and "/o/r" are the same repository. */
static struct slice strip_dot_git(struct slice repo)
{
	if (repo.len > 4 && memcmp(repo.p + repo.len - 4, ".git", 4) == 0)
		repo.len -= 4;
	return repo;
}

/* Other spellings that some server may accept, for denying entries: "/o/r.GIT", "/o/r.git;x". */
static struct slice repo_loosely(struct slice repo)
{
	const char *slash = repo.len ? memrchr(repo.p, '/', repo.len) : NULL;
	size_t from = slash ? (size_t)(slash - repo.p) : 0;
	const char *semi = repo.len ? memchr(repo.p + from, ';', repo.len - from) : NULL;

	if (semi)
		repo.len = (size_t)(semi - repo.p);
	while (repo.len && repo.p[repo.len - 1] == '.')
		repo.len--;
	if (repo.len > 4 && strncasecmp(repo.p + repo.len - 4, ".git", 4) == 0)
		repo.len -= 4;
	return repo;
}

void find_git(const struct walk *w, const struct policy_request *r, struct slice path, struct finding *f)
{
	struct question q = { .kind = POLICY_GIT, .act = POLICY_GIT_FETCH };
	struct slice repo = SLICE_NONE;
	enum gitpkt_service service;

	*f = (struct finding){ 0 };
	if (!step_has_git(w))
		return;
	service = gitpkt_service(path, r->query, &repo);
	if (service == GITPKT_NONE)
		return;
	snprintf(f->scope, sizeof(f->scope), "%.*s/**", (int)(repo.len < 200 ? repo.len : 200), repo.p);
	q.loosely = repo_loosely(repo);
	q.path = repo = strip_dot_git(repo);
	if (service == GITPKT_PUSH) {
		judge_push(w, r, repo, q.loosely, f);
	} else if (service == GITPKT_REFS_PUSH) {
		judge_push_at_all(w, repo, f);
	} else {
		judge_operation(w, &q, f, "fetch", SLICE_NONE);
		/* Files of the old protocol look like any other path: they are treated as such unless an
		 * entry names them. */
		if (service == GITPKT_DUMB && f->found == FOUND_UNNAMED)
			*f = (struct finding){ 0 };
	}
}
