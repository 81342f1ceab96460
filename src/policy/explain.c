/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Explains one decision to a person: the verdict, its terms, and every rule that matched (explain.h). Decides
 * nothing itself.
 */

#include "policy/explain.h"

#include "base/str.h"
#include "policy/policy_int.h"

#include <string.h>

static void explain_rule(const struct policy_rule *r, struct buf *out)
{
	buf_adds(out, "    ");
	rule_add_head(r, out);
	if (r->n_entries)
		buf_addf(out, ", %zu requests listed", r->n_entries);
	rule_add_source(r, r->line, out);
	buf_addc(out, '\n');
}

/* Lists every step of a layer; *ret_n counts the rules. */
static void explain_layer(const struct layer *l, const struct policy_target *t, struct buf *out,
			  size_t *ret_n)
{
	struct walk w;

	walk_begin(&w, l, t);
	while (walk_step(&w)) {
		const struct policy_rule *r;
		size_t at = 0;

		while ((r = walk_rule(&w, &at))) {
			explain_rule(r, out);
			++*ret_n;
		}
	}
}

/* Lists the matching rules of all layers. */
static void explain_matches(const struct policy *p, const struct policy_target *t, struct buf *out)
{
	for (unsigned i = 0; i < p->n_layers; i++) {
		size_t n = 0;

		if (p->n_layers > 1)
			buf_addf(out, "  rules of policy %u of %u that match, most specific first:\n", i + 1,
				 p->n_layers);
		else
			buf_adds(out, "  rules that match, most specific first:\n");
		explain_layer(&p->layers[i], t, out, &n);
		if (n == 0)
			buf_adds(out, "    none\n");
	}
}

static void explain_limits(const struct policy_limits *l, struct buf *out)
{
	if (l->bytes_up)
		buf_addf(out, "  limit  %llu bytes up\n", (unsigned long long)l->bytes_up);
	if (l->bandwidth)
		buf_addf(out, "  limit  %llu bytes a second\n", (unsigned long long)l->bandwidth);
	if (l->requests_per_minute)
		buf_addf(out, "  limit  %u requests a minute\n", l->requests_per_minute);
	if (l->connections)
		buf_addf(out, "  limit  %u connections at once\n", l->connections);
}

/* Lists the terms of an allowance. */
static void explain_terms(const struct policy_verdict *v, struct buf *out)
{
	char text[ADDR_TEXT_LEN];

	if (!policy_may_allow(v))
		return;
	buf_addf(out, "  depth  %s\n", policy_depth_name(v->depth));
	if (v->terms.has_pin)
		buf_addf(out, "  to     %s port %u\n", addr_format(&v->terms.pin, text), v->terms.pin_port);
	if (v->terms.proxy_set)
		buf_addf(out, "  pool   %s\n", v->terms.proxy_set);
	if (v->terms.secret)
		buf_addf(out, "  secret %s, denied where the sandbox was not given it\n", v->terms.secret);
	if (v->terms.capture)
		buf_addf(out, "  capture %s, denied where the sandbox was started without it\n",
			 v->terms.capture);
	explain_limits(&v->terms.limits, out);
	if (v->would_deny)
		buf_adds(out, "  note   only observed: with 'mode: enforce' it would be denied\n");
}

/* "allowed by the rule …" only repeats the two lines above it. */
static bool why_adds_something(const struct policy_verdict *v)
{
	static const char *const plain[] = { "allowed by the rule ", "denied by the rule " };

	for (size_t i = 0; i < ARRAY_SIZE(plain); i++) {
		if (str_starts(v->why, plain[i]) && str_eq(v->why + strlen(plain[i]), v->rule_text))
			return false;
	}
	return true;
}

void policy_explain(const struct policy *p, const struct policy_target *t, const struct policy_request *r,
		    struct buf *out, struct policy_verdict *ret)
{
	char target[TARGET_TEXT_MAX], method[SLICE_QUOTE_LEN], path[SLICE_QUOTE_LEN];

	if (r)
		policy_request(p, t, r, ret);
	else
		policy_connect(p, t, ret);
	buf_addf(out, "%s  ", ret->need ? "depends on the body" : policy_action_name(ret->action));
	if (r)
		buf_addf(out, "%s %s%s\n", slice_quote(r->method.p, r->method.len, method),
			 target_text(t, target), slice_quote(r->path.p, r->path.len, path));
	else
		buf_addf(out, "%s\n", target_text(t, target));
	buf_addf(out, "  rule   %s\n", ret->rule_text);
	if (why_adds_something(ret))
		buf_addf(out, "  why    %s\n", ret->why);
	explain_terms(ret, out);
	if (!policy_allows(ret) && ret->hint && why_adds_something(ret))
		buf_addf(out, "  hint   %s\n", ret->hint);
	if (!r && policy_may_allow(ret) && ret->depth == POLICY_INSPECT)
		buf_adds(out, "  note   each request is decided by itself: ask with a method and a URL\n");
	explain_matches(p, t, out);
}
