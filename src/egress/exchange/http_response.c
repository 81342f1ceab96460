/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Responses of our own: refusals by a rule, refusals of ambiguous requests, and failures of servers. Each is
 * a small JSON body (deny.h) that an agent can act on, and has its line in the journal. No value of a query
 * may get into the journal, only a digest of it.
 */
#include "base/str.h"
#include "egress/account/deny.h"
#include "egress/account/egress_fold.h"
#include "egress/exchange/http_act.h"
#include "egress/exchange/http_capture.h"
#include "egress/exchange/http_head.h"
#include "egress/exchange/http_secret.h"
#include "egress/exchange/inspect.h"
#include "egress/exchange/upstream.h"
#include "policy/method.h"

#include <stdio.h>

/* Query values may be secrets: the journal has their names, and a digest of each value. */
static void log_request_path(const struct exch *e, struct json *l)
{
	struct slice path = urlpath_path(&e->req.target, &e->req.url);
	autobuf struct buf text = BUF_INIT;

	if (e->req.target.len == 0)
		return;
	if (e->req.url.path_len == 0) {
		journal_str(l, "path", buf_cstr(&e->req.target), 1024);
		return;
	}
	http_path_log(&text, path, HTTP_PATH_LOGGED);
	http_query_digest(&text, urlpath_query(&e->req.target, &e->req.url));
	journal_str(l, "path", buf_cstr(&text), 1024);
}

/* The policy's decision, and the ids of the asks. */
static void log_policy_said(const struct exch *e, struct json *l, bool allowed)
{
	char ids[64];

	journal_str(l, "said",
		    policy_journal_note(&e->verdict, e->asks_secret ? POLICY_ASK : e->judged, allowed), 8);
	snprintf(ids, sizeof(ids), "%s%s%s", e->ask_id, e->ask_id[0] && e->secret_ask_id[0] ? "," : "",
		 e->secret_ask_id);
	journal_str(l, "ask", ids, sizeof(ids));
}

const char *exch_method(const struct exch *e)
{
	return e->req.websocket ? METHOD_WEBSOCKET_NAME : e->req.method;
}

void exch_log(struct exch *e, const char *decision, const char *rule, const char *why)
{
	struct journal *j = &e->in->eg->journal;
	struct json *l = journal_begin(j, "request");
	autobuf struct buf secrets = BUF_INIT;
	char text[POLICY_WHY_MAX + 96];

	if (e->conn_id)
		json_u64(l, "c", e->conn_id);
	json_u64(l, "r", e->id);
	journal_str(l, "method", exch_method(e), EXCH_METHOD_MAX);
	log_request_path(e, l);
	if (e->conn)
		journal_str(l, "host", e->conn->host.text, HOST_MAX);
	if (e->conn)
		json_u64(l, "port", e->conn->port);
	journal_str(l, "decision", decision, 16);
	log_policy_said(e, l, str_eq(decision, "allow"));
	journal_str(l, "rule", rule, POLICY_RULE_TEXT_MAX);
	if (e->dropped[0])
		snprintf(text, sizeof(text), "%s%sleft out: %s", why ? why : "", why && *why ? "; " : "",
			 e->dropped);
	else
		snprintf(text, sizeof(text), "%s", why ? why : "");
	journal_str(l, "why", text, sizeof(text));
	secret_names(e, &secrets);
	journal_str(l, "secret", buf_cstr(&secrets), 255);
	if (e->folded)
		json_u64(l, "count", e->folded);
	http_act_log(e, j, l);
	egress_end_line(e->in->eg, e->is_first);
	e->logged = true;
}

/* The response is in `down`, complete; the front sends it like any other. */
static void exch_respond(struct exch *e, unsigned status, const struct buf *body)
{
	struct http_resp *r = &e->resp;
	char denied[128];
	int err;

	upstream_forget(e);
	ledger_unwait(&e->in->eg->ledger, &e->turn);
	capture_free(e);
	secret_wipe(e);
	e->state = EXCH_LOCAL;
	e->active = e->in->eg->now;
	http_pipe_clear(&e->down);
	http_fields_clear(&r->fields);
	r->status = status;
	r->tunnel = false; /* may be set by a server's head that was not passed on */
	r->has_length = true;
	r->length = body->len;
	r->no_body = strcmp(e->req.method, "HEAD") == 0;
	snprintf(denied, sizeof(denied), "%s", status == 502 || status == 504 ? "upstream" : "policy");
	err = http_fields_add(&r->fields, slice_of("content-type"), slice_of("application/json"));
	if (err == 0)
		err = http_fields_add(&r->fields, slice_of("cache-control"), slice_of("no-store"));
	if (err == 0)
		err = http_fields_add(&r->fields, slice_of("coffer-denied"), slice_of(denied));
	if (err == 0 && !r->no_body)
		err = http_pipe_put(&e->down, body->data, body->len);
	if (!e->conn)
		return;
	if (err < 0) {
		e->front->fail(e);
		return;
	}
	e->down.eof = true;
	e->head_sent = true;
	e->front->head(e);
	e->front->wake(e);
}

static void respond_denial(struct exch *e, unsigned status, const char *rule, const char *reason,
			   const char *hint)
{
	autobuf struct buf body = BUF_INIT;
	autobuf struct buf path = BUF_INIT;
	struct denial d = { .status = status, .rule = rule, .reason = reason, .hint = hint };

	if (e->conn) {
		d.host = e->conn->host.text;
		d.port = e->conn->port;
	}
	d.method = e->req.method[0] ? exch_method(e) : NULL;
	if (e->req.target.len) {
		size_t n = e->req.url.path_len ? e->req.url.path_len : e->req.target.len;

		buf_add(&path, e->req.target.data, n);
		d.path = buf_cstr(&path);
	}
	deny_json(&body, &d);
	exch_respond(e, status, &body);
}

/* A refusal is written once and then counted: a client can cause any number of them. */
static void log_request_denial(struct exch *e, const char *rule, const char *why)
{
	struct egress *eg = e->in->eg;
	char what[HOST_MAX + EXCH_METHOD_MAX + 192];
	struct slice path = e->req.url.path_len ? urlpath_path(&e->req.target, &e->req.url) : SLICE_NONE;
	uint64_t count = 0;

	e->in->denied++;
	/* The first line is for people; query values may be secrets. */
	snprintf(what, sizeof(what), "%s %s%.*s\n%.80s", e->req.method, e->conn ? e->conn->host.text : "",
		 (int)(path.len < 100 ? path.len : 100), path.len ? path.p : "", why);
	/* Refusals that a person was asked about are in the log already, each time. */
	if (!e->ask_id[0] && !e->secret_ask_id[0] &&
	    !egress_fold_is_due(eg->fold, FOLD_REQUEST, what, strlen(what), 0, eg->now, &count)) {
		e->logged = false;
		return;
	}
	e->folded = count;
	exch_log(e, "deny", rule, why);
}

void exch_log_refusal(struct exch *e, const char *why)
{
	e->in->requests++;
	log_request_denial(e, NULL, why);
}

void exch_refuse(struct exch *e, unsigned status, const char *why)
{
	log_request_denial(e, NULL, why);
	respond_denial(e, status, NULL, why, NULL);
}

void exch_deny(struct exch *e)
{
	log_request_denial(e, e->verdict.rule_text, e->verdict.why);
	respond_denial(e, 403, e->verdict.rule_text[0] ? e->verdict.rule_text : NULL, e->verdict.why,
		       e->verdict.hint);
}

/* Not a decision, so not worded as a denial: the reader should look at the server, not at the policy. */
void exch_respond_failed(struct exch *e, const char *why)
{
	autobuf struct buf body = BUF_INIT;
	struct json j = JSON_INIT(&body);
	char text[HOST_MAX + 400];

	snprintf(text, sizeof(text), "coffer: the request to %s:%u failed: %s",
		 e->conn ? e->conn->host.text : "", e->conn ? (unsigned)e->conn->port : 0, why);
	json_obj(&j, NULL);
	json_str(&j, "error", "upstream");
	json_str(&j, "message", text);
	json_str(&j, "host", e->conn ? e->conn->host.text : NULL);
	json_u64(&j, "port", e->conn ? e->conn->port : 0);
	json_str(&j, "method", e->req.method);
	json_str(&j, "reason", why);
	json_end_obj(&j);
	buf_addc(&body, '\n');
	exch_respond(e, 502, &body);
}
