/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a request to its verdict: policy is asked with the canonical path; where a rule must see the body (GraphQL, pushes)
 * it is held back and policy is asked again; what is allowed is written down, then sent.
 */
#include "egress/http_head.h"
#include "egress/http_hold.h"
#include "egress/http_pool.h"

#include <stdio.h>

static void target_of(const struct exch *e, struct policy_target *t)
{
	const struct host *h = &e->conn->host;

	*t = (struct policy_target){ .port = e->conn->port };
	if (h->kind == HOST_ADDR)
		t->addr = h->addr;
	else
		t->name = h;
}

/* Asks the policy; what is known of the body is in q. */
static void ask(struct exch *e, struct policy_request *q)
{
	const struct http_req *r = &e->req;
	autobuf struct buf slashed = BUF_INIT;
	struct policy_target t;

	target_of(e, &t);
	q->method = slice_of(r->method);
	q->path = r->url.path_len ? urlpath_path(&r->target, &r->url) : slice_of("/");
	q->query = r->url.path_len ? urlpath_query(&r->target, &r->url) : SLICE_NONE;
	if (r->url.slash) {
		if (urlpath_slashed(q->path, &slashed) < 0) {
			snprintf(e->verdict.why, sizeof(e->verdict.why), "out of memory");
			e->verdict.action = POLICY_DENY;
			return;
		}
		q->slashed = (struct slice){ slashed.data, slashed.len };
	}
	policy_request(e->in->eg->policy, &t, q, &e->verdict);
}

/* True when it was answered. */
static bool over_limit(struct exch *e)
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

/* Case 40 of what goes wrong elsewhere: an upload to an allowed host with the attacker's own token. */
static bool has_own_credential(struct exch *e)
{
	const char *what = e->verdict.terms.credentials_only ? http_head_credential(e) : NULL;

	if (!what)
		return false;
	e->verdict.action = POLICY_DENY;
	snprintf(e->verdict.why, sizeof(e->verdict.why),
		 "the rule lets only credentials of the gateway through, and the request brings its own (%s)",
		 what);
	e->verdict.hint = "Send the request without it.";
	exch_deny(e);
	return true;
}

static void judge(struct exch *e)
{
	if (!policy_allows(&e->verdict))
		exch_deny(e);
	else if (!has_own_credential(e) && !over_limit(e))
		exch_send(e);
}

/* A client that waits for leave to send its body gets it from us: the server is asked when the body was seen. */
static void let_continue(struct exch *e)
{
	if (!e->req.expect)
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
	ask(e, &q);
	if (!e->verdict.need) {
		judge(e);
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
		let_continue(e);
}

void exch_decide_body(struct exch *e)
{
	struct policy_request q = { .is_body_known = true };
	char why[POLICY_WHY_MAX];
	int r = http_hold_feed(e->hold, e, &q, why);

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
	ask(e, &q);
	e->verdict.need = 0;
	exch_hold_free(e);
	judge(e);
}

void exch_hold_free(struct exch *e)
{
	http_hold_free(e->hold);
	e->hold = NULL;
	e->in->held -= e->held;
	e->held = 0;
}

static void written(struct egress *eg, struct defer *d, int status)
{
	struct exch *e = (struct exch *)((char *)d - offsetof(struct exch, defer));
	struct inspect *in = e->in;

	(void)eg;
	runq_enter(&in->q);
	e->state = EXCH_NEW;
	if (status < 0)
		exch_refuse(e, 503, "the decision could not be written down, so nothing is let through");
	else
		http_pool_get(e);
	runq_leave(&in->q);
}

void exch_send(struct exch *e)
{
	exch_log(e, "allow", e->verdict.rule_text, e->verdict.would_deny ? e->verdict.why : NULL);
	e->state = EXCH_JOURNAL;
	e->defer.fn = written;
	egress_defer(e->in->eg, &e->defer);
}

/* The rules of an older policy are gone. What is no longer allowed ends; the body that was seen was seen. */
void exch_new_policy(struct exch *e)
{
	struct policy_request q = { 0 };
	struct egress *eg = e->in->eg;

	if (!e->conn || e->state == EXCH_LOCAL || e->state == EXCH_NEW)
		return;
	if (!eg->policy) {
		snprintf(e->verdict.why, sizeof(e->verdict.why), "%s", eg->why_none);
		e->verdict.action = POLICY_DENY;
		e->verdict.need = 0;
		e->verdict.rule_text[0] = 0;
	} else {
		ask(e, &q);
	}
	if (e->state == EXCH_HOLD && e->verdict.need)
		return;
	if ((policy_allows(&e->verdict) || e->verdict.need) &&
	    limits_of(&eg->limits, &e->verdict, &e->limit) == 0)
		return;
	exch_cut(e);
}
