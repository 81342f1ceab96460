/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds rules that a person has granted to a sealed policy. A granted rule applies only where the policy itself has no
 * rule. Pure: no I/O, no clock.
 *
 * Invariants
 *  W1  They are used only where no rule of a layer matches, or only `deny: "*"` for every port does, which means the same; and,
 *      if they name requests, where a rule of the policy lists requests by method and path and this one is not among them.
 *      All else that the policy denies, asks about or lists remains: the stricter wins.
 *  W2  They only allow: no address except a single global one, no public suffix, no `to:`, `ca:`, proxy set or secret. The
 *      proxy set and limits of the layer apply to them; and where a rule of the policy lists requests, so do all terms of that rule
 *      and its equals (limits, secret and whether it needs approval, `credentials: only`, `to:`, `ca:`, proxy set, capture).
 *  W3  They are the one part of a policy that may change once it is sealed; its digest changes with them.
 */
#include "policy/policy_int.h"

#include "base/str.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ANY_PORT 65536u /* rule_port_spec() of a rule for every port */

/* policy_widen.W2: what a granted rule may contain. */
static int check_granted_rule(const struct policy_rule *r, struct err *e)
{
	static const struct policy_limits none;

	if (r->action != POLICY_ALLOW || r->has_pin || r->ca || r->proxy_set[0] || r->secret[0] ||
	    r->capture[0] || r->credentials_only || r->secret_ask ||
	    memcmp(&r->limits, &none, sizeof(none)) != 0)
		return err_set(e, -EINVAL, "a grant on top consists of a host, ports and requests only");
	if (r->by_addr && r->range.bits != 128)
		return err_set(e, -EINVAL, "a range of addresses cannot be requested, only a single address");
	for (size_t i = 0; i < r->n_entries; i++) {
		if (r->entries[i].kind != POLICY_HTTP || r->entries[i].action != POLICY_ALLOW)
			return err_set(e, -EINVAL, "requests can be granted by method and path only");
	}
	return rule_check(r, e);
}

/* Checks the rule and moves it into the layer. */
static int add_granted_rule(struct layer *l, struct policy_rule *r, struct err *e)
{
	struct policy_rule *own;
	int ret = check_granted_rule(r, e);

	if (ret < 0)
		return ret;
	own = malloc(sizeof(*own));
	if (!own)
		return err_set(e, -ENOMEM, "out of memory");
	*own = *r;
	own->id = (uint32_t)(POLICY_RULES_MAX + l->n);
	own->layer = POLICY_LAYERS_MAX;
	*r = POLICY_RULE_INIT;
	l->rules[l->n++] = own;
	return 0;
}

int policy_widen(struct policy *p, struct policy_rule *rules, size_t n, struct err *e)
{
	struct layer l = { 0 }, old = p->widened;
	int r = 0;

	if (n > POLICY_WIDENED_MAX)
		return err_set(e, -E2BIG, "at most %d rules can be granted on top", POLICY_WIDENED_MAX);
	l.rules = calloc(n + 1, sizeof(struct policy_rule *));
	if (!l.rules)
		return err_set(e, -ENOMEM, "out of memory");
	for (size_t i = 0; r == 0 && i < n; i++)
		r = add_granted_rule(&l, &rules[i], e);
	r = r < 0 ? r : layer_sort(&l, e);
	if (r == 0) {
		p->widened = l;
		r = p->sealed ? seal_digest(p, e) : 0;
	}
	if (r < 0) {
		p->widened = old;
		layer_release(&l);
		return r;
	}
	layer_release(&old);
	return 0;
}

size_t policy_widened(const struct policy *p, struct policy_rule *const **ret)
{
	if (ret)
		*ret = p->widened.rules;
	return p->widened.n;
}

bool policy_is_widened_by(const struct policy *p, const char *source)
{
	for (size_t i = 0; i < p->widened.n; i++) {
		if (str_eq(p->widened.rules[i]->source, source))
			return true;
	}
	return false;
}

bool widen_may_speak(const struct walk *w)
{
	return walk_is_any(w) && w->spec == ANY_PORT;
}

/* Fills in the verdict of a granted rule; false if the layer requires a proxy set and has none. */
static bool apply_grant(const struct layer *l, const struct walk *w, const struct policy_rule *r,
			const struct policy_entry *en, struct policy_verdict *v)
{
	if (l->opts.require_proxy_set && !l->opts.proxy_set[0])
		return false;
	verdict_by_rule(v, w, r, en, POLICY_ALLOW);
	v->terms.proxy_set = l->opts.proxy_set[0] ? l->opts.proxy_set : NULL;
	return true;
}

/* The same for a request that a rule of the policy does not list: the rule's terms still apply. */
static bool apply_grant_to_omitted(const struct walk *omitted, const struct walk *w,
				   const struct policy_rule *r, const struct policy_entry *en,
				   struct policy_verdict *v)
{
	const struct policy_terms terms = v->terms;

	if (omitted->l->opts.require_proxy_set && !terms.proxy_set)
		return false;
	verdict_by_rule(v, w, r, en, POLICY_ALLOW);
	v->terms = terms;
	terms_add_equals(omitted, v);
	return true;
}

bool widen_connect(const struct policy *p, const struct layer *l, const struct policy_target *t,
		   struct policy_verdict *v)
{
	const struct policy_rule *r, *listed = NULL;
	struct walk w, at = { 0 };

	if (!p->widened.n)
		return false;
	walk_begin(&w, &p->widened, t);
	while (walk_step(&w)) {
		size_t i = 0;

		while ((r = walk_rule(&w, &i))) {
			if (!r->n_entries)
				return apply_grant(l, &w, r, NULL, v);
			if (!listed) {
				listed = r;
				at = w;
			}
		}
	}
	return listed && apply_grant(l, &at, listed, NULL, v);
}

/* The entry of a granted rule that allows the request; NULL: none. */
static const struct policy_entry *find_granted_entry(const struct policy_rule *r,
						     const struct policy_request *q, struct slice path)
{
	for (size_t i = 0; i < r->n_entries; i++) {
		const struct policy_entry *en = &r->entries[i];

		if (en->methods & method_bit(q->method) && pathpat_match(en->path, path, 0))
			return en;
	}
	return NULL;
}

bool widen_request(const struct policy *p, const struct layer *l, const struct policy_target *t,
		   const struct policy_request *q, struct slice path, const struct walk *omitted,
		   struct policy_verdict *v)
{
	const struct policy_entry *en = NULL;
	const struct policy_rule *r;
	struct walk w;

	if (!p->widened.n)
		return false;
	walk_begin(&w, &p->widened, t);
	while (walk_step(&w)) {
		size_t i = 0;

		while ((r = walk_rule(&w, &i))) {
			en = find_granted_entry(r, q, path);
			if (en && omitted)
				return apply_grant_to_omitted(omitted, &w, r, en, v);
			if (!omitted && (en || !r->n_entries))
				return apply_grant(l, &w, r, en, v);
		}
	}
	return false;
}

/* ---- Is it worth requesting? ---- */

/* For a pattern, a name that no rule is likely to name by itself. */
static int sample_host(const struct policy_rule *r, struct host *ret)
{
	char name[HOST_MAX + 32];

	if (r->by_addr) {
		host_from_addr(&r->range.base, ret);
		return 0;
	}
	snprintf(name, sizeof(name), "%s%s", r->host.kind == HOSTPAT_BELOW ? "any-name-at-all." : "",
		 hostpat_base(&r->host));
	return host_canon(name, strlen(name), ret, NULL);
}

/* policy_widen.W1: has the policy no rule for it, or only `deny: "*"` for every port? */
static bool policy_has_no_rule(const struct policy_verdict *v)
{
	return v->is_default || (v->action == POLICY_DENY && v->rule && v->rule->action == POLICY_DENY &&
				 !v->entry && !v->rule->by_addr && v->rule->host.kind == HOSTPAT_ANY &&
				 !v->rule->n_entries && rule_port_spec(v->rule, 443) == ANY_PORT);
}

/* Judges the rule's first request by the policy alone. */
static void judge_first_request(const struct policy *base, const struct policy_target *t,
				const struct policy_entry *en, struct policy_verdict *v)
{
	autobuf struct buf method = BUF_INIT, path = BUF_INIT;
	struct policy_request q = { .is_body_known = true };

	method_format(en->methods, &method);
	pathpat_sample(en->path, "x", &path);
	q.method = str_starts(buf_cstr(&method), "*")
			   ? slice_of("GET")
			   : (struct slice){ method.data, strcspn(buf_cstr(&method), ",") };
	q.path = (struct slice){ buf_cstr(&path), path.len };
	policy_request(base, t, &q, v);
}

static int refuse_as_allowed(struct err *e)
{
	return err_set(e, -EEXIST, "the policy allows this already: no approval is needed");
}

int policy_widen_check(const struct policy *p, const struct policy_rule *r, struct err *e)
{
	struct policy base = *p;
	struct policy_target t = { 0 };
	autobuf struct buf why = BUF_INIT;
	struct policy_verdict v;
	struct host host;
	bool listed;
	int x = check_granted_rule(r, e);

	if (x < 0)
		return x;
	if (sample_host(r, &host) < 0)
		return err_set(e, -EINVAL, "a name of this form cannot be looked up");
	base.widened = (struct layer){ 0 };
	t.name = &host;
	t.port = r->ports[0].lo == 1 && r->ports[0].hi == 65535 ? 443 : r->ports[0].lo;
	policy_connect(&base, &t, &v);
	if (v.would_deny)
		return refuse_as_allowed(e);
	listed = policy_allows(&v) && v.rule && v.rule->n_entries;
	if (listed && !r->n_entries)
		return err_hint(e, err_set(e, -EPERM, "the policy lists what may be sent to this host"),
				"ask for single requests: METHOD https://HOST/PATH");
	if (listed)
		judge_first_request(&base, &t, &r->entries[0], &v);
	if (policy_allows(&v))
		return refuse_as_allowed(e);
	if (v.action == POLICY_ASK)
		return err_set(e, -EEXIST, "a person is asked about this when it is tried: just try it");
	if (policy_has_no_rule(&v) || v.is_omitted)
		return 0;
	policy_text_inside(v.why, &why); /* the agent that requests it reads this */
	return err_set(e, -EPERM, "the policy denies this, and a grant cannot override it: %s",
		       buf_cstr(&why));
}
