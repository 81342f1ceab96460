/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads held bodies for the policy: which GraphQL operations, which refs. A body that two servers could read
 * differently is refused (http_hold.B1).
 */
#include "egress/exchange/http_hold.h"

#include "codec/http/http_form.h"
#include "egress/message/http_merge.h"

#include <jansson.h>
#include <stdio.h>

#define BATCH_MAX 32

enum hold_kind { HOLD_PUSH, HOLD_JSON, HOLD_TEXT, HOLD_FORM, HOLD_URL };

struct http_hold {
	enum hold_kind kind;
	struct gitpkt_push push;
	struct policy_push *refs;
	json_t *json;
	struct buf doc, op; /* decoded from a query or form */
	struct graphql_doc *docs[BATCH_MAX];
	size_t n_docs;
	bool unbound; /* one of them merges without naming the commit */
};

void http_hold_free(struct http_hold *h)
{
	if (!h)
		return;
	gitpkt_push_release(&h->push);
	free(h->refs);
	json_decref(h->json);
	buf_release(&h->doc);
	buf_release(&h->op);
	for (size_t i = 0; i < h->n_docs; i++)
		free(h->docs[i]);
	free(h);
}

/*
 * "application/json; charset=utf-8": the type in lower case. Any other parameter may change how the bytes are
 * read: false.
 */
static bool media_type(struct slice v, char *out, size_t size)
{
	const char *semi = memchr(v.p, ';', v.len);
	size_t n = semi ? (size_t)(semi - v.p) : v.len;
	struct slice rest = { v.p + n, v.len - n };

	while (n && (v.p[n - 1] == ' ' || v.p[n - 1] == '\t'))
		n--;
	if (n >= size)
		return false;
	for (size_t i = 0; i < n; i++)
		out[i] = (char)(v.p[i] >= 'A' && v.p[i] <= 'Z' ? v.p[i] + 32 : v.p[i]);
	out[n] = 0;
	while (rest.len && (rest.p[0] == ';' || rest.p[0] == ' ' || rest.p[0] == '\t'))
		rest.p++, rest.len--;
	return rest.len == 0 || slice_eq_nocase(rest, "charset=utf-8") ||
	       slice_eq_nocase(rest, "charset=\"utf-8\"");
}

static const char *hold_graphql_kind(const struct exch *e, enum hold_kind *ret)
{
	struct slice type = http_fields_get(&e->req.fields, "content-type");
	char name[64];

	if (!e->req.has_body) {
		*ret = HOLD_URL;
		return NULL;
	}
	if (!type.p || !media_type(type, name, sizeof(name)))
		return "a GraphQL request needs a Content-Type that says how its body is read";
	if (strcmp(name, "application/json") == 0 || strcmp(name, "application/graphql+json") == 0)
		*ret = HOLD_JSON;
	else if (strcmp(name, "application/graphql") == 0)
		*ret = HOLD_TEXT;
	else if (strcmp(name, "application/x-www-form-urlencoded") == 0)
		*ret = HOLD_FORM;
	else
		return "a GraphQL request of this Content-Type cannot be judged; send application/json";
	return NULL;
}

/* Parameters that a server may take a document from, or select one by. */
static bool query_has_document(struct slice query)
{
	static const char *const list[] = { "query",	  "operationName", "extensions", "id",	     "doc_id",
					    "documentId", "docId",	   "queryId",	 "query_id", "hash",
					    "batch",	  "mutation",	   "operations", "variables" };

	for (size_t i = 0; i < ARRAY_SIZE(list); i++) {
		if (http_form_has(query, list[i]))
			return true;
	}
	return false;
}

static const char *choose_hold_kind(const struct exch *e, enum hold_kind *ret)
{
	struct slice enc = http_fields_get(&e->req.fields, "content-encoding");
	struct slice query = e->req.url.path_len ? urlpath_query(&e->req.target, &e->req.url) : SLICE_NONE;

	if (enc.p && !slice_eq_nocase(enc, "identity"))
		return "a compressed body cannot be judged by this rule; send it without Content-Encoding";
	if (e->verdict.need & POLICY_NEED_PUSH) {
		*ret = HOLD_PUSH;
		return NULL;
	}
	if (e->req.has_body && query_has_document(query))
		return "a GraphQL document both in the query and in the body can be read in two ways";
	return hold_graphql_kind(e, ret);
}

struct http_hold *http_hold_new(const struct exch *e, const char **ret_why)
{
	enum hold_kind kind = HOLD_PUSH;
	struct http_hold *h;

	*ret_why = choose_hold_kind(e, &kind);
	if (*ret_why)
		return NULL;
	h = calloc(1, sizeof(*h));
	if (!h)
		*ret_why = "out of memory";
	else
		h->kind = kind;
	return h;
}

static int hold_error(char why[POLICY_WHY_MAX], int r, const char *text)
{
	snprintf(why, POLICY_WHY_MAX, "%s", text);
	return r;
}

static int hold_feed_push(struct http_hold *h, const struct exch *e, struct policy_request *q,
			  char why[POLICY_WHY_MAX])
{
	struct slice body = http_pipe_peek(&e->up);
	int r = gitpkt_push_feed(&h->push, body.p, body.len);

	if (r < 0)
		return hold_error(why, r, h->push.why ? h->push.why : "the push cannot be read");
	if (r == 0)
		return e->up.eof ? hold_error(why, -EBADMSG, "the push ends before its list of refs does")
				 : 0;
	/*
	 * git's probe for credentials is an empty list and nothing after it; a server may read on where we do
	 * not.
	 */
	if (!h->push.n_commands && (body.len > h->push.size || !e->up.eof))
		return body.len > h->push.size
			       ? hold_error(why, -EBADMSG,
					    "the push names no refs, but has more bytes after the list")
			       : 0;
	h->refs = calloc(h->push.n_commands ? h->push.n_commands : 1, sizeof(*h->refs));
	if (!h->refs)
		return hold_error(why, -ENOMEM, "out of memory");
	for (unsigned i = 0; i < h->push.n_commands; i++) {
		const struct gitpkt_command *c = &h->push.commands[i];

		h->refs[i].ref = c->ref;
		h->refs[i].act = c->is_delete	? POLICY_PUSH_DELETE
				 : c->is_create ? POLICY_PUSH_CREATE
						: POLICY_PUSH_FORCE;
	}
	q->push = h->refs;
	q->n_push = h->push.n_commands;
	return 1;
}

static int hold_add_document(struct http_hold *h, const char *doc, size_t len, const char *op, size_t op_len,
			     const json_t *variables, char why[POLICY_WHY_MAX])
{
	struct err e = ERR_INIT;
	struct graphql_doc *g;
	int r;

	if (h->n_docs >= BATCH_MAX)
		return hold_error(why, -E2BIG, "too many GraphQL documents in one request");
	g = calloc(1, sizeof(*g));
	if (!g)
		return hold_error(why, -ENOMEM, "out of memory");
	h->docs[h->n_docs++] = g;
	r = graphql_parse(doc, len, op, op_len, g, &e);
	if (r < 0)
		snprintf(why, POLICY_WHY_MAX, "%.240s", e.msg);
	else
		h->unbound = h->unbound || !merge_is_bound(g, doc, len, op, op_len, variables);
	return r < 0 ? r : 1;
}

#define OTHER_KEY                                                                                \
	"a GraphQL request has a key beside query, operationName, variables and extensions, by " \
	"which a server might choose another document"

static const char *const plain_keys[] = { "query", "operationName", "variables", "extensions" };

/* Byte for byte: some servers accept "Query" for "query", or an "id" for a document stored earlier. */
static bool is_plain_key(const char *key)
{
	for (size_t i = 0; i < ARRAY_SIZE(plain_keys); i++) {
		if (strcmp(key, plain_keys[i]) == 0)
			return true;
	}
	return false;
}

static int hold_add_json(struct http_hold *h, json_t *o, char why[POLICY_WHY_MAX])
{
	json_t *query = json_object_get(o, "query");
	json_t *op = json_object_get(o, "operationName");
	json_t *more = json_object_get(o, "extensions");
	const char *key;
	json_t *v;

	if (!json_is_object(o))
		return hold_error(why, -EBADMSG, "a GraphQL request is a JSON object or a list of them");
	json_object_foreach(o, key, v)
	{
		if (!is_plain_key(key))
			return hold_error(why, -EBADMSG, OTHER_KEY);
	}
	/* A stored document, selected by its digest, may replace the one in the request. */
	if (more && !json_is_null(more) &&
	    (!json_is_object(more) ||
	     json_object_size(more) != (json_object_get(more, "clientLibrary") != NULL)))
		return hold_error(why, -EBADMSG, "GraphQL extensions can choose another document; send none");
	if (!json_is_string(query))
		return hold_error(
			why, -EBADMSG,
			"a GraphQL request without its document (a persisted query) cannot be judged");
	if (op && !json_is_string(op) && !json_is_null(op))
		return hold_error(why, -EBADMSG, "operationName is not a string");
	return hold_add_document(h, json_string_value(query), json_string_length(query),
				 json_is_string(op) ? json_string_value(op) : NULL,
				 json_is_string(op) ? json_string_length(op) : 0,
				 json_object_get(o, "variables"), why);
}

static int hold_feed_json(struct http_hold *h, struct slice body, char why[POLICY_WHY_MAX])
{
	json_error_t je;
	size_t n;
	int r = 1;

	h->json = json_loadb(body.p ? body.p : "", body.len, JSON_REJECT_DUPLICATES, &je);
	if (!h->json) {
		snprintf(why, POLICY_WHY_MAX, "the body is not unambiguous JSON: %.120s", je.text);
		return -EBADMSG;
	}
	if (!json_is_array(h->json))
		return hold_add_json(h, h->json, why);
	n = json_array_size(h->json);
	if (n == 0)
		return hold_error(why, -EBADMSG, "the GraphQL batch is empty");
	for (size_t i = 0; i < n && r > 0; i++)
		r = hold_add_json(h, json_array_get(h->json, i), why);
	return r;
}

static int hold_feed_form(struct http_hold *h, struct slice form, char why[POLICY_WHY_MAX])
{
	autobuf struct buf variables = BUF_INIT;
	int r = http_form_get(form, "query", &h->doc);

	/* `extensions` can only be read as JSON, so it is not allowed here. */
	if (r >= 0 && http_form_has_other(form, plain_keys, ARRAY_SIZE(plain_keys) - 1))
		return hold_error(why, -EBADMSG, OTHER_KEY);
	if (r == 1)
		r = http_form_get(form, "operationName", &h->op) < 0 ? -EBADMSG : 1;
	if (r == 0)
		return hold_error(
			why, -EBADMSG,
			"a GraphQL request without its document (a persisted query) cannot be judged");
	if (r < 0)
		return hold_error(why, r, "the form can be read in more than one way");
	/* Unreadable variables count as none, so no commit is named. */
	if (http_form_get(form, "variables", &variables) == 1)
		h->json = json_loadb(buf_cstr(&variables), variables.len, JSON_REJECT_DUPLICATES, NULL);
	return hold_add_document(h, buf_cstr(&h->doc), h->doc.len, buf_cstr(&h->op), h->op.len, h->json, why);
}

static int hold_feed_graphql(struct http_hold *h, const struct exch *e, char why[POLICY_WHY_MAX])
{
	struct slice body = http_pipe_peek(&e->up);

	switch (h->kind) {
	case HOLD_JSON:
		return hold_feed_json(h, body, why);
	case HOLD_TEXT:
		return hold_add_document(h, body.p ? body.p : "", body.len, NULL, 0, NULL, why);
	case HOLD_FORM:
		return hold_feed_form(h, body, why);
	default:
		return hold_feed_form(h, urlpath_query(&e->req.target, &e->req.url), why);
	}
}

bool http_hold_is_unbound(const struct http_hold *h)
{
	return h && h->unbound;
}

static bool json_names_merge(const json_t *o)
{
	const json_t *v = json_object_get(o, "query");
	const char *doc = json_string_value(v);

	return doc && merge_is_named(doc, json_string_length(v));
}

/* Except under /graphql, most members called "query" are not GraphQL, and may be asked about as they are. */
static bool body_may_merge(const struct exch *e)
{
	struct slice body = http_pipe_peek(&e->up);
	bool yes = false;
	json_t *o, *v;
	size_t i;

	if (e->req.url.path_len && merge_is_graphql_path(urlpath_path(&e->req.target, &e->req.url)))
		return e->req.has_body || query_has_document(urlpath_query(&e->req.target, &e->req.url));
	o = json_loadb(body.p ? body.p : "", body.len, JSON_REJECT_DUPLICATES, NULL);
	if (!o) {
		/* A server may read either of two duplicate names. */
		o = json_loadb(body.p ? body.p : "", body.len, 0, NULL);
		yes = json_object_get(o, "query") != NULL;
	}
	yes = yes || json_names_merge(o);
	json_array_foreach(o, i, v)
	{
		yes = yes || json_names_merge(v);
	}
	json_decref(o);
	return yes;
}

/* NULL: a person may be asked. */
static const char *why_merge_is_hidden(struct http_hold *h, const struct exch *e, char text[POLICY_WHY_MAX])
{
	struct policy_request q = { 0 };

	if (http_hold_feed(h, e, &q, text) <= 0)
		return text;
	if (q.n_gql != 1 || json_is_array(h->json))
		return "it is a batch; send one document with each request";
	return NULL;
}

bool http_hold_may_ask(const struct exch *e, char why[HTTP_HOLD_WHY_MAX])
{
	char text[POLICY_WHY_MAX] = "it is not whole";
	const char *no = NULL;
	struct http_hold *h;
	bool unbound;

	if (!body_may_merge(e))
		return true;
	h = http_hold_new(e, &no);
	if (h)
		no = why_merge_is_hidden(h, e, text);
	unbound = http_hold_is_unbound(h);
	if (no)
		snprintf(why, HTTP_HOLD_WHY_MAX,
			 "a person has to allow it, and whether it merges cannot be seen: %s", no);
	else if (unbound)
		snprintf(why, HTTP_HOLD_WHY_MAX, "%s", HTTP_HOLD_UNBOUND);
	http_hold_free(h);
	return !no && !unbound;
}

int http_hold_feed(struct http_hold *h, const struct exch *e, struct policy_request *q,
		   char why[POLICY_WHY_MAX])
{
	int r;

	if (h->kind == HOLD_PUSH) {
		r = hold_feed_push(h, e, q, why);
		return r == 0 && http_pipe_len(&e->up) >= EXCH_HOLD_MAX
			       ? hold_error(why, -E2BIG, "the list of refs is too long to be judged")
			       : r;
	}
	if (http_pipe_len(&e->up) > EXCH_HOLD_MAX || (!e->up.eof && http_pipe_len(&e->up) >= EXCH_HOLD_MAX))
		return hold_error(why, -E2BIG,
				  "the body is over 1 MiB, too long to be judged by a GraphQL rule");
	if (!e->up.eof)
		return 0;
	r = hold_feed_graphql(h, e, why);
	q->gql = (const struct graphql_doc *const *)h->docs;
	q->n_gql = h->n_docs;
	return r;
}
