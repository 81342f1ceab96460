/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of a rule about single requests:
 *	http:     - allow: GET /repos/x            METHOD[,METHOD…] PATH
 *	graphql:  - allow: mutation addComment      TYPE FIELD[,FIELD…]      (path: /graphql unless named)
 *	git:      - allow: push o/r refs/heads/x    fetch REPO, or push REPO REF [create,update,delete,force]
 * Each may be one text or a list of texts. Under deny:, the texts may omit "deny:".
 */
#include "config/read.h"

#include "base/cleanup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WORDS_MAX 5
#define NOT_THE_FORM 1 /* a result besides 0 and negative errno: the caller knows the expected form */

struct words {
	char *text; /* owned, cut into pieces */
	const char *v[WORDS_MAX];
	size_t n;
};

static void words_release(struct words *w)
{
	free(w->text);
}

static int split_words(struct source *s, const char *text, struct words *w)
{
	char *save = NULL;

	w->text = strdup(text);
	if (!w->text)
		return err_set(s->e, -ENOMEM, "out of memory");
	for (char *p = strtok_r(w->text, " \t\n", &save); p; p = strtok_r(NULL, " \t\n", &save)) {
		if (w->n == WORDS_MAX)
			return NOT_THE_FORM;
		w->v[w->n++] = p;
	}
	return 0;
}

/* One element so far; it becomes one entry or several. */
struct pending {
	struct policy_rule *rule;
	struct policy_entry en;
	const struct ynode *path; /* graphql: */
	int (*add)(struct source *s, const struct ynode *n, struct pending *p, const struct words *w);
	const char *form;
};

static int add_pending_entry(struct source *s, const struct ynode *n, struct pending *p)
{
	p->en.line = n->line;
	return read_wrap(s, n, policy_rule_add_entry(p->rule, &p->en, s->e));
}

/* METHOD[,METHOD…] PATH. */
static int add_http_entry(struct source *s, const struct ynode *n, struct pending *p, const struct words *w)
{
	autofree char *path = NULL;
	int r;

	if (w->n == 1 && w->v[0][0] == '/') {
		read_fail(s, n, "a request is a method and a path");
		return err_hint(s->e, -EINVAL, "* %s for all methods", w->v[0]);
	}
	if (w->n != 2)
		return NOT_THE_FORM;
	p->en.kind = POLICY_HTTP;
	r = method_parse(w->v[0], strlen(w->v[0]), &p->en.methods, s->e);
	r = r < 0 ? r : pathpat_check(w->v[1], strlen(w->v[1]), s->e);
	if (r < 0)
		return read_wrap(s, n, r);
	path = strdup(w->v[1]);
	if (!path)
		return err_set(s->e, -ENOMEM, "out of memory");
	p->en.path = path;
	r = add_pending_entry(s, n, p);
	p->en.path = NULL;
	return r;
}

/* A comma-separated set of words, or "*" for all, as bits. */
static int parse_word_set(struct source *s, const struct ynode *n, const char *text, const char *const *words,
			  size_t n_words, unsigned *ret)
{
	autofree char *copy = strdup(text);
	char *save = NULL;

	if (!copy)
		return err_set(s->e, -ENOMEM, "out of memory");
	*ret = str_eq(text, "*") ? (1u << n_words) - 1 : 0;
	for (char *p = strtok_r(copy, ",", &save); p && !str_eq(text, "*"); p = strtok_r(NULL, ",", &save)) {
		struct ynode word = *n;
		unsigned at = 0;
		int r;

		word.kind = YNODE_TEXT;
		word.text = p;
		r = read_word(s, &word, words, n_words, &at);
		if (r < 0)
			return r;
		*ret |= 1u << at;
	}
	return 0;
}

/* TYPE FIELD[,FIELD…]; one entry for each field. */
static int add_graphql_entries(struct source *s, const struct ynode *n, struct pending *p,
			       const struct words *w)
{
	static const char *const types[] = { "query", "mutation", "subscription" };
	autofree char *fields = NULL;
	const char *path = "/graphql";
	char *save = NULL;
	int r = 0;

	if (w->n != 2)
		return NOT_THE_FORM;
	p->en.kind = POLICY_GRAPHQL;
	r = parse_word_set(s, n, w->v[0], types, ARRAY_SIZE(types), &p->en.acts);
	if (r == 0 && p->path) {
		r = read_text(s, p->path, "a path such as /graphql", &path);
		if (r == 0)
			r = read_wrap(s, p->path, pathpat_check(path, strlen(path), s->e));
	}
	if (r < 0)
		return r;
	fields = strdup(w->v[1]);
	if (!fields)
		return err_set(s->e, -ENOMEM, "out of memory");
	p->en.path = (char *)path;
	for (char *f = strtok_r(fields, ",", &save); r == 0 && f; f = strtok_r(NULL, ",", &save)) {
		p->en.name = f;
		r = add_pending_entry(s, n, p);
	}
	p->en.path = p->en.name = NULL;
	return r;
}

/* "o/r", "/o/r", "o/r.git" → "/o/r" */
static int parse_repo_path(struct source *s, const struct ynode *n, const char *text, char **ret)
{
	size_t len;

	if (str_eq(text, "*")) {
		read_fail(s, n, "* stops at /, and a repository has one in it");
		return err_hint(s->e, -EINVAL, "** for all repositories");
	}
	if (asprintf(ret, "%s%s", text[0] == '/' ? "" : "/", text) < 0) {
		*ret = NULL;
		return err_set(s->e, -ENOMEM, "out of memory");
	}
	len = strlen(*ret);
	if (len > 4 && str_ends(*ret, ".git"))
		(*ret)[len - 4] = '\0';
	return read_wrap(s, n, pathpat_check(*ret, strlen(*ret), s->e));
}

static int set_push_acts(struct source *s, const struct ynode *n, struct pending *p, const struct words *w)
{
	static const char *const acts[] = { "create", "update", "delete", "force" };

	if (w->n == 4)
		return parse_word_set(s, n, w->v[3], acts, ARRAY_SIZE(acts), &p->en.acts);
	/* An allow must name deletion explicitly; a denial covers everything. */
	p->en.acts = POLICY_GIT_PUSH_ALL;
	if (p->en.action == POLICY_ALLOW)
		p->en.acts &= ~(unsigned)POLICY_PUSH_DELETE;
	return 0;
}

/* fetch REPO, or push REPO REF [ACTS]. */
static int add_git_entry(struct source *s, const struct ynode *n, struct pending *p, const struct words *w)
{
	autofree char *repo = NULL;
	autofree char *ref = NULL;
	bool fetch = w->n == 2 && str_eq(w->v[0], "fetch");
	int r;

	if (!fetch && !((w->n == 3 || w->n == 4) && str_eq(w->v[0], "push")))
		return NOT_THE_FORM;
	p->en.kind = POLICY_GIT;
	p->en.acts = POLICY_GIT_FETCH;
	r = fetch ? 0 : set_push_acts(s, n, p, w);
	r = r < 0 ? r : parse_repo_path(s, n, w->v[1], &repo);
	if (r < 0)
		return r;
	if (!fetch && !(ref = strdup(w->v[2])))
		return err_set(s->e, -ENOMEM, "out of memory");
	p->en.path = repo;
	p->en.name = ref;
	r = add_pending_entry(s, n, p);
	p->en.path = p->en.name = NULL;
	return r;
}

static int add_entry_text(struct source *s, const struct ynode *n, void *to)
{
	CLEANUP(words_release) struct words w = { 0 };
	struct pending *p = to;
	const char *text;
	int r = read_text(s, n, p->form, &text);

	r = r ? r : split_words(s, text, &w);
	r = r ? r : p->add(s, n, p, &w);
	return r == NOT_THE_FORM ? read_fail(s, n, "expected %s", p->form) : r;
}

static int entry_key_allow(struct source *s, const struct ynode *n, void *to)
{
	((struct pending *)to)->en.action = POLICY_ALLOW;
	return read_each(s, n, add_entry_text, to);
}

static int entry_key_ask(struct source *s, const struct ynode *n, void *to)
{
	((struct pending *)to)->en.action = POLICY_ASK;
	return read_each(s, n, add_entry_text, to);
}

static int entry_key_deny(struct source *s, const struct ynode *n, void *to)
{
	((struct pending *)to)->en.action = POLICY_DENY;
	return read_each(s, n, add_entry_text, to);
}

static int entry_key_path(struct source *s, const struct ynode *n, void *to)
{
	struct pending *p = to;

	return p->path == n ? 0 : read_fail(s, n, "only 'graphql' has a 'path' of its own");
}

static const struct key entry_keys[] = {
	{ "allow", entry_key_allow },
	{ "ask", entry_key_ask },
	{ "deny", entry_key_deny },
	{ "path", entry_key_path },
};

static int read_entry_element(struct source *s, const struct ynode *n, void *to)
{
	struct pending *p = to;

	if (n->kind == YNODE_TEXT && p->rule->action == POLICY_DENY)
		return entry_key_deny(s, n, p);
	if (n->kind == YNODE_TEXT) {
		read_fail(s, n, "say whether that is allowed: allow, ask or deny");
		return err_hint(s->e, -EINVAL, "- allow: %.100s", n->text);
	}
	p->path = p->add == add_graphql_entries ? ynode_get(n, "path") : NULL;
	return read_map(s, n, "a request", entry_keys, ARRAY_SIZE(entry_keys), p);
}

static int read_entries(struct source *s, const struct ynode *n, struct pending *p)
{
	size_t before = p->rule->n_entries;
	int r = read_each(s, n, read_entry_element, p);

	if (r == 0 && p->rule->n_entries == before)
		return read_fail(s, n, "the list is empty; remove the key to have no such rules");
	return r;
}

int read_http(struct source *s, const struct ynode *n, void *rule)
{
	struct pending p = { .rule = rule,
			     .add = add_http_entry,
			     .form = "a method and a path: GET /repos/**" };

	return read_entries(s, n, &p);
}

int read_graphql(struct source *s, const struct ynode *n, void *rule)
{
	struct pending p = { .rule = rule,
			     .add = add_graphql_entries,
			     .form = "an operation and its fields: mutation addComment,addReaction" };

	return read_entries(s, n, &p);
}

int read_git(struct source *s, const struct ynode *n, void *rule)
{
	struct pending p = {
		.rule = rule,
		.add = add_git_entry,
		.form = "'fetch OWNER/REPO' or 'push OWNER/REPO refs/heads/NAME [create,update]'"
	};

	return read_entries(s, n, &p);
}
