/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks a person about a request, or about the use of its secret. A request that cannot be shown or
 * bound in full is refused, never shortened (http_ask.Q2, Q3).
 */
#include "egress/exchange/http_ask.h"

#include "egress/core/asking.h"
#include "egress/exchange/http_hold.h"
#include "egress/exchange/http_secret.h"
#include "egress/exchange/inspect.h"
#include "egress/message/askheaders.h"
#include "egress/message/http_merge.h"
#include "policy/build.h"

#include <jansson.h>
#include <stdio.h>

#define TOO_LONG "a person has to allow it, and its body is longer than 1 MiB, the limit for an approval"
#define HOW \
	"wait and send it again, or ask the person who runs this sandbox; `coffer ask ls` shows the pending questions"

/*
 * http_ask.Q3: why no person can be asked; NULL: one can. A rule that saw the body has checked its documents
 * already.
 */
static const char *why_commit_is_unbound(const struct exch *e, char text[HTTP_HOLD_WHY_MAX])
{
	const struct urlpath *u = &e->req.url;
	const struct merge_call c = { .path = u->path_len ? urlpath_path(&e->req.target, u) : SLICE_NONE,
				      .query = u->path_len ? urlpath_query(&e->req.target, u) : SLICE_NONE,
				      .type = http_fields_get(&e->req.fields, "content-type"),
				      .body = http_pipe_peek(&e->up) };

	if (e->ask_unbound)
		return HTTP_HOLD_UNBOUND;
	if (!(e->verdict.entry && e->verdict.entry->kind == POLICY_GRAPHQL) && !http_hold_may_ask(e, text))
		return text;
	return merge_call_lacks(&c);
}

static enum askmsg_kind question_kind_of(const struct exch *e)
{
	const struct policy_entry *en = e->verdict.entry;

	return en && en->kind == POLICY_GRAPHQL ? ASKMSG_GRAPHQL
	       : en && en->kind == POLICY_GIT	? ASKMSG_GIT
						: ASKMSG_REQUEST;
}

static void refuse_ask(struct exch *e, unsigned status, const char *why)
{
	e->gathers = false;
	e->state = EXCH_NEW;
	exch_hold_free(e);
	exch_refuse(e, status, why);
}

static void on_request_answer(void *ctx, bool allow, uint64_t ticket, const char *id, const char *why)
{
	struct exch *e = ctx;
	struct inspect *in = e->in;

	runq_enter(&in->q);
	e->asking = NULL;
	e->state = EXCH_NEW;
	exch_hold_free(e);
	snprintf(e->asks_secret ? e->secret_ask_id : e->ask_id, sizeof(e->ask_id), "%s", id);
	e->fresh = e->fresh || allow;
	if (allow && e->asks_secret) {
		e->secret_ticket = ticket;
		e->secret_ok = true;
		exch_send(e);
	} else if (allow) {
		e->ticket = ticket;
		e->approved = true;
		e->verdict.action = POLICY_ALLOW;
		exch_apply_verdict(e);
	} else {
		e->verdict.action = POLICY_DENY;
		snprintf(e->verdict.why, sizeof(e->verdict.why), "a person has to allow %s: %s%s%s%s",
			 e->asks_secret ? "that its secret is used" : "it", why, id[0] ? " (question " : "",
			 id, id[0] ? ")" : "");
		e->verdict.hint = HOW;
		exch_deny(e);
	}
	runq_leave(&in->q);
}

/* Describes the request in words, with the headers that the answer is bound to. Negative: it does not fit. */
static int describe_request(const struct exch *e, struct buf *what)
{
	buf_adds(what, e->ask_what);
	if (e->req.websocket)
		buf_addf(what, "%sopens a websocket, whose messages are not inspected",
			 what->len ? "; " : "");
	return askheaders_add(&e->req.fields, ASKMSG_WHAT_MAX, what);
}

/*
 * Renders a request with a secret for people. An answer for this once is bound to all of it, a grant only to
 * the secret and its destination.
 */
static const char *describe_secret_use(const struct exch *e, struct slice body, struct askmsg *m,
				       struct buf *shown)
{
	static const char too_long[] =
		"a person has to allow that its secret is used, and its path is too long to be shown to anybody";
	size_t room;

	buf_addf(shown, "%s %s\n%s%s", exch_method(e), buf_cstr(&e->req.target), m->what,
		 m->what[0] ? "\n" : "");
	if (buf_error(shown) || shown->len >= ASKMSG_PREVIEW_MAX)
		return too_long;
	room = ASKMSG_PREVIEW_MAX - shown->len;
	buf_add(shown, body.p, body.len < room ? body.len : room);
	m->kind = ASKMSG_SECRET;
	m->method = m->path = "";
	m->what = e->verdict.terms.secret;
	m->preview = shown->data;
	m->preview_len = shown->len;
	m->preview_bytes = (uint32_t)(body.len < room ? body.len : room);
	return NULL;
}

static void exch_ask_now(struct exch *e)
{
	struct slice body = http_pipe_peek(&e->up), type = http_fields_get(&e->req.fields, "content-type");
	char type_text[129], unseen[HTTP_HOLD_WHY_MAX];
	const char *why = e->asks_secret ? NULL : why_commit_is_unbound(e, unseen);
	autobuf struct buf what = BUF_INIT, shown = BUF_INIT;
	struct askmsg m = { .kind = question_kind_of(e),
			    .port = e->conn->port,
			    .tls = e->conn->tls,
			    .has_body = e->req.has_body,
			    .body_len = body.len,
			    .host = e->conn->host.text,
			    .method = exch_method(e),
			    .path = buf_cstr(&e->req.target),
			    .rule = e->verdict.rule_text,
			    .preview = body.p,
			    .preview_len = body.len < ASKMSG_PREVIEW_MAX ? body.len : ASKMSG_PREVIEW_MAX };

	snprintf(type_text, sizeof(type_text), "%.*s", type.p ? (int)type.len : 0, type.p ? type.p : "");
	m.type = type_text;
	m.preview_bytes = (uint32_t)m.preview_len;
	if (!why && (describe_request(e, &what) < 0 || e->ask_cut || buf_error(&what)))
		why = "a person has to allow it, and its description is too long for a question";
	m.what = buf_cstr(&what);
	if (!why && e->req.target.len > ASKMSG_PATH_MAX)
		why = "a person has to allow it, and its path is too long to be shown to anybody";
	/* A part that is cut off would not be bound to the answer. */
	if (!why && type.p && type.len >= sizeof(type_text))
		why = "a person has to allow it, and its Content-Type is too long to be shown to anybody";
	if (!why && e->asks_secret)
		why = describe_secret_use(e, body, &m, &shown);
	if (why) {
		refuse_ask(e, 403, why);
		return;
	}
	hash_sha256(body.p ? body.p : "", body.len, m.body);
	e->state = EXCH_ASK;
	e->asking = asking_begin(e->in->eg, &m, on_request_answer, e, &why);
	if (!e->asking)
		refuse_ask(e, 503, why);
}

bool exch_ask_secret(struct exch *e)
{
	const struct policy_terms *t = &e->verdict.terms;

	if (e->secret_ok || !t->secret_ask || !t->secret || !secret_has(e, t->secret))
		return true;
	e->asks_secret = true;
	exch_ask(e);
	return false;
}

void exch_ask(struct exch *e)
{
	if (!e->req.has_body || e->up.eof) {
		exch_ask_body(e);
		return;
	}
	if (e->req.has_length && e->req.length > EXCH_HOLD_MAX) {
		refuse_ask(e, 413, TOO_LONG);
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
		refuse_ask(e, 413, TOO_LONG);
	else if (e->in->held > EXCH_HELD_MAX)
		refuse_ask(e, 503, "too many requests are held for a person's answer");
	else if (e->up.eof || !e->req.has_body) {
		e->gathers = false;
		exch_ask_now(e);
	}
}

/* Where there is no room no person is asked: the answer would be bound to less than the request does. */
static void add_to_ask_what(struct exch *e, const char *sep, struct slice s)
{
	size_t n = strlen(e->ask_what), size = sizeof(e->ask_what);

	if (n + strlen(sep) + s.len < size)
		snprintf(e->ask_what + n, size - n, "%s%.*s", n ? sep : "", (int)s.len, s.p);
	else
		e->ask_cut = true;
}

static void note_graphql(struct exch *e, const struct graphql_doc *d)
{
	const struct graphql_op *op = &d->ops[d->selected >= 0 ? d->selected : 0];
	bool first = true;

	add_to_ask_what(e, "; ", slice_of(graphql_type_name(op->type)));
	for (unsigned i = 0; i < op->n_fields; i++, first = false) {
		unsigned at = op->first_field + i;
		char times[24];

		add_to_ask_what(e, first ? " " : ", ", d->fields[at]);
		snprintf(times, sizeof(times), " (%u times)", d->times[at]);
		if (d->times[at] > 1)
			add_to_ask_what(e, "", slice_of(times));
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
	e->ask_cut = false;
	e->ask_unbound = http_hold_is_unbound(e->hold);
	for (size_t i = 0; i < q->n_gql; i++)
		note_graphql(e, q->gql[i]);
	for (size_t i = 0; i < q->n_push; i++) {
		for (size_t k = 0; k < ARRAY_SIZE(acts); k++) {
			if (acts[k].act == q->push[i].act) {
				add_to_ask_what(e, ", ", slice_of(acts[k].word));
				add_to_ask_what(e, "", q->push[i].ref);
			}
		}
	}
}

void exch_ask_forget(struct exch *e)
{
	asking_drop(e->asking);
	e->asking = NULL;
	asking_settle(e->in->eg, e->ticket, false);
	asking_settle(e->in->eg, e->secret_ticket, false);
	e->ticket = e->secret_ticket = 0;
	e->ask_id[0] = e->secret_ask_id[0] = '\0';
	e->approved = e->gathers = e->asks_secret = e->secret_ok = e->ask_used = false;
}

void exch_ask_sent(struct exch *e)
{
	asking_settle(e->in->eg, e->ticket, true);
	asking_settle(e->in->eg, e->secret_ticket, true);
	e->ticket = e->secret_ticket = 0;
	e->ask_used = e->approved || e->secret_ok;
}
