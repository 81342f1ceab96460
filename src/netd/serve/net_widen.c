/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules that a person granted on top of the policy (ASK_WIDEN): from the list of questions into the policy that is in force, and
 * out of it again; those of a session are in that list too, once it is served. The files are not read for it,
 * so that a broken one neither keeps a rule in nor lets one out.
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
	/* Programs that run have read whom to trust: without room for a certificate nothing can be looked into. */
	if (r.n_entries && r.ports[0].lo != 80 && !g->ca_told && g->room[0] < 0)
		return err_set(
			e, -EINVAL,
			"TLS is not looked into in this sandbox, so single requests cannot be granted: ask for the host");
	return policy_widen_check(g->c.plan->cp.policy, &r, e);
}

static int collect(const struct net_guard *g, struct strv *rules, struct strv *ids, struct err *e)
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

static bool has(const struct strv *l, const char *s)
{
	for (size_t i = 0; i < l->n; i++) {
		if (str_eq(l->v[i], s))
			return true;
	}
	return false;
}

/* Is one of these to be taken away? */
static bool is_narrower(const struct strv *before, const struct strv *after)
{
	for (size_t i = 0; i < before->n; i++) {
		if (!has(after, before->v[i]))
			return true;
	}
	return false;
}

static void swap(struct strv *a, struct strv *b)
{
	struct strv t = *a;

	*a = *b;
	*b = t;
}

static void say(struct net_guard *g, const struct strv *before, const struct strv *after, const char *what,
		const struct strv *rules)
{
	for (size_t i = 0; i < after->n; i++) {
		if (!has(before, after->v[i]))
			net_say(g, NET_LEVEL_NOTE, "%.200s %s (question %s)", rules->v[i], what, after->v[i]);
	}
}

int net_widen_apply(struct net_guard *g, struct err *e)
{
	struct net_plan *p = g->c.plan;
	CLEANUP(strv_release) struct strv rules = STRV_INIT, ids = STRV_INIT;
	char before[sizeof(p->digest)];
	int r = collect(g, &rules, &ids, e);
	bool narrower = r < 0 || is_narrower(&p->widen_by, &ids);

	memcpy(before, p->digest, sizeof(before));
	/* From here on `rules` and `ids` are those from before. */
	swap(&p->widen, &rules);
	swap(&p->widen_by, &ids);
	r = r < 0 ? r : net_plan_widen(p, e);
	if (r == 1) {
		r = net_policy_changed(g, before, e);
		if (r == 0) {
			say(g, &ids, &p->widen_by, "is open now: a person granted it", &p->widen);
			say(g, &p->widen_by, &ids, "is closed again", &rules);
			return 0;
		}
	}
	if (r == 0)
		return 0;
	/* What cannot be taken away would stay open. */
	if (narrower) {
		net_fail(g, "a rule that is over cannot be taken out of the policy: %s", e->msg);
		return r;
	}
	swap(&p->widen, &rules);
	swap(&p->widen_by, &ids);
	if (net_plan_widen(p, NULL) < 0)
		net_fail(g, "the policy cannot be put back as it was");
	return r;
}

/* G4 of granted.h: from here on whoever takes one back tells us; what was taken back since the plan was made
 * is not in the list. If somebody serves in our place (askhold.h) there are none until it has left. */
int net_widen_begin(struct net_guard *g, struct err *e)
{
	if (!g->c.plan->widen.n)
		return 0;
	net_ask_listen(g);
	return net_widen_apply(g, e);
}
