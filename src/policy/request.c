/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decisions on requests of an inspected connection.
 *
 * The contents of a GraphQL document or a push are decided by the rules for those; a rule by method and path can only
 * deny more there, and only one that covers no more than that endpoint or repository. `POST /graphql` therefore never
 * allows what `graphql:` does not.
 */
#include "policy/policy_int.h"

#include "base/buf.h"
#include "base/str.h"
#include "codec/http/urlpath.h"

#include <string.h>

/* The rules of a step that decide on requests that no entry names. */
struct rest {
	const struct policy_rule *deny, *ask, *allow, *listed;
};

/* The first rule of each action, and the first allow that lists requests. */
static struct rest collect_rest(const struct walk *w)
{
	const struct policy_rule *r;
	struct rest s = { 0 };
	size_t at = 0;

	while ((r = walk_rule(w, &at))) {
		const struct policy_rule **slot[] = { &s.deny, &s.ask, &s.allow };

		if (r->n_entries && r->action == POLICY_DENY)
			continue;
		slot[POLICY_ALLOW] = r->n_entries ? &s.listed : &s.allow;
		if (!*slot[r->action])
			*slot[r->action] = r;
	}
	return s;
}

static enum policy_action action_from_found(enum found f)
{
	return f == FOUND_ALLOW ? POLICY_ALLOW : f == FOUND_ASK ? POLICY_ASK : POLICY_DENY;
}

/* The entry decides; its denial is explained by what the request does. */
static void decide_by_entry(const struct walk *w, const struct finding *f, struct policy_verdict *v)
{
	verdict_by_rule(v, w, f->rule, f->entry, action_from_found(f->found));
	if (f->found == FOUND_DENY && f->what[0])
		verdict_why(v, "%s: denied by the rule %s", f->what, v->rule_text);
}

/* Denies until the body is known. */
static void decide_by_need(const struct walk *w, const struct rest *s, unsigned need,
			   struct policy_verdict *v)
{
	const struct policy_rule *r = s->listed ? s->listed : s->allow ? s->allow : s->deny;
	size_t at = 0;

	r = r ? r : walk_rule(w, &at);
	verdict_by_rule(v, w, r, NULL, POLICY_DENY);
	verdict_why(v, "the effect of the request is in its body, which was not read");
	v->need = need;
}

/* A rule with entries denies every request that it does not list. */
static void deny_unlisted(const struct policy *p, const struct walk *w, const struct policy_rule *r,
			  const struct policy_request *req, const char *what, struct policy_verdict *v)
{
	char method[SLICE_QUOTE_LEN], path[SLICE_QUOTE_LEN];

	verdict_by_rule(v, w, r, NULL, POLICY_DENY);
	if (what[0])
		verdict_why(v, "the rule %s does not list %s", v->rule_text, what);
	else
		verdict_why(v, "the rule %s does not list %s %s", v->rule_text,
			    slice_quote(req->method.p, req->method.len, method),
			    slice_quote(req->path.p, req->path.len, path));
	v->hint = method_bit(req->method) == METHOD_WEBSOCKET
			  ? "to allow a websocket, list WEBSOCKET and the path; GET and * do not cover it"
			  : "a rule with requests denies all others; list this one too if it is wanted";
	v->is_omitted = !what[0];
	if (p->mode == POLICY_OBSERVE)
		verdict_observe(v);
}

/* Decides a request that no entry names by the rules without entries; false: there are none. */
static bool decide_by_rest(const struct policy *p, const struct walk *w, const struct rest *s,
			   const struct policy_request *req, const char *what, struct policy_verdict *v)
{
	if (s->deny)
		verdict_by_rule(v, w, s->deny, NULL, POLICY_DENY);
	else if (s->listed)
		deny_unlisted(p, w, s->listed, req, what, v);
	else if (s->ask)
		verdict_by_rule(v, w, s->ask, NULL, POLICY_ASK);
	else if (s->allow)
		verdict_by_rule(v, w, s->allow, NULL, POLICY_ALLOW);
	else
		return false;
	return true;
}

/* Judges one step: true if it decides. */
static bool judge_request_step(const struct policy *p, const struct walk *w, const struct policy_request *req,
			       struct slice path, struct policy_verdict *v)
{
	struct rest s = collect_rest(w);
	struct finding act, http;

	find_git(w, req, path, &act);
	if (act.found == FOUND_NOTHING)
		find_graphql(w, req, path, &act);
	find_http(w, method_bit(req->method), path, act.found == FOUND_NOTHING ? NULL : act.scope, &http);
	if (act.found == FOUND_NOTHING) {
		if (http.found == FOUND_NOTHING) {
			if (!decide_by_rest(p, w, &s, req, "", v))
				return false;
			v->is_unnamed = true;
			return true;
		}
		decide_by_entry(w, &http, v);
		return true;
	}
	if (http.found == FOUND_DENY || act.found == FOUND_DENY)
		decide_by_entry(w, act.found == FOUND_DENY ? &act : &http, v);
	else if (act.found == FOUND_NEED)
		decide_by_need(w, &s, act.need, v);
	else if (act.found == FOUND_UNNAMED)
		return decide_by_rest(p, w, &s, req, act.what, v);
	else
		decide_by_entry(w, http.found == FOUND_ASK ? &http : &act, v);
	return true;
}

/* Judges a request by one layer: the most specific step that decides, otherwise granted rules, otherwise the
 * default. */
static void judge_request_layer(const struct policy *p, const struct layer *l, const struct policy_target *t,
				const struct policy_request *req, struct slice path, struct policy_verdict *v)
{
	struct walk w;

	walk_begin(&w, l, t);
	while (walk_step(&w)) {
		if (!judge_request_step(p, &w, req, path, v))
			continue;
		/* Rules that were granted on top come after everything the policy says, except these two
		 * cases. */
		if (v->is_omitted)
			(void)!widen_request(p, l, t, req, path, &w, v);
		else if (widen_may_speak(&w) && v->action == POLICY_DENY && !v->entry && !v->need)
			(void)!widen_request(p, l, t, req, path, NULL, v);
		return;
	}
	if (!widen_request(p, l, t, req, path, NULL, v))
		verdict_default(v, p, t, true);
}

#define FOLDED 2 /* the last of the readings of a path, urlpath_folded() */

void policy_request(const struct policy *p, const struct policy_target *t, const struct policy_request *r,
		    struct policy_verdict *ret)
{
	autobuf struct buf folded = BUF_INIT;
	struct slice paths[] = { r->path, r->slashed, SLICE_NONE };
	struct policy_verdict v;
	bool first = true;
	int is_folded = 0;

	connect_quietly(p, t, ret);
	if (!policy_may_allow(ret))
		return;
	if (r->path.len && memchr(r->path.p, '%', r->path.len))
		is_folded = urlpath_folded(r->path, &folded);
	if (is_folded < 0) {
		ret->action = POLICY_DENY;
		verdict_why(ret, "out of memory");
		return;
	}
	if (is_folded)
		paths[FOLDED] = (struct slice){ folded.data, folded.len };
	for (unsigned i = 0; i < p->n_layers || i == 0; i++) {
		for (size_t k = 0; k < FOLDED + 1; k++) {
			if (k && !paths[k].len)
				continue;
			/* A policy without layers is judged as one empty layer. */
			judge_request_layer(p, &p->layers[i], t, r, paths[k], &v);
			/* That reading exists only for denials: no rule has to list it. */
			if (k == FOLDED && (v.is_unnamed || v.is_default || v.action == POLICY_ALLOW))
				continue;
			if (first)
				*ret = v;
			else
				verdict_merge(ret, &v);
			first = false;
		}
	}
	ret->depth = POLICY_INSPECT;
	verdict_words(ret);
}
