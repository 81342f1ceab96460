/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules that a person granted on top of the policy (ASK_WIDEN): puts them in force and removes them again, by
 * the list of approvals; those of a session are in that list once it is served. The policy files are not read
 * for it, so that a broken one neither keeps a rule nor removes one.
 */
#include "base/cleanup.h"
#include "config/edit/widen.h"
#include "netd/serve/net_int.h"

#include <errno.h>
#include <string.h>

int net_widen_check(struct net_guard *g, const char *rule, struct buf *canon, struct err *e)
{
	CLEANUP(policy_rule_release) struct policy_rule r = POLICY_RULE_INIT;
	int x = widen_parse(rule, &r, canon, e);

	if (x < 0)
		return x;
	/* Running programs have read their trust store: without room for a certificate TLS cannot be
	 * inspected. */
	if (r.n_entries && r.ports[0].lo != 80 && !g->ca_told && g->room[0] < 0)
		return err_set(
			e, -EINVAL,
			"TLS is not inspected in this sandbox, so single requests cannot be granted: ask for the host");
	return policy_widen_check(g->c.plan->cp.policy, &r, e);
}

static int collect_granted_rules(const struct net_guard *g, struct strv *rules, struct strv *ids,
				 struct err *e)
{
	const struct ask *a = NULL;

	while ((a = asks_next(g->serve.asks, a)) != NULL) {
		struct ask_view v;

		ask_view(g->serve.asks, a, &v);
		if (v.q.kind != ASK_WIDEN || v.state != ASK_GRANTED)
			continue;
		if (strv_add(rules, v.q.what) < 0 || strv_add(ids, v.id) < 0)
			return err_set(e, -ENOMEM, "out of memory");
	}
	return 0;
}

static bool list_has(const struct strv *l, const char *s)
{
	for (size_t i = 0; i < l->n; i++) {
		if (str_eq(l->v[i], s))
			return true;
	}
	return false;
}

/* Is one of these to be removed? */
static bool removes_any(const struct strv *before, const struct strv *after)
{
	for (size_t i = 0; i < before->n; i++) {
		if (!list_has(after, before->v[i]))
			return true;
	}
	return false;
}

static void swap_lists(struct strv *a, struct strv *b)
{
	struct strv t = *a;

	*a = *b;
	*b = t;
}

static void report_rules(struct net_guard *g, const struct strv *before, const struct strv *after,
			 const char *what, const struct strv *rules)
{
	for (size_t i = 0; i < after->n; i++) {
		if (!list_has(before, after->v[i]))
			net_say(g, NET_LEVEL_NOTE, "%.200s %s (question %s)", rules->v[i], what, after->v[i]);
	}
}

int net_widen_apply(struct net_guard *g, struct err *e)
{
	struct net_plan *p = g->c.plan;
	CLEANUP(strv_release) struct strv rules = STRV_INIT, ids = STRV_INIT;
	char before[sizeof(p->digest)];
	int r = collect_granted_rules(g, &rules, &ids, e);
	bool narrower = r < 0 || removes_any(&p->widen_by, &ids);

	memcpy(before, p->digest, sizeof(before));
	/* From here on `rules` and `ids` are the former ones. */
	swap_lists(&p->widen, &rules);
	swap_lists(&p->widen_by, &ids);
	r = r < 0 ? r : net_plan_widen(p, e);
	if (r == 1) {
		r = net_policy_changed(g, before, NULL, e);
		if (r == 0) {
			report_rules(g, &ids, &p->widen_by, "is open now: a person granted it", &p->widen);
			report_rules(g, &p->widen_by, &ids, "is closed again", &rules);
			return 0;
		}
	}
	if (r == 0)
		return 0;
	/* A rule that cannot be removed would stay open, so the sandbox is ended. */
	if (narrower) {
		net_fail(g, "an expired rule cannot be removed from the policy: %s", e->msg);
		return r;
	}
	swap_lists(&p->widen, &rules);
	swap_lists(&p->widen_by, &ids);
	if (net_plan_widen(p, NULL) < 0)
		net_fail(g, "the previous policy cannot be restored");
	return r;
}

/* granted.G4: from here on revocations reach us; rules revoked since the plan was made are not in the list.
 * If an asker serves in our place (askhold.h) there are none until it has exited. */
int net_widen_begin(struct net_guard *g, struct err *e)
{
	if (!g->c.plan->widen.n)
		return 0;
	net_ask_listen(g);
	return net_widen_apply(g, e);
}
