/* SPDX-License-Identifier: Apache-2.0 */
/* Decisions on connections: names, targets, and the addresses that names resolve to. Requests are decided in
 * request.c. Pure. */
#include "policy/policy_int.h"

#include "base/str.h"

#include <string.h>

/* The rules of one step that match a connection, by action. */
struct step {
	const struct policy_rule *deny, *ask, *allow; /* the first rule of each action without entries */
	/* the first allow with entries, preferably one that lets a request through */
	const struct policy_rule *listed;
	bool opens; /* some entry allows or asks */
	bool entries;
};

/* Adds one matching rule. */
static void add_to_step(const struct policy_rule *r, struct step *s)
{
	const struct policy_rule **slot[] = { &s->deny, &s->ask, &s->allow };

	if (r->n_entries == 0) {
		if (!*slot[r->action])
			*slot[r->action] = r;
		return;
	}
	s->entries = true;
	if (r->action == POLICY_DENY)
		return;
	if (!s->listed)
		s->listed = r;
	for (size_t i = 0; i < r->n_entries && !s->opens; i++) {
		if (r->entries[i].action != POLICY_DENY) {
			s->opens = true;
			s->listed = r;
		}
	}
}

static struct step read_step(const struct walk *w)
{
	const struct policy_rule *r;
	struct step s = { 0 };
	size_t at = 0;

	while ((r = walk_rule(w, &at)))
		add_to_step(r, &s);
	return s;
}

void terms_add_equals(const struct walk *w, struct policy_verdict *v)
{
	const struct policy_rule *r;
	size_t at = 0;

	while ((r = walk_rule(w, &at))) {
		if (r->action == POLICY_DENY)
			continue;
		v->terms.limits = limits_lower(v->terms.limits, &r->limits);
		v->terms.credentials_only = v->terms.credentials_only || r->credentials_only;
		v->terms.secret_ask = v->terms.secret_ask || r->secret_ask;
		v->terms.capture = v->terms.capture ? v->terms.capture : r->capture[0] ? r->capture : NULL;
		if (policy_rule_depth(r) > v->depth)
			v->depth = policy_rule_depth(r);
	}
}

/* A step decides unless it only denies single requests. */
static bool decide_step(const struct policy *p, const struct walk *w, const struct step *s,
			struct policy_verdict *v)
{
	if (s->listed && s->opens) {
		verdict_by_rule(v, w, s->listed, NULL, POLICY_ALLOW);
	} else if (s->deny) {
		verdict_by_rule(v, w, s->deny, NULL, POLICY_DENY);
	} else if (s->listed) {
		verdict_by_rule(v, w, s->listed, NULL, POLICY_DENY);
		verdict_why(v, "the rule %s allows none of the requests that it names", v->rule_text);
		if (p->mode == POLICY_OBSERVE)
			verdict_observe(v);
	} else if (s->ask) {
		verdict_by_rule(v, w, s->ask, NULL, POLICY_ASK);
	} else if (s->allow) {
		verdict_by_rule(v, w, s->allow, NULL, POLICY_ALLOW);
	} else {
		return false;
	}
	if (v->action != POLICY_DENY)
		terms_add_equals(w, v);
	return true;
}

/* Judges a connection by one layer: the most specific step that decides, otherwise granted rules, otherwise
 * the default. */
static void connect_layer(const struct policy *p, const struct layer *l, const struct policy_target *t,
			  struct policy_verdict *v)
{
	bool entries = false;
	struct walk w;

	walk_begin(&w, l, t);
	while (walk_step(&w)) {
		struct step s = read_step(&w);

		entries = entries || s.entries;
		if (widen_may_speak(&w) && widen_connect(p, l, t, v)) {
			v->depth = entries ? POLICY_INSPECT : v->depth;
			return;
		}
		if (decide_step(p, &w, &s, v)) {
			if (entries)
				v->depth = POLICY_INSPECT;
			return;
		}
	}
	if (widen_connect(p, l, t, v)) {
		v->depth = entries ? POLICY_INSPECT : v->depth;
		return;
	}
	verdict_default(v, p, t, entries);
	if (l->opts.proxy_set[0])
		v->terms.proxy_set = l->opts.proxy_set;
}

/* Stands in for the layers of a policy that has none: no rule. */
static const struct layer no_rules;

/* policy.P5: denies a special address. False: it is global. */
static bool refuse_special_addr(const struct policy_target *t, const struct addr *a, struct policy_verdict *v)
{
	enum addr_class c = addr_special(a);
	char text[ADDR_TEXT_LEN], target[TARGET_TEXT_MAX];

	if (c == ADDR_GLOBAL)
		return false;
	*v = (struct policy_verdict){ .rule_id = POLICY_RULE_NONE };
	memcpy(v->rule_text, "special addresses", sizeof("special addresses"));
	if (target_name(t))
		verdict_why(v, "%s leads to %s, which is %s", target_text(t, target), addr_format(a, text),
			    addr_special_name(c));
	else
		verdict_why(v, "%s is %s", addr_format(a, text), addr_special_name(c));
	v->hint = "only a rule with 'to:' can lead there";
	return true;
}

void connect_quietly(const struct policy *p, const struct policy_target *t, struct policy_verdict *ret)
{
	const struct host *name = target_name(t);
	struct addr a = { 0 };

	BUG_ON(!p->sealed);
	if (!name)
		a = target_addr(t);
	if (name ? verdict_blocked(p, name, ret) : refuse_special_addr(t, &a, ret))
		return;
	if (p->n_layers == 0)
		connect_layer(p, &no_rules, t, ret);
	for (unsigned i = 0; i < p->n_layers; i++) {
		struct policy_verdict v;

		connect_layer(p, &p->layers[i], t, i ? &v : ret);
		if (i)
			verdict_merge(ret, &v);
	}
}

void policy_connect_quietly(const struct policy *p, const struct policy_target *t, struct policy_verdict *ret)
{
	connect_quietly(p, t, ret);
	if (ret->would_deny)
		verdict_words(ret);
}

void policy_connect(const struct policy *p, const struct policy_target *t, struct policy_verdict *ret)
{
	connect_quietly(p, t, ret);
	verdict_words(ret);
}

/* The most specific rule for an address that a name resolved to: only a denial matters. */
static bool addr_is_denied(const struct layer *l, const struct addr *a, uint16_t port,
			   struct policy_verdict *v)
{
	struct policy_target t = { .addr = *a, .port = port };
	struct walk w;

	walk_begin(&w, l, &t);
	while (walk_step(&w) && !walk_is_any(&w)) {
		struct step s = read_step(&w);

		if (s.deny || s.ask) {
			verdict_by_rule(v, &w, s.deny ? s.deny : s.ask, NULL, POLICY_DENY);
			return true;
		}
		if (s.allow || s.listed)
			return false;
	}
	return false;
}

void policy_address_quietly(const struct policy *p, const struct policy_target *t,
			    const struct addr *resolved, struct policy_verdict *ret)
{
	char text[ADDR_TEXT_LEN];

	policy_connect_quietly(p, t, ret);
	if (!policy_may_allow(ret))
		return;
	if (ret->terms.has_pin) {
		if (addr_eq(&ret->terms.pin, resolved))
			return;
		verdict_words(ret);
		ret->action = POLICY_DENY;
		verdict_why(ret, "%s pins another address than %s", ret->rule_text,
			    addr_format(resolved, text));
		return;
	}
	if (refuse_special_addr(t, resolved, ret) || !target_name(t))
		return;
	for (unsigned i = 0; i < p->n_layers; i++) {
		if (addr_is_denied(&p->layers[i], resolved, t->port, ret))
			return;
	}
}

void policy_address(const struct policy *p, const struct policy_target *t, const struct addr *resolved,
		    struct policy_verdict *ret)
{
	policy_address_quietly(p, t, resolved, ret);
	verdict_words(ret);
}

void policy_alias(const struct policy *p, const struct host *name, struct policy_verdict *ret)
{
	struct policy_target t = { .name = name, .port = 443 };

	*ret = (struct policy_verdict){ .action = POLICY_ALLOW, .rule_id = POLICY_RULE_NONE };
	if (name->kind != HOST_NAME) {
		*ret = (struct policy_verdict){ .rule_id = POLICY_RULE_NONE };
		return;
	}
	if (verdict_blocked(p, name, ret))
		return;
	for (unsigned i = 0; i < p->n_layers; i++) {
		struct walk w;

		walk_begin(&w, &p->layers[i], &t);
		while (walk_step(&w) && !walk_is_any(&w)) {
			struct step s = read_step(&w);

			if (s.deny && !s.opens) {
				verdict_by_rule(ret, &w, s.deny, NULL, POLICY_DENY);
				return;
			}
			if (s.allow || s.listed || s.ask)
				break;
		}
	}
}

/* Tries one port; true if the name can be reached there. */
static bool try_name_on_port(const struct policy *p, const struct host *name, unsigned port,
			     struct policy_verdict *ret)
{
	struct policy_target t = { .name = name, .port = (uint16_t)port };

	if (port == 0 || port > 65535)
		return false;
	policy_connect_quietly(p, &t, ret);
	return policy_may_allow(ret);
}

/* All ports between two borders of port ranges in rules have the same result, so testing the borders
 * suffices. */
static bool try_name_on_borders(const struct policy *p, const struct layer *l, const struct host *name,
				struct policy_verdict *ret)
{
	struct policy_target t = { .name = name };
	struct walk w;

	walk_begin(&w, l, &t);
	while (walk_level(&w)) {
		for (size_t i = w.lo; i < w.hi; i++) {
			const struct policy_rule *r = w.set[i];

			for (unsigned k = 0; k < r->n_ports; k++) {
				if (try_name_on_port(p, name, r->ports[k].lo, ret) ||
				    try_name_on_port(p, name, r->ports[k].hi + 1u, ret))
					return true;
			}
		}
	}
	return false;
}

void policy_name_quietly(const struct policy *p, const struct host *name, struct policy_verdict *ret)
{
	if (name->kind != HOST_NAME) {
		*ret = (struct policy_verdict){ .rule_id = POLICY_RULE_NONE };
		verdict_why(ret, "an address is not a name to look up");
		return;
	}
	if (try_name_on_port(p, name, 443, ret) || try_name_on_port(p, name, 80, ret) ||
	    try_name_on_port(p, name, 1, ret))
		return;
	if (!verdict_blocked(p, name, ret)) {
		for (unsigned i = 0; i < p->n_layers; i++) {
			if (try_name_on_borders(p, &p->layers[i], name, ret))
				return;
		}
		if (try_name_on_borders(p, &p->widened, name, ret))
			return;
		try_name_on_port(p, name, 443, ret);
	}
}

void policy_name(const struct policy *p, const struct host *name, struct policy_verdict *ret)
{
	policy_name_quietly(p, name, ret);
	verdict_words(ret);
}
