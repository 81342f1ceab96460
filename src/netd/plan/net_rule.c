/* SPDX-License-Identifier: Apache-2.0 */
/* Narrows the grants of a run by the rules of its policy (net_rule.h). Only ever narrows. */
#include "netd/plan/net_rule.h"

#include "base/str.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int add_rule_binding(struct vault_grant *g, const struct binding *b)
{
	for (size_t i = 0; i < g->n_bindings; i++) {
		if (binding_eq(&g->bindings[i], b))
			return 0;
	}
	if (g->n_bindings == GRANTS_BINDINGS_MAX)
		return -E2BIG;
	g->bindings[g->n_bindings++] = *b;
	return 0;
}

int net_rule_narrow(struct vault_grant *g, const struct config_secret *c, struct err *e)
{
	struct binding b = { .port = c->port };
	int r;

	if (c->as[0] && !c->host[0])
		return err_set(e, -EINVAL, "the secret '%s': 'as' needs a rule for one host, not a pattern",
			       c->name);
	if (!c->host[0])
		return 0;
	snprintf(b.host, sizeof(b.host), "%s", c->host);
	snprintf(b.path, sizeof(b.path), "/");
	r = c->as[0] ? binding_parse_as(c->as, strlen(c->as), &b, e) : 0;
	if (r < 0)
		return err_wrap(e, r, "the secret '%s' of the policy", c->name);
	/* Without this error the rule would silently have no effect. */
	return add_rule_binding(g, &b) < 0
		       ? err_set(e, -E2BIG, "the secret '%s' has too many rules (at most %d)", c->name,
				 GRANTS_BINDINGS_MAX)
		       : 0;
}

int net_rule_add(struct vault_grants *rules, const struct config_secret *c, struct err *e)
{
	struct vault_grant *g = NULL;

	for (size_t i = 0; i < rules->n && !g; i++)
		g = str_eq(rules->v[i].name, c->name) ? &rules->v[i] : NULL;
	g = g ? g : grants_add(rules);
	if (!g)
		return err_set(e, -E2BIG, "a sandbox may use %d secrets at most", GRANTS_MAX);
	snprintf(g->name, sizeof(g->name), "%s", c->name);
	return net_rule_narrow(g, c, e);
}

/* The part of one binding that the rules for its host leave; without such a rule, all of it. */
static int apply_rules_to_binding(const struct vault_grant *rules, const struct binding *b,
				  struct vault_grant *out)
{
	bool is_ruled = false;
	int r = 0;

	for (size_t i = 0; i < rules->n_bindings && r == 0; i++) {
		const struct binding *rule = &rules->bindings[i];
		struct binding both;

		if (!str_eq(rule->host, b->host) || (rule->port && rule->port != b->port))
			continue;
		is_ruled = true;
		if (binding_meet(b, rule, &both))
			r = add_rule_binding(out, &both);
	}
	return is_ruled ? r : add_rule_binding(out, b);
}

bool net_rule_apply(const struct vault_grants *rules, struct vault_grant *g)
{
	const struct vault_grant *said = grants_by_name(rules, g->name);
	struct vault_grant out = *g;

	if (!said)
		return true;
	out.n_bindings = 0;
	for (size_t i = 0; i < g->n_bindings; i++) {
		if (apply_rules_to_binding(said, &g->bindings[i], &out) < 0)
			return false;
	}
	if (out.n_bindings == 0)
		return false;
	*g = out;
	return true;
}

static bool is_same_host_and_port(const struct binding *rule, const struct binding *b)
{
	return str_eq(rule->host, b->host) && (!rule->port || !b->port || rule->port == b->port);
}

void net_rule_sign(const struct vault_grants *rules, struct vault_grant *g)
{
	const struct vault_grant *said = grants_by_name(rules, g->name);
	bool open = g->n_bindings == 0, asks = false;

	for (size_t i = 0; said && i < said->n_bindings; i++)
		asks = asks || binding_asks(&said->bindings[i]);
	for (size_t i = 0; asks && i < said->n_bindings; i++) {
		const struct binding *rule = &said->bindings[i];

		if (open)
			g->bindings[g->n_bindings++] = *rule;
		for (size_t k = 0; !open && binding_asks(rule) && k < g->n_bindings; k++) {
			struct binding *b = &g->bindings[k];

			if (!is_same_host_and_port(rule, b))
				continue;
			b->as = BINDING_AS_SSH;
			(void)!binding_set_ask(b, NULL);
		}
	}
}
