/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides what may be dialled: judges a request by the policy, and each address that its name resolved to
 * (dial.L1 to dial.L3). It must not resolve or connect anything.
 */
#include "dial/dial_int.h"

#include "base/cleanup.h"
#include "base/str.h"

#include <errno.h>

static int deny_request(char why[DIAL_WHY_LEN], int status, const char *text)
{
	snprintf(why, DIAL_WHY_LEN, "%.*s", DIAL_WHY_LEN - 1, text);
	return status;
}

/* The proxy set of dial's own rule takes precedence; one that egress names is never dropped. */
static int choose_proxy_set(struct dial_plan *p, const struct dial_req *q, const struct policy_terms *t,
			    char why[DIAL_WHY_LEN])
{
	const char *name = t->proxy_set ? t->proxy_set : q->proxy_set;

	if (strlen(name) >= sizeof(p->proxy_set))
		return deny_request(why, -EACCES, "the name of the proxy set is too long");
	memcpy(p->proxy_set, name, strlen(name) + 1);
	return 0;
}

static bool is_special_addr_request(const struct dial_req *q, const struct addr *a)
{
	return q->kind == DIAL_ADDR && addr_special(a) != ADDR_GLOBAL;
}

int dial_plan(struct dial *d, const struct dial_req *q, struct dial_plan *ret, char why[DIAL_WHY_LEN])
{
	struct policy_verdict v = { 0 };

	*ret = (struct dial_plan){ .port = q->port };
	if (!d->policy)
		return deny_request(why, -EACCES, d->why_none);
	if (q->kind == DIAL_ADDR) {
		memcpy(ret->addr.b, q->addr, sizeof(ret->addr.b));
		host_from_addr(&ret->addr, &ret->name);
	} else if (host_canon(q->host, strlen(q->host), &ret->name, NULL) < 0) {
		return deny_request(why, -EACCES, "not a host name");
	}
	ret->to = (struct policy_target){ .name = &ret->name, .addr = ret->addr, .port = q->port };
	ret->generation = policy_generation(d->policy);
	if (q->port)
		policy_connect_quietly(d->policy, &ret->to, &v);
	else
		policy_name_quietly(d->policy, &ret->name, &v);
	/* Asks are made by coffer-egress, before the request comes here. */
	if (!policy_may_allow(&v))
		return deny_request(why, is_special_addr_request(q, &ret->addr) ? -EPERM : -EACCES, v.why);
	if (v.terms.has_pin) {
		ret->is_pinned = true;
		ret->addr = v.terms.pin;
		ret->port = v.terms.pin_port;
	}
	return choose_proxy_set(ret, q, &v.terms, why);
}

/* Why an address is not dialled, and for a name, how a policy can allow it nevertheless. */
static int refuse_address(const struct dial_plan *p, const struct addr *a, const char *what,
			  char why[DIAL_WHY_LEN])
{
	char text[ADDR_TEXT_LEN];

	snprintf(why, DIAL_WHY_LEN, "%s is %s%s", addr_format(a, text), what,
		 p->name.kind == HOST_NAME ? "; only a rule with 'to:' in a policy file leads there" : "");
	return -EPERM;
}

static int judge_addr_by_policy(struct dial *d, const struct dial_plan *p, const struct addr *a,
				char why[DIAL_WHY_LEN])
{
	struct policy_target to = p->to;
	struct policy_verdict v = { 0 };
	enum addr_class class = addr_special(a);

	to.name = &p->name;
	/* The policy says the same; this check is a second line of defence. */
	if (class != ADDR_GLOBAL && !p->is_pinned)
		return refuse_address(p, a, addr_special_name(class), why);
	/* Without a port only the address itself can be judged; a request to connect has one. */
	if (!to.port)
		return 0;
	policy_address_quietly(d->policy, &to, a, &v);
	return policy_may_allow(&v) ? 0 : deny_request(why, -EACCES, v.why);
}

int dial_judge_one(struct dial *d, const struct dial_plan *p, const struct addr *a, char why[DIAL_WHY_LEN])
{
	char text[ADDR_TEXT_LEN];
	int r = judge_addr_by_policy(d, p, a, why);

	/* A proxy does not connect from this host, and a pinned address was named by the policy's author. */
	if (r < 0 || p->is_pinned || *p->proxy_set)
		return r;
	r = dial_is_own(&d->own, a);
	if (r == 0)
		return 0;
	if (r == 1)
		return refuse_address(p, a, "this host itself", why);
	addr_format(a, text);
	snprintf(why, DIAL_WHY_LEN, "%s cannot be reached from here: %s", text, strerror(-r));
	return r;
}

static void alert_special_address(struct dial *d, const struct dial_plan *p, const char *why)
{
	struct json *l = journal_begin(&d->journal, "alert");

	journal_str(l, "kind", "special_address", 64);
	journal_str(l, "name", p->name.text, HOST_MAX);
	if (p->to.port)
		json_u64(l, "port", p->to.port);
	journal_str(l, "text", why, DIAL_WHY_LEN);
	journal_end(&d->journal);
}

static int judge_cname_targets(struct dial *d, const struct resolve_answer *a, char why[DIAL_WHY_LEN])
{
	for (size_t i = 0; i < a->n_aliases; i++) {
		struct policy_verdict v = { 0 };

		policy_alias(d->policy, &a->aliases[i], &v);
		if (policy_allows(&v))
			continue;
		snprintf(why, DIAL_WHY_LEN, "the name is an alias of %.50s: %.70s", a->aliases[i].text,
			 v.why);
		return -EACCES;
	}
	return 0;
}

/* Ranks errors by their value to a person: -EPERM first, an unreachable address last. */
static bool error_is_more_specific(int a, int b)
{
	return b == 0 || a == -EPERM || (a == -EACCES && b != -EPERM);
}

int dial_judge(struct dial *d, const struct dial_plan *p, struct resolve_answer *a,
	       struct addr ret[RACE_ADDRS_MAX], size_t *ret_n, char why[DIAL_WHY_LEN])
{
	int worst = 0, r = judge_cname_targets(d, a, why);
	size_t n = 0;

	for (size_t i = 0; r == 0 && i < a->n_addrs && n < RACE_ADDRS_MAX; i++) {
		char this_why[DIAL_WHY_LEN];
		int one = dial_judge_one(d, p, &a->addrs[i], this_why);

		if (one == 0) {
			ret[n++] = a->addrs[i];
			continue;
		}
		if (one == -EPERM && !a->was_told)
			alert_special_address(d, p, this_why);
		if (error_is_more_specific(one, worst)) {
			worst = one;
			memcpy(why, this_why, DIAL_WHY_LEN);
		}
	}
	a->was_told = true;
	*ret_n = n;
	return r < 0 ? r : n ? 0 : worst;
}

int dial_plan_holds(struct dial *d, const struct dial_plan *p, const struct dial_req *q, const struct addr *a,
		    char why[DIAL_WHY_LEN])
{
	struct dial_plan now;
	int r;

	if (d->policy && policy_generation(d->policy) == p->generation)
		return 0;
	r = dial_plan(d, q, &now, why);
	if (r < 0)
		return r;
	if (!str_eq(now.proxy_set, p->proxy_set) || now.is_pinned != p->is_pinned || now.port != p->port ||
	    (now.is_pinned && !addr_eq(&now.addr, &p->addr)))
		return deny_request(why, -EACCES, "the policy changed while the connection was being made");
	return a ? judge_addr_by_policy(d, &now, a, why) : 0;
}
