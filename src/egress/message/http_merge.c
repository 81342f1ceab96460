/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds out whether a merge names the commit it merges. In doubt it does not: a duplicate member, a parameter
 * in query and body, or an unknown encoding counts as unbound.
 */
#include "egress/message/http_merge.h"

#include "base/cleanup.h"
#include "base/jsonget.h"
#include "base/str.h"
#include "codec/http/http_form.h"

#include <stdio.h>

#define USES_MAX 2
#define ARG "input"
#define PATH_MAX_LEN 4096 /* no person is asked about a longer one */

#define WHICH "a person has to allow a merge, and this one does not say which commit it merges: "
#define SO ", so that nothing else can be merged"
#define NO_SHA WHICH "send the head's \"sha\" in the body" SO
#define NO_HEAD WHICH "send a commit's id as \"head\" in the body, not the name of a branch" SO
#define NO_GITLAB_SHA WHICH "send the head's \"sha\", once, in the query, a form or a JSON body" SO
#define NO_COMMIT_ID \
	WHICH "send the head's \"head_commit_id\" in a JSON body, without merge_when_checks_succeed" SO

static const struct {
	const char *name, *member;
} mutations[] = { { "mergePullRequest", "expectedHeadOid" },
		  { "enqueuePullRequest", "expectedHeadOid" },
		  { "enablePullRequestAutoMerge", "expectedHeadOid" },
		  { "mergeBranch", "head" },
		  { "mergeRequestAccept", "sha" } };

bool merge_is_oid(const char *s)
{
	size_t n = s ? strlen(s) : 0;

	return (n == 40 || n == 64) && strspn(s, "0123456789abcdefABCDEF") == n;
}

static const json_t *find_variable(const json_t *variables, struct slice name)
{
	char key[129];

	if (name.len >= sizeof(key))
		return NULL;
	snprintf(key, sizeof(key), "%.*s", (int)name.len, name.p);
	return json_object_get(variables, key);
}

static bool use_is_bound(const struct graphql_use *u, const char *member, const json_t *variables)
{
	char oid[65];

	switch (u->from) {
	case GRAPHQL_TEXT:
		if (u->text.len >= sizeof(oid))
			return false;
		snprintf(oid, sizeof(oid), "%.*s", (int)u->text.len, u->text.p);
		return merge_is_oid(oid);
	case GRAPHQL_MEMBER:
		return merge_is_oid(json_string_value(find_variable(variables, u->text)));
	case GRAPHQL_ARGUMENT:
		return merge_is_oid(jsonget_text_or_null(find_variable(variables, u->text), member));
	default:
		return false;
	}
}

static bool selects_field(const struct graphql_doc *g, const char *name)
{
	const struct graphql_op *op = &g->ops[g->selected];

	for (unsigned i = 0; i < op->n_fields; i++) {
		if (slice_eq(g->fields[op->first_field + i], name))
			return true;
	}
	return false;
}

bool merge_is_bound(const struct graphql_doc *g, const char *doc, size_t len, const char *op, size_t op_len,
		    const json_t *variables)
{
	struct graphql_use uses[USES_MAX];
	bool merges = false;

	for (size_t i = 0; i < ARRAY_SIZE(mutations); i++) {
		const struct graphql_seek s = { mutations[i].name, ARG, mutations[i].member, uses, USES_MAX };
		int n;

		if (!selects_field(g, mutations[i].name))
			continue;
		n = graphql_uses(doc, len, op, op_len, &s, NULL);
		/* The ask shows that a document merges, not how often. */
		if (n != 1 || merges || !use_is_bound(&uses[0], mutations[i].member, variables))
			return false;
		merges = true;
	}
	return true;
}

bool merge_is_named(const char *doc, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(mutations); i++) {
		if (len && memmem(doc, len, mutations[i].name, strlen(mutations[i].name)))
			return true;
	}
	return false;
}

/* ---- Calls by path. ---- */

/*
 * The path in lower case, without parameters and trailing slashes; "%2F" counts as a slash. Returns the last
 * segment, without its format.
 */
static const char *normalise_path(struct slice path, char text[PATH_MAX_LEN + 1])
{
	bool is_parameter = false;
	size_t n = 0;
	char *last;

	for (size_t i = 0; i < path.len && n < PATH_MAX_LEN; i++) {
		bool is_slash = path.len - i > 2 && strncasecmp(path.p + i, "%2f", 3) == 0;
		char c = path.p[i];

		if (is_slash) {
			c = '/';
			i += 2;
		}
		is_parameter = c == ';' || (is_parameter && c != '/');
		if (!is_parameter)
			text[n++] = (char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
	}
	while (n && text[n - 1] == '/')
		n--;
	text[n] = '\0';
	last = strrchr(text, '/');
	last = last ? last + 1 : text;
	last[strcspn(last, ".")] = '\0';
	return last;
}

bool merge_is_graphql_path(struct slice path)
{
	char text[PATH_MAX_LEN + 1];

	return str_eq(normalise_path(path, text), "graphql");
}

static bool has_media_type(const struct merge_call *c, const char *name)
{
	const char *semi = c->type.len ? memchr(c->type.p, ';', c->type.len) : NULL;
	size_t n = semi ? (size_t)(semi - c->type.p) : c->type.len;

	while (n && (c->type.p[n - 1] == ' ' || c->type.p[n - 1] == '\t'))
		n--;
	return slice_eq_nocase((struct slice){ c->type.p, n }, name);
}

static json_t *load_json_body(const struct merge_call *c)
{
	return json_loadb(c->body.p ? c->body.p : "", c->body.len, JSON_REJECT_DUPLICATES, NULL);
}

/* A server may prefer the query or the body: a member in both is ambiguous. */
static bool body_has_oid(const struct merge_call *c, const char *member)
{
	json_t *o = load_json_body(c);
	bool yes = merge_is_oid(jsonget_text_or_null(o, member));

	json_decref(o);
	return yes && !http_form_has(c->query, member);
}

static bool form_has_oid(struct slice form, const char *name)
{
	autobuf struct buf v = BUF_INIT;

	return http_form_get(form, name, &v) == 1 && strlen(buf_cstr(&v)) == v.len &&
	       merge_is_oid(buf_cstr(&v));
}

static bool is_gitlab_bound(const struct merge_call *c)
{
	bool in_query = http_form_has(c->query, "sha");
	json_t *o;
	bool other;

	if (!in_query && has_media_type(c, "application/x-www-form-urlencoded"))
		return form_has_oid(c->body, "sha");
	if (!in_query)
		return has_media_type(c, "application/json") && body_has_oid(c, "sha");
	o = load_json_body(c);
	other = c->body.len && (!has_media_type(c, "application/json") || !o || json_object_get(o, "sha"));
	json_decref(o);
	return !other && form_has_oid(c->query, "sha");
}

/*
 * Gitea's JSON matches names in any case and takes the last; letters of other scripts may fold to ASCII ones.
 */
static bool is_gitea_bound(const struct merge_call *c)
{
	json_t *o = load_json_body(c), *v;
	bool yes = has_media_type(c, "application/json") && body_has_oid(c, "head_commit_id");
	const char *key;

	json_object_foreach(o, key, v)
	{
		for (const char *p = key; *p; p++)
			yes = yes && (unsigned char)*p < 0x80;
		if (strcasecmp(key, "head_commit_id") == 0)
			yes = yes && str_eq(key, "head_commit_id");
		/* A scheduled merge merges the head of that time. */
		if (strcasecmp(key, "merge_when_checks_succeed") == 0)
			yes = yes && json_is_false(v);
	}
	json_decref(o);
	return yes;
}

/* Does the path end like this? `*` matches one segment. */
static bool path_has_tail(const char *text, const char *tail)
{
	const char *t = text + strlen(text), *p = tail + strlen(tail);

	while (p > tail) {
		const char *end = t;

		if (*--p == '*') {
			while (t > text && t[-1] != '/')
				t--;
			if (t == end)
				return false;
		} else if (t == text || *--t != *p) {
			return false;
		}
	}
	return true;
}

const char *merge_call_lacks(const struct merge_call *c)
{
	char text[PATH_MAX_LEN + 1];

	normalise_path(c->path, text);
	if (path_has_tail(text, "/merge_requests/*/merge") ||
	    path_has_tail(text, "/merge_trains/merge_requests/*"))
		return is_gitlab_bound(c) ? NULL : NO_GITLAB_SHA;
	if (path_has_tail(text, "/pulls/*/merge") && strstr(text, "/api/v1/"))
		return is_gitea_bound(c) ? NULL : NO_COMMIT_ID;
	if (path_has_tail(text, "/pulls/*/merge") &&
	    (strstr(text, "/repos/") || strstr(text, "/repositories/")))
		return body_has_oid(c, "sha") ? NULL : NO_SHA;
	if (path_has_tail(text, "/repos/*/*/merges") || path_has_tail(text, "/repositories/*/merges"))
		return body_has_oid(c, "head") ? NULL : NO_HEAD;
	return NULL;
}
