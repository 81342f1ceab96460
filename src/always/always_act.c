/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the acts that a rule can cover from a question. The texts come from a sandbox: anything that is not
 * exactly of the expected form is refused.
 */
#include "always/always.h"

#include "base/cleanup.h"
#include "base/jsonget.h"
#include "base/str.h"
#include "codec/http/urlpath.h"
#include "policy/build.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void always_acts_release(struct always_acts *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->v[i].path);
		free(l->v[i].pattern);
		free(l->v[i].query);
	}
	*l = (struct always_acts){ 0 };
}

static int refuse_no_rule(struct err *e, const char *why)
{
	err_set(e, -EOPNOTSUPP, "%s", why);
	return err_hint(e, -EOPNOTSUPP, "allow it as long as the sandbox lives: --sandbox");
}

static int read_act_host(struct always_act *x, const char *text, uint64_t port, struct err *e)
{
	if (host_canon(text, strlen(text), &x->host, NULL) < 0 || port < 1 || port > 65535)
		return refuse_no_rule(e, "a rule cannot name this host and port");
	snprintf(x->host_text, sizeof(x->host_text), "%s", x->host.text);
	x->port = (uint16_t)port;
	return 0;
}

static int read_act_path(struct always_act *x, const char *text, struct err *e)
{
	autobuf struct buf canon = BUF_INIT;
	struct urlpath u;
	struct slice path, query;

	if (urlpath_canon(text, strlen(text), URLPATH_KEEP_SLASH, &canon, &u, NULL) < 0 || u.slash)
		return refuse_no_rule(
			e, "its path can be read in two ways, so no rule can cover exactly this request");
	path = urlpath_path(&canon, &u);
	query = urlpath_query(&canon, &u);
	if (path.len > PATHPAT_MAX)
		return refuse_no_rule(e, "its path is too long for a rule");
	x->path = strndup(path.len ? path.p : "/", path.len ? path.len : 1);
	x->query = strndup(query.p ? query.p : "", query.len);
	x->pattern = x->path ? strdup(x->path) : NULL;
	return x->path && x->query && x->pattern ? 0 : err_set(e, -ENOMEM, "out of memory");
}

/* Adds a copy of the first act, for the next part of one request. NULL: too many. */
static struct always_act *add_act_copy(struct always_acts *l)
{
	struct always_act *x = &l->v[l->n];

	if (l->n == ALWAYS_ACTS_MAX)
		return NULL;
	if (l->n) {
		*x = l->v[0];
		x->path = l->v[0].path ? strdup(l->v[0].path) : NULL;
		x->pattern = NULL;
		x->query = l->v[0].query ? strdup(l->v[0].query) : NULL;
	}
	l->n++;
	return x;
}

static int refuse_too_many(struct err *e)
{
	return refuse_no_rule(e, "it has more operations or refs than can be written as rules at once");
}

static struct always_act *next_act(struct always_acts *l, size_t *n)
{
	return (*n)++ ? add_act_copy(l) : &l->v[0];
}

/* Length of " (50 times)" at p; 0: no such suffix. Rules do not count uses, so it is skipped. */
static size_t times_suffix_len(const char *p)
{
	size_t n = str_starts(p, " (") ? strspn(p + 2, "0123456789") : 0;

	return n && str_starts(p + 2 + n, " times)") ? n + 9 : 0;
}

/* Reads "a, b (3 times)" up to `end`, one act for each. */
static int read_graphql_fields(struct always_acts *l, size_t *n, unsigned type, const char *p,
			       const char *end, struct err *e)
{
	while (p < end) {
		size_t k = strspn(p, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");
		struct always_act *x = next_act(l, n);

		if (!x)
			return refuse_too_many(e);
		if (!k || k >= sizeof(x->name))
			return refuse_no_rule(e, "a rule cannot name this operation");
		x->act = 1u << type;
		snprintf(x->name, sizeof(x->name), "%.*s", (int)k, p);
		p += k + times_suffix_len(p + k);
		if (p < end && !str_starts(p, ", "))
			return refuse_no_rule(e, "a rule cannot name this operation");
		p += p < end ? 2 : 0;
	}
	return 0;
}

/* Reads "mutation a, b; mutation c; HEADERS". The first part that is no operation ends the list: it describes
 * headers. */
static int read_graphql_acts(struct always_acts *l, const char *what, struct err *e)
{
	static const char *const types[] = { "query ", "mutation ", "subscription " };
	size_t n = 0;
	int r = 0;

	while (r == 0 && *what) {
		const char *end = what + strcspn(what, ";");
		unsigned t = 0;

		while (t < ARRAY_SIZE(types) && !str_starts(what, types[t]))
			t++;
		if (t == ARRAY_SIZE(types))
			break;
		r = read_graphql_fields(l, &n, t, what + strlen(types[t]), end, e);
		what = end;
		if (!str_starts(what, "; "))
			break;
		what += 2;
	}
	return r < 0 || n ? r : refuse_no_rule(e, "its operations cannot be determined");
}

/* Reads "create refs/heads/x". Returns its length; 0: malformed. */
static size_t read_push_ref(struct always_act *x, const char *what)
{
	static const struct {
		const char *word;
		enum policy_push_act act;
	} acts[] = { { "create ", POLICY_PUSH_CREATE },
		     { "push (maybe forced) ", POLICY_PUSH_FORCE },
		     { "push ", POLICY_PUSH_UPDATE },
		     { "delete ", POLICY_PUSH_DELETE } };
	size_t k = 0, word, len;

	while (k < ARRAY_SIZE(acts) && !str_starts(what, acts[k].word))
		k++;
	if (k == ARRAY_SIZE(acts))
		return 0;
	word = strlen(acts[k].word);
	len = strcspn(what + word, ", ;");
	if (!str_starts(what + word, "refs/") || len >= sizeof(x->name))
		return 0;
	x->act = acts[k].act;
	snprintf(x->name, sizeof(x->name), "%.*s", (int)len, what + word);
	return word + len;
}

/* "create refs/heads/x, push (maybe forced) refs/heads/y; headers …" */
static int read_push_refs(struct always_acts *l, const char *what, struct err *e)
{
	size_t n = 0;

	for (;;) {
		struct always_act *x = next_act(l, &n);
		size_t len = x ? read_push_ref(x, what) : 0;

		if (!x)
			return refuse_too_many(e);
		what += len;
		if (len && (!*what || str_starts(what, "; ")))
			return 0;
		if (!len || !str_starts(what, ", "))
			return refuse_no_rule(e, "a rule cannot name this ref");
		what += 2;
	}
}

static int read_git_act(struct always_acts *l, const char *what, struct err *e)
{
	struct always_act *x = &l->v[0];
	struct slice repo = SLICE_NONE;
	enum gitpkt_service s = gitpkt_service(slice_of(x->path), slice_of(x->query), &repo);

	if (s == GITPKT_NONE || s == GITPKT_DUMB || !repo.len || repo.len >= sizeof(x->repo))
		return refuse_no_rule(e, "its repository cannot be determined");
	if (repo.len > 4 && memcmp(repo.p + repo.len - 4, ".git", 4) == 0)
		repo.len -= 4;
	snprintf(x->repo, sizeof(x->repo), "%.*s", (int)repo.len, repo.p);
	if (s == GITPKT_PUSH)
		return read_push_refs(l, what, e);
	return s == GITPKT_REFS_PUSH ? refuse_no_rule(e, "the refs of the push are not known yet") : 0;
}

#define ANY "any" /* replaces a star when a pattern is tried */

/* Reads "api.example.com" or "*.example.com", either with a port. */
static int read_widen_host(struct always_act *x, const char *text, size_t len, uint16_t port, struct err *e)
{
	bool below = len > 2 && memcmp(text, "*.", 2) == 0;
	char name[HOST_MAX + 16];

	if (len > HOST_MAX)
		return refuse_no_rule(e, "the requested rule is not for one host and port");
	snprintf(name, sizeof(name), "%s%.*s", below ? ANY : "", (int)(below ? len - 1 : len),
		 below ? text + 1 : text);
	if (host_port_parse(name, strlen(name), port, &x->host, &x->port, NULL) < 0)
		return refuse_no_rule(e, "the requested rule is not for one host and port");
	snprintf(x->host_text, sizeof(x->host_text), "%s%s", below ? "*" : "",
		 x->host.text + (below ? strlen(ANY) : 0));
	return 0;
}

/* Reads a requested rule in its canonical spelling (config/edit/widen.h): "HOST[:PORT]", "METHOD[,METHOD…]
 * https://HOST[:PORT]/PATH". A person approves the rule itself, so it may be a pattern. */
static int read_widen_rule(struct always_acts *l, const char *what, struct err *e)
{
	struct always_act *x = &l->v[0];
	size_t m = strcspn(what, " "), n;
	autobuf struct buf sample = BUF_INIT;
	const char *url = what + m + (what[m] == ' '), *path;
	bool tls = str_starts(url, "https://"), either = str_starts(url, "http(s)://");

	x->widen = true;
	if (!what[m])
		return read_widen_host(x, what, m, 443, e);
	if (m >= sizeof(x->method) || (!tls && !either && !str_starts(url, "http://")) || strchr(url, ' '))
		return refuse_no_rule(e, "the requested rule does not have a form that can be written");
	x->kind = ALWAYS_HTTP;
	snprintf(x->method, sizeof(x->method), "%.*s", (int)strcspn(what, ", "), what);
	snprintf(x->name, sizeof(x->name), "%.*s", (int)m, what);
	url = strstr(url, "://") + 3;
	n = strcspn(url, "/");
	path = url[n] ? url + n : "/";
	if (pathpat_check(path, strlen(path), NULL) < 0)
		return refuse_no_rule(e, "the path of the requested rule is not valid in a rule");
	pathpat_sample(path, ANY, &sample);
	x->path = buf_take(&sample);
	x->pattern = strdup(path);
	x->query = strdup("");
	if (!x->path || !x->pattern || !x->query)
		return err_set(e, -ENOMEM, "out of memory");
	return read_widen_host(x, url, n, tls ? 443 : 80, e);
}

static int read_request_act(struct always_acts *l, const json_t *ask, enum ask_kind kind, struct err *e)
{
	struct always_act *x = &l->v[0];
	const char *method = jsonget_text(ask, "method");
	int r;

	if (strlen(method) >= sizeof(x->method) || !*method)
		return refuse_no_rule(e, "that is not a method that a rule could be for");
	snprintf(x->method, sizeof(x->method), "%s", method);
	r = read_act_path(x, jsonget_text(ask, "path"), e);
	if (r < 0 || kind == ASK_REQUEST)
		return r;
	return kind == ASK_GRAPHQL ? read_graphql_acts(l, jsonget_text(ask, "what"), e)
				   : read_git_act(l, jsonget_text(ask, "what"), e);
}

static int read_secret_act(struct always_act *x, const json_t *ask, struct err *e)
{
	const char *name = jsonget_text(ask, "what");

	if (!*name || strlen(name) > POLICY_SECRET_MAX)
		return refuse_no_rule(e, "a rule cannot name this secret");
	x->kind = ALWAYS_SECRET;
	snprintf(x->name, sizeof(x->name), "%s", name);
	return read_act_host(x, jsonget_text(ask, "host"),
			     (uint64_t)json_integer_value(json_object_get(ask, "port")), e);
}

int always_acts_read(struct always_acts *l, const json_t *ask, struct err *e)
{
	int kind = ask_kind_parse(jsonget_text(ask, "kind")), r;
	struct always_act *x = add_act_copy(l);

	switch (kind) {
	case ASK_CONNECT:
	case ASK_REQUEST:
	case ASK_GRAPHQL:
	case ASK_GIT:
		x->kind = kind == ASK_CONNECT	? ALWAYS_CONNECT
			  : kind == ASK_REQUEST ? ALWAYS_HTTP
			  : kind == ASK_GRAPHQL ? ALWAYS_GRAPHQL
						: ALWAYS_GIT;
		r = read_act_host(x, jsonget_text(ask, "host"),
				  (uint64_t)json_integer_value(json_object_get(ask, "port")), e);
		return r < 0 || kind == ASK_CONNECT ? r : read_request_act(l, ask, (enum ask_kind)kind, e);
	case ASK_SECRET:
		return read_secret_act(x, ask, e);
	case ASK_WIDEN:
		return read_widen_rule(l, jsonget_text(ask, "what"), e);
	default:
		return refuse_no_rule(e, "a policy file has no rules for questions of this kind");
	}
}

void always_act_decide(const struct policy *p, const struct always_act *x, struct policy_verdict *ret)
{
	const struct policy_target t = { .name = &x->host, .port = x->port };
	struct policy_push push = { .ref = slice_of(x->name), .act = (enum policy_push_act)x->act };
	struct graphql_doc doc = { .n_ops = 1, .n_fields = 1 };
	const struct graphql_doc *docs[] = { &doc };
	struct policy_request q = { .method = slice_of(x->method), .is_body_known = true };

	if (x->kind == ALWAYS_CONNECT || x->kind == ALWAYS_SECRET) {
		policy_connect(p, &t, ret);
		return;
	}
	q.path = slice_of(x->path);
	q.query = slice_of(x->query);
	if (x->kind == ALWAYS_GRAPHQL) {
		while (!(x->act & 1u << doc.ops[0].type))
			doc.ops[0].type++;
		doc.ops[0].n_fields = 1;
		doc.fields[0] = slice_of(x->name);
		q.gql = docs;
		q.n_gql = 1;
	}
	if (x->kind == ALWAYS_GIT && x->act) {
		q.push = &push;
		q.n_push = 1;
	}
	policy_request(p, &t, &q, ret);
}

void always_act_text(const struct always_act *x, struct buf *out)
{
	const char *const acts[] = { [POLICY_PUSH_CREATE] = "create",
				     [POLICY_PUSH_UPDATE] = "update",
				     [POLICY_PUSH_DELETE] = "delete",
				     [POLICY_PUSH_FORCE] = "force" };

	if (x->kind == ALWAYS_GRAPHQL)
		buf_addf(out, "%s %s",
			 x->act & 1   ? "query"
			 : x->act & 2 ? "mutation"
				      : "subscription",
			 x->name);
	else if (x->kind == ALWAYS_GIT && !x->act)
		buf_addf(out, "fetch %s", x->repo + (x->repo[0] == '/'));
	else if (x->kind == ALWAYS_GIT)
		buf_addf(out, "push %s %s %s", x->repo + (x->repo[0] == '/'), x->name, acts[x->act]);
	else if (x->kind == ALWAYS_SECRET)
		buf_addf(out, "with the secret %s", x->name);
	else if (x->kind == ALWAYS_HTTP)
		buf_addf(out, "%s %s", x->widen ? x->name : x->method, x->pattern);
}

void always_act_describe(const struct always_act *x, struct buf *out)
{
	autobuf struct buf b = BUF_INIT;

	buf_addf(&b, "%s:%u ", x->host_text, x->port);
	always_act_text(x, &b);
	if (b.len && b.data[b.len - 1] == ' ')
		b.data[--b.len] = '\0';
	str_add_safe(out, buf_cstr(&b), b.len, false);
}
