/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/http_ask.h"

#include "egress/asking.h"
#include "egress/http_secret.h"
#include "egress/inspect.h"
#include "policy/build.h"

#include <jansson.h>
#include <stdio.h>

#define TOO_LONG \
	"a person has to allow it, and its body is longer than 1 MiB: nobody could say what was allowed"
#define NO_SHA                                                                                       \
	"a person has to allow a merge, and this one does not say which commit it merges: send the " \
	"head's \"sha\" in the body, so that nothing else can be merged"
#define NO_OID                                                                                   \
	"a person has to allow a merge, and this one does not say which commit it merges: send " \
	"expectedHeadOid, so that nothing else can be merged"
#define HOW \
	"wait and send it again, or ask the person who runs this sandbox; `coffer ask ls` shows what waits"

static bool is_oid(const char *s)
{
	size_t n = s ? strlen(s) : 0;

	return (n == 40 || n == 64) && strspn(s, "0123456789abcdefABCDEF") == n;
}

/* A member of this name, at any depth, that is a commit's id. Depth is bounded by jansson's own limit. */
// NOLINTNEXTLINE(misc-no-recursion): see above
static bool has_oid(const json_t *v, const char *name)
{
	const char *key;
	json_t *m;
	size_t i;

	if (json_is_object(v)) {
		json_object_foreach((json_t *)v, key, m)
		{
			if ((strcmp(key, name) == 0 && is_oid(json_string_value(m))) || has_oid(m, name))
				return true;
		}
	} else if (json_is_array(v)) {
		json_array_foreach(v, i, m)
		{
			if (has_oid(m, name))
				return true;
		}
	}
	return false;
}

/* expectedHeadOid: "…" in the document's own text. */
static bool text_has_oid(struct slice body)
{
	static const char name[] = "expectedHeadOid";
	const char *p = body.p, *end = body.p + body.len;

	while (p && (p = memmem(p, (size_t)(end - p), name, sizeof(name) - 1)) != NULL) {
		char hex[65];
		size_t n = 0;

		p += sizeof(name) - 1;
		while (p < end && strchr(" \t:\\\"", *p) && *p)
			p++;
		while (p < end && n < sizeof(hex) - 1 && strchr("0123456789abcdefABCDEF", *p) && *p)
			hex[n++] = *p++;
		hex[n] = '\0';
		if (is_oid(hex))
			return true;
	}
	return false;
}

/* ".../repos/O/R/pulls/N/merge" */
static bool is_merge_path(struct slice path)
{
	static const char tail[] = "/merge";
	const char *p = path.len ? memmem(path.p, path.len, "/repos/", 7) : NULL;

	return p && memmem(p, path.len - (size_t)(p - path.p), "/pulls/", 7) && path.len > sizeof(tail) - 1 &&
	       memcmp(path.p + path.len - (sizeof(tail) - 1), tail, sizeof(tail) - 1) == 0;
}

/* Q3: why it cannot be asked; NULL: it can. */
static const char *lacks_commit(const struct exch *e)
{
	struct slice body = http_pipe_peek(&e->up);
	struct slice path = urlpath_path(&e->req.target, &e->req.url);
	bool graphql = e->ask_merges;
	json_t *o;
	bool found;

	if (!graphql && !is_merge_path(path))
		return NULL;
	o = json_loadb(body.p ? body.p : "", body.len, JSON_REJECT_DUPLICATES, NULL);
	found = graphql ? has_oid(json_object_get(o, "variables"), "expectedHeadOid") || text_has_oid(body)
			: is_oid(json_string_value(json_object_get(o, "sha")));
	json_decref(o);
	return found ? NULL : graphql ? NO_OID : NO_SHA;
}

static enum askmsg_kind kind_of(const struct exch *e)
{
	const struct policy_entry *en = e->verdict.entry;

	return en && en->kind == POLICY_GRAPHQL ? ASKMSG_GRAPHQL
	       : en && en->kind == POLICY_GIT	? ASKMSG_GIT
						: ASKMSG_REQUEST;
}

static void refuse(struct exch *e, unsigned status, const char *why)
{
	e->gathers = false;
	e->state = EXCH_NEW;
	exch_hold_free(e);
	exch_refuse(e, status, why);
}

static void answered(void *ctx, bool allow, uint64_t ticket, const char *id, const char *why)
{
	struct exch *e = ctx;
	struct inspect *in = e->in;

	runq_enter(&in->q);
	e->asking = NULL;
	e->state = EXCH_NEW;
	exch_hold_free(e);
	if (allow) {
		e->ticket = ticket;
		e->approved = true;
		snprintf(e->ask_id, sizeof(e->ask_id), "%s", id);
		e->verdict.action = POLICY_ALLOW;
		exch_judge(e);
	} else {
		e->verdict.action = POLICY_DENY;
		snprintf(e->verdict.why, sizeof(e->verdict.why), "a person has to allow it: %s%s%s%s", why,
			 id[0] ? " (question " : "", id, id[0] ? ")" : "");
		e->verdict.hint = HOW;
		exch_deny(e);
	}
	runq_leave(&in->q);
}

static bool is_one_of(struct slice name, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (slice_eq(name, list[i]))
			return true;
	}
	return false;
}

/* These change with each try, or say nothing of what is done; unknown ones are bound to the answer. */
static bool is_inert(struct slice name)
{
	static const char *const list[] = { "accept",
					    "accept-charset",
					    "accept-encoding",
					    "accept-language",
					    "connection",
					    "content-length",
					    "content-type",
					    "date",
					    "expect",
					    "host",
					    "keep-alive",
					    "traceparent",
					    "tracestate",
					    "transfer-encoding",
					    "user-agent",
					    "x-request-id",
					    "x-stainless-retry-count" };

	return is_one_of(name, list, ARRAY_SIZE(list));
}

static bool is_credential(struct slice name)
{
	static const char *const parts[] = { "auth", "cookie", "key", "token", "secret", "signature" };

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		if (memmem(name.p, name.len, parts[i], strlen(parts[i])))
			return true;
	}
	return false;
}

#define SHOWN_HEADERS 4
#define SHOWN_VALUE 40

/* Headers may say what is done (X-Amz-Target) and as whom: the first of them in words, all of them by a digest. Names are in lower
 * case. */
static void add_headers(const struct http_fields *f, struct buf *what)
{
	autobuf struct buf all = BUF_INIT;
	char hex[HASH_HEX_LEN + 1];
	unsigned shown = 0;

	for (unsigned i = 0; i < f->n; i++) {
		struct slice name = http_fields_name(f, i), value = http_fields_value(f, i);

		if (is_inert(name))
			continue;
		buf_add(&all, name.p, name.len);
		buf_addc(&all, '\0');
		buf_add(&all, value.p, value.len);
		buf_addc(&all, '\0');
		if (is_credential(name) || name.len > SHOWN_VALUE || value.len > SHOWN_VALUE ||
		    shown++ >= SHOWN_HEADERS)
			continue;
		buf_addf(what, "%s%.*s: %.*s", what->len ? "; " : "", (int)name.len, name.p, (int)value.len,
			 value.p ? value.p : "");
	}
	if (all.len == 0)
		return;
	hash_sha256_hex(all.data, all.len, hex);
	buf_addf(what, "%sheaders %.16s", what->len ? "; " : "", hex);
	if (buf_error(&all))
		what->len = ASKMSG_WHAT_MAX + 1;
}

/* In words, and in what the answer is bound to. */
static void describe(const struct exch *e, struct buf *what)
{
	buf_adds(what, e->ask_what);
	if (e->req.websocket)
		buf_addf(what, "%sopens a websocket, and what goes over it is not seen",
			 what->len ? "; " : "");
	add_headers(&e->req.fields, what);
}

static void ask_now(struct exch *e)
{
	struct slice body = http_pipe_peek(&e->up), type = http_fields_get(&e->req.fields, "content-type");
	const char *why = lacks_commit(e);
	autobuf struct buf what = BUF_INIT;
	char type_text[129];
	struct askmsg m = { .kind = kind_of(e),
			    .port = e->conn->port,
			    .tls = e->conn->tls,
			    .has_body = e->req.has_body,
			    .body_len = body.len,
			    .host = e->conn->host.text,
			    .method = e->req.method,
			    .path = buf_cstr(&e->req.target),
			    .rule = e->verdict.rule_text,
			    .preview = body.p,
			    .preview_len = body.len < ASKMSG_PREVIEW_MAX ? body.len : ASKMSG_PREVIEW_MAX };

	snprintf(type_text, sizeof(type_text), "%.*s", type.p ? (int)type.len : 0, type.p ? type.p : "");
	m.type = type_text;
	describe(e, &what);
	m.what = buf_cstr(&what);
	if (!why && (e->ask_cut || buf_error(&what) || what.len > ASKMSG_WHAT_MAX))
		why = "a person has to allow it, and it does more than anybody can be shown";
	if (!why && e->req.target.len > ASKMSG_PATH_MAX)
		why = "a person has to allow it, and its path is too long to be shown to anybody";
	/* What is cut off would not be bound to the answer. */
	if (!why && type.p && type.len >= sizeof(type_text))
		why = "a person has to allow it, and its Content-Type is too long to be shown to anybody";
	if (why) {
		refuse(e, 403, why);
		return;
	}
	hash_sha256(body.p ? body.p : "", body.len, m.body);
	e->state = EXCH_ASK;
	e->asking = asking_begin(e->in->eg, &m, answered, e, &why);
	if (!e->asking)
		refuse(e, 503, why);
}

void exch_ask(struct exch *e)
{
	if (!e->req.has_body || e->up.eof) {
		exch_ask_body(e);
		return;
	}
	if (e->req.has_length && e->req.length > EXCH_HOLD_MAX) {
		refuse(e, 413, TOO_LONG);
		return;
	}
	e->state = EXCH_HOLD;
	e->gathers = true;
	e->counted = true;
	exch_count(e);
	exch_let_continue(e);
	exch_ask_body(e);
}

void exch_ask_body(struct exch *e)
{
	size_t len = http_pipe_len(&e->up);

	if (len > EXCH_HOLD_MAX || (len == EXCH_HOLD_MAX && !e->up.eof))
		refuse(e, 413, TOO_LONG);
	else if (e->in->held > EXCH_HELD_MAX)
		refuse(e, 503, "too many requests are held for a person's answer");
	else if (e->up.eof || !e->req.has_body) {
		e->gathers = false;
		ask_now(e);
	}
}

/* What there is no room for is not asked about: the answer would be bound to less than is done. */
static void add(struct exch *e, const char *sep, struct slice s)
{
	size_t n = strlen(e->ask_what), size = sizeof(e->ask_what);

	if (n + strlen(sep) + s.len < size)
		snprintf(e->ask_what + n, size - n, "%s%.*s", n ? sep : "", (int)s.len, s.p);
	else
		e->ask_cut = true;
}

static void note_document(struct exch *e, const struct graphql_doc *d)
{
	const struct graphql_op *op = &d->ops[d->selected >= 0 ? d->selected : 0];
	bool first = true;

	add(e, "; ", slice_of(graphql_type_name(op->type)));
	for (unsigned i = 0; i < op->n_fields; i++, first = false) {
		struct slice field = d->fields[op->first_field + i];

		add(e, first ? " " : ", ", field);
		e->ask_merges = e->ask_merges || slice_eq(field, "mergePullRequest");
	}
}

void exch_ask_note(struct exch *e, const struct policy_request *q)
{
	static const struct {
		enum policy_push_act act;
		const char *word;
	} acts[] = { { POLICY_PUSH_CREATE, "create " },
		     { POLICY_PUSH_UPDATE, "push " },
		     { POLICY_PUSH_DELETE, "delete " },
		     { POLICY_PUSH_FORCE, "push (maybe forced) " } };

	e->ask_what[0] = '\0';
	e->ask_cut = e->ask_merges = false;
	for (size_t i = 0; i < q->n_gql; i++)
		note_document(e, q->gql[i]);
	for (size_t i = 0; i < q->n_push; i++) {
		for (size_t k = 0; k < ARRAY_SIZE(acts); k++) {
			if (acts[k].act == q->push[i].act) {
				add(e, ", ", slice_of(acts[k].word));
				add(e, "", q->push[i].ref);
			}
		}
	}
}

void exch_ask_forget(struct exch *e)
{
	asking_drop(e->asking);
	e->asking = NULL;
	asking_settle(e->in->eg, e->ticket, false);
	e->ticket = 0;
	e->approved = e->gathers = false;
}

void exch_ask_sent(struct exch *e)
{
	asking_settle(e->in->eg, e->ticket, true);
	e->ticket = 0;
}
