/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a request to its verdict: judges it by the policy with the canonical path; where a rule must see the
 * body (GraphQL, pushes) it is held and judged again; an allowed request gets its journal line, then is sent.
 */
#include "base/container.h"
#include "egress/credential/foreign_cred.h"
#include "egress/exchange/http_act.h"
#include "egress/exchange/http_ask.h"
#include "egress/exchange/http_capture.h"
#include "egress/exchange/http_head.h"
#include "egress/exchange/http_hold.h"
#include "egress/exchange/http_secret.h"
#include "egress/exchange/upstream.h"

#include <stdio.h>
#include <strings.h>

static void exch_policy_target(const struct exch *e, struct policy_target *t)
{
	const struct host *h = &e->conn->host;

	*t = (struct policy_target){ .port = e->conn->port };
	if (h->kind == HOST_ADDR)
		t->addr = h->addr;
	else
		t->name = h;
}

/* Judges a path by the policy; facts about the body are in q. */
static void judge_path(struct exch *e, struct policy_request *q, const struct buf *target,
		       const struct urlpath *url)
{
	autobuf struct buf slashed = BUF_INIT;
	struct policy_target t;

	exch_policy_target(e, &t);
	q->path = url->path_len ? urlpath_path(target, url) : slice_of("/");
	q->query = url->path_len ? urlpath_query(target, url) : SLICE_NONE;
	if (url->slash) {
		if (urlpath_slashed(q->path, &slashed) < 0) {
			snprintf(e->verdict.why, sizeof(e->verdict.why), "out of memory");
			e->verdict.action = e->judged = POLICY_DENY;
			return;
		}
		q->slashed = (struct slice){ slashed.data, slashed.len };
	}
	policy_request(e->in->eg->policy, &t, q, &e->verdict);
	e->judged = e->verdict.action;
}

static void judge_by_policy(struct exch *e, struct policy_request *q)
{
	q->method = slice_of(exch_method(e));
	judge_path(e, q, &e->req.target, &e->req.url);
}

/* True when it was refused, and the response sent. */
static bool refuse_over_limit(struct exch *e)
{
	struct egress *eg = e->in->eg;
	size_t head = strlen(e->req.method) + e->req.target.len + e->req.fields.text.len +
		      (size_t)4 * e->req.fields.n;
	const char *why;

	if (limits_of(&eg->limits, &e->verdict, &e->limit) < 0) {
		exch_refuse(e, 503, "the rule's limits cannot be counted");
		return true;
	}
	why = limits_request(&eg->limits, e->limit, eg->now);
	if (why) {
		exch_refuse(e, 429, why);
		return true;
	}
	if (limits_charge_up(&eg->limits, e->limit, head) < 0) {
		exch_refuse(e, 403, "the limit of bytes_up is used up");
		return true;
	}
	return false;
}

static void deny_foreign_verdict(struct exch *e, const char *what)
{
	e->verdict.action = POLICY_DENY;
	e->verdict.need = 0;
	snprintf(
		e->verdict.why, sizeof(e->verdict.why),
		"this rule accepts only secrets that coffer inserts; the request has credentials of its own (%s)",
		what);
	e->verdict.hint = "Send the request without it.";
}

void exch_deny_foreign(struct exch *e, const char *what)
{
	deny_foreign_verdict(e, what);
	exch_deny(e);
}

/*
 * An upload to an allowed host with the attacker's own token would carry data out. True: the verdict says
 * deny.
 */
static bool brings_own_credential(struct exch *e)
{
	struct foreign_cred t = { .ours = http_secrets_grants(e->in),
				  .host = e->conn->host.text,
				  .port = e->conn->port };

	if (!e->verdict.terms.credentials_only || !foreign_cred_in_head(&t, &e->req))
		return false;
	deny_foreign_verdict(e, t.what);
	return true;
}

static bool refuse_own_credential(struct exch *e)
{
	if (!brings_own_credential(e))
		return false;
	exch_deny(e);
	return true;
}

/*
 * Headers by which a request acts on a second path: the target of a copy or move, or its source, which is
 * then read.
 */
static const struct {
	const char *name, *method; /* NULL: that of the request */
} seconds[] = {
	{ "destination", NULL },	 { "x-amz-copy-source", "GET" }, { "x-amz-rename-source", NULL },
	{ "x-goog-copy-source", "GET" }, { "x-ms-copy-source", "GET" },	 { "x-ms-rename-source", NULL },
	{ "x-oss-copy-source", "GET" },	 { "x-cos-copy-source", "GET" }, { "x-obs-copy-source", "GET" },
};

/*
 * "https://this.host/path", "/path" or, for object stores, "bucket/path": yields the path; false for another
 * host.
 */
static bool second_path_of(const struct exch *e, struct slice v, struct buf *ret)
{
	const struct inspect_conn *c = e->conn;
	const char *scheme = c->tls ? "https://" : "http://";
	size_t n = strlen(scheme), end;
	uint16_t port = 0;
	struct host host;

	if (v.len > n && strncasecmp(v.p, scheme, n) == 0) {
		for (end = n; end < v.len && v.p[end] != '/'; end++)
			;
		if (host_port_parse(v.p + n, end - n, c->tls ? 443 : 80, &host, &port, NULL) < 0 ||
		    port != c->port || !host_eq(&host, &c->host))
			return false;
		v = (struct slice){ v.p + end, v.len - end };
	}
	if (v.len == 0 || v.p[0] != '/')
		buf_addc(ret, '/');
	buf_add(ret, v.p, v.len);
	return buf_error(ret) == 0;
}

/* The path must be written exactly as it is judged. */
static bool canonical_second_path(const struct exch *e, struct slice v, struct buf *ret, struct urlpath *url)
{
	autobuf struct buf path = BUF_INIT;
	struct err why = ERR_INIT;

	return second_path_of(e, v, &path) &&
	       urlpath_canon(path.data, path.len, URLPATH_KEEP_SLASH, ret, url, &why) == 0 &&
	       ret->len == path.len && memcmp(ret->data, path.data, path.len) == 0;
}

/* Judges the second path like the first. True: it is denied, and the verdict says why. */
static bool second_path_is_denied(struct exch *e, const struct buf *canon, const struct urlpath *url,
				  struct policy_request *q)
{
	const struct policy_verdict first = e->verdict;
	const enum policy_action judged = e->judged;

	judge_path(e, q, canon, url);
	if (policy_allows(&e->verdict)) {
		e->verdict = first;
		e->judged = judged;
		return false;
	}
	e->verdict.need = 0;
	return true;
}

/* Judges the second path. True when it was refused, and the response sent. */
static bool refuse_second_path(struct exch *e, struct slice v, const char *method)
{
	autobuf struct buf canon = BUF_INIT;
	struct policy_request q = { .method = slice_of(method ? method : exch_method(e)) };
	bool is_denied;
	struct urlpath url;

	if (!canonical_second_path(e, v, &canon, &url)) {
		exch_refuse(
			e, 403,
			"a header names a second path that is not on this host, or can be read in two ways");
		return true;
	}
	is_denied = second_path_is_denied(e, &canon, &url, &q);
	http_act_also(e, method ? method : exch_method(e), q.path);
	if (is_denied)
		exch_deny(e);
	return is_denied;
}

/* Judges the second path by a new policy; sends no response. */
static bool second_path_now_denied(struct exch *e, struct slice v, const char *method)
{
	autobuf struct buf canon = BUF_INIT;
	struct policy_request q = { .method = slice_of(method ? method : exch_method(e)) };
	struct urlpath url;

	return !canonical_second_path(e, v, &canon, &url) || second_path_is_denied(e, &canon, &url, &q);
}

typedef bool second_fn(struct exch *e, struct slice v, const char *method);

/* Calls fn for each header with a second path. True when one call returned true. */
static bool for_each_second_path(struct exch *e, second_fn *fn)
{
	const struct http_fields *f = &e->req.fields;

	for (unsigned i = 0; i < f->n; i++) {
		for (size_t k = 0; k < ARRAY_SIZE(seconds); k++) {
			if (slice_eq_nocase(http_fields_name(f, i), seconds[k].name) &&
			    fn(e, http_fields_value(f, i), seconds[k].method))
				return true;
		}
	}
	return false;
}

/* A request that acts on two paths cannot be shown as one. */
static bool refuse_ask_of_two_paths(struct exch *e, struct slice v, const char *method)
{
	(void)v;
	(void)method;
	exch_refuse(e, 403,
		    "a person has to allow it, and a header names a second path that nobody is asked about");
	return true;
}

void exch_apply_verdict(struct exch *e)
{
	if (!policy_may_allow(&e->verdict)) {
		exch_deny(e);
		return;
	}
	if (!policy_allows(&e->verdict)) {
		if (!for_each_second_path(e, refuse_ask_of_two_paths) && !secret_is_stale(e) &&
		    !refuse_own_credential(e))
			exch_ask(e);
		return;
	}
	if (!for_each_second_path(e, refuse_second_path) && !secret_is_stale(e) &&
	    !refuse_own_credential(e) && !refuse_over_limit(e) && secret_check(e))
		exch_send(e);
}

/*
 * A client that waits for permission to send its body gets it from us: the server is contacted only after the
 * body was seen.
 */
void exch_let_continue(struct exch *e)
{
	if (!e->req.expect || e->continued)
		return;
	e->continued = true;
	http_fields_clear(&e->resp.fields);
	e->resp.status = 100;
	e->front->head(e);
}

void exch_decide(struct exch *e)
{
	struct policy_request q = { 0 };
	const char *why;

	if (!e->in->eg->policy) {
		exch_refuse(e, 403, e->in->eg->why_none);
		return;
	}
	judge_by_policy(e, &q);
	if (!e->verdict.need) {
		exch_apply_verdict(e);
		return;
	}
	e->hold = http_hold_new(e, &why);
	if (!e->hold) {
		exch_refuse(e, 403, why);
		return;
	}
	e->state = EXCH_HOLD;
	if (e->up.eof)
		exch_decide_body(e);
	else
		exch_let_continue(e);
}

void exch_decide_body(struct exch *e)
{
	struct policy_request q = { .is_body_known = true };
	char why[POLICY_WHY_MAX];
	int r;

	if (e->gathers) {
		exch_ask_body(e);
		return;
	}
	if (!e->hold) {
		secret_body(e);
		return;
	}
	r = http_hold_feed(e->hold, e, &q, why);

	if (r == 0 && e->in->held > EXCH_HELD_MAX) {
		r = -EBUSY;
		snprintf(why, sizeof(why), "too many requests wait to be judged by their bodies");
	}
	if (r == 0)
		return;
	e->state = EXCH_NEW;
	if (r < 0) {
		exch_hold_free(e);
		exch_refuse(e, r == -E2BIG ? 413 : r == -EBUSY ? 503 : 403, why);
		return;
	}
	judge_by_policy(e, &q);
	e->verdict.need = 0;
	http_act_body(e, &q);
	exch_ask_note(e, &q);
	exch_hold_free(e);
	exch_apply_verdict(e);
}

void exch_hold_free(struct exch *e)
{
	http_hold_free(e->hold);
	e->hold = NULL;
}

void exch_count(struct exch *e)
{
	size_t n;

	e->counted = e->counted && http_pipe_len(&e->up);
	n = (e->counted ? e->up.b.len : 0) + secret_body_len(e) + capture_held(e);
	e->in->held += n - e->held;
	e->held = n;
}

static void on_request_written(struct egress *eg, struct defer *d, int status)
{
	struct exch *e = CONTAINER_OF(d, struct exch, defer);
	struct inspect *in = e->in;

	(void)eg;
	runq_enter(&in->q);
	e->state = EXCH_NEW;
	if (status < 0)
		exch_refuse(e, 503, "the journal cannot be written, so nothing is let through");
	else
		upstream_get(e);
	runq_leave(&in->q);
}

/* inject.J1, for the second path too: the secret must be bound to it. */
static bool refuse_secret_on_second_path(struct exch *e, struct slice v, const char *method)
{
	autobuf struct buf canon = BUF_INIT;
	struct urlpath url;

	(void)method;
	if (canonical_second_path(e, v, &canon, &url) &&
	    secret_covers(e, url.path_len ? urlpath_path(&canon, &url) : slice_of("/")))
		return false;
	secret_refuse(e, "a header names a second path that the request's secret is not bound to");
	return true;
}

bool exch_key_path(const struct exch *e)
{
	return e->req.websocket || (strcmp(e->req.method, "GET") != 0 && strcmp(e->req.method, "HEAD") != 0);
}

static uint64_t request_ledger_key(const struct exch *e)
{
	struct seen *s = &e->in->eg->ledger.seen;
	autobuf struct buf secrets = BUF_INIT;

	secret_names(e, &secrets);
	seen_begin(s, LEDGER_REQUEST);
	seen_adds(s, e->verdict.rule_text);
	seen_adds(s, e->req.method);
	seen_add(s, e->conn->host.text, e->conn->host.len);
	seen_add(s, &e->conn->port, sizeof(e->conn->port));
	seen_add(s, secrets.data, secrets.len);
	seen_add(s, &e->req.websocket, sizeof(e->req.websocket));
	http_act_key(e, s);
	if (exch_key_path(e))
		seen_add(s, e->req.target.data, e->req.target.len);
	return buf_error(&secrets) ? 0 : seen_key(s);
}

static void log_first_or_wait(struct exch *e);

static void on_request_turn(struct ledger_wait *w, int status)
{
	struct exch *e = CONTAINER_OF(w, struct exch, turn);
	struct inspect *in = e->in;

	runq_enter(&in->q);
	e->state = EXCH_NEW;
	e->active = in->eg->now;
	if (status < 0)
		exch_refuse(e, 503, LEDGER_WHY_LATE);
	else
		log_first_or_wait(e);
	runq_leave(&in->q);
}

/* egress.E5: a new request gets a line of its own, or waits for one. */
static void log_first_or_wait(struct exch *e)
{
	struct egress *eg = e->in->eg;
	const unsigned lines = 1 + secret_count(e);
	uint64_t key = request_ledger_key(e);
	enum ledger_verdict known = ledger_check(&eg->ledger, key, lines);
	char approved[128];

	if (known == LEDGER_DENY) {
		exch_refuse(e, 503, egress_ledger_why(eg));
		return;
	}
	e->state = EXCH_JOURNAL;
	if (known == LEDGER_LATER) {
		e->turn.fn = on_request_turn;
		ledger_wait(&eg->ledger, &e->turn, lines);
		return;
	}
	e->is_first = known == LEDGER_FIRST;
	if (e->is_first)
		ledger_take(&eg->ledger, key, lines);
	if (e->approved || e->secret_ok)
		snprintf(approved, sizeof(approved), "a person allowed %s (question %s)",
			 e->secret_ok ? "its secret" : "it", e->secret_ok ? e->secret_ask_id : e->ask_id);
	exch_log(e, "allow", e->verdict.rule_text,
		 e->approved || e->secret_ok ? approved
		 : e->verdict.would_deny     ? e->verdict.why
					     : NULL);
	e->defer.fn = on_request_written;
	egress_defer(eg, &e->defer);
}

void exch_send(struct exch *e)
{
	if (secret_is_planned(e) && for_each_second_path(e, refuse_secret_on_second_path))
		return;
	if (exch_ask_secret(e))
		log_first_or_wait(e);
}

/* Its secrets were found under the older policy (http_secret.S5). */
static bool was_planned_before(const struct exch *e)
{
	return secret_is_planned(e) || (e->state == EXCH_HOLD && !e->hold);
}

/*
 * A body that the server already has was judged; one that it does not have yet would be judged by an obsolete
 * policy.
 */
static bool is_still_allowed(const struct exch *e)
{
	return policy_allows(&e->verdict) || (e->verdict.need && e->state == EXCH_LIVE);
}

/* Judges the exchange by a new policy, and ends it where that no longer allows it. */
void exch_new_policy(struct exch *e)
{
	struct policy_request q = { 0 };
	struct egress *eg = e->in->eg;
	unsigned need = e->verdict.need;
	const bool was_judged = e->verdict.terms.credentials_only;

	if (!e->conn || e->state == EXCH_LOCAL || e->state == EXCH_NEW)
		return;
	if (!eg->policy) {
		snprintf(e->verdict.why, sizeof(e->verdict.why), "%s", eg->why_none);
		e->verdict.action = POLICY_DENY;
		e->verdict.need = 0;
		e->verdict.rule_text[0] = 0;
	} else {
		judge_by_policy(e, &q);
	}
	/*
	 * http_ask.Q4: a pending ask is judged again; an approved request that was not sent yet must be sent
	 * again by the client.
	 */
	if (e->state == EXCH_ASK || (e->state == EXCH_HOLD && e->gathers)) {
		exch_ask_forget(e);
		capture_free(e);
		secret_free(e);
		exch_hold_free(e);
		e->state = EXCH_NEW;
		exch_decide(e);
		return;
	}
	if (e->approved && e->state != EXCH_LIVE) {
		exch_cut(e, "the policy has changed since a person allowed it; send it again");
		return;
	}
	if (e->approved && e->verdict.action == POLICY_ASK)
		e->verdict.action = POLICY_ALLOW;
	e->old_plan = was_planned_before(e);
	if (e->old_plan && e->state != EXCH_LIVE && is_still_allowed(e)) {
		exch_cut(e,
			 "the policy has changed since the request was searched for secrets; send it again");
		return;
	}
	/* A held body is being read for the question of the older policy. */
	if (e->state == EXCH_HOLD && (e->verdict.need ? e->verdict.need == need : policy_allows(&e->verdict)))
		return;
	if (is_still_allowed(e) &&
	    (for_each_second_path(e, second_path_now_denied) || brings_own_credential(e))) {
		exch_cut(e, NULL);
		return;
	}
	if (is_still_allowed(e) && e->state != EXCH_LIVE && e->verdict.terms.credentials_only &&
	    !was_judged) {
		exch_cut(
			e,
			"the policy has changed since the request was searched for credentials; send it again");
		return;
	}
	if (is_still_allowed(e) && limits_of(&eg->limits, &e->verdict, &e->limit) == 0) {
		upstream_again(e);
		return;
	}
	e->verdict.need = 0;
	exch_cut(e, NULL);
}
