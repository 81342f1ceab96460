/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collects what a run requests from the vault: --secret, the profile's offers, the policy's rules, issuers
 * and proxies, one entry for each name. Bits record who named it, which decides what happens if it is
 * unavailable (net_secret.S1) or bound nowhere (net_secret.S4). Contacts no process.
 */
#include "netd/plan/net_rule.h"
#include "netd/plan/net_secret_int.h"

#include <errno.h>
#include <string.h>

static struct vault_grant *find_or_add_ask(struct net_secrets *s, const char *name, struct err *e)
{
	struct vault_grant *g;

	for (size_t i = 0; i < s->ask.n; i++) {
		if (str_eq(s->ask.v[i].name, name))
			return &s->ask.v[i];
	}
	g = grants_add(&s->ask);
	if (!g) {
		err_set(e, -E2BIG, "a sandbox may use %d secrets at most", GRANTS_MAX);
		return NULL;
	}
	snprintf(g->name, sizeof(g->name), "%s", name);
	net_secret_env(name, g->env);
	return g;
}

/* "HOST[:PORT][/path],HOST…" */
static int add_typed_hosts(struct vault_grant *g, const char *hosts, const char *typed, struct err *e)
{
	while (*hosts) {
		size_t n = strcspn(hosts, ",");
		struct binding b = { 0 };
		int r;

		if (g->n_bindings == GRANTS_BINDINGS_MAX)
			return err_set(e, -E2BIG, "--secret %s: too many hosts", typed);
		r = binding_parse_host(hosts, n, BINDING_ASKED | BINDING_ADDRESS, &b, e);
		if (r < 0)
			return err_wrap(e, r, "--secret %s", typed);
		g->bindings[g->n_bindings++] = b;
		hosts += n + (hosts[n] == ',');
	}
	return 0;
}

static int take_typed_secret(struct net_secrets *s, const char *typed, struct err *e)
{
	const char *at = strchr(typed, '@');
	size_t n = at ? (size_t)(at - typed) : strlen(typed);
	char name[GRANTS_NAME_MAX + 1];
	struct vault_grant *g;

	if (n > GRANTS_NAME_MAX || n == 0 || (at && !at[1]))
		return err_set(e, -EINVAL, "--secret %s: expected NAME or NAME@HOST[,HOST]", typed);
	snprintf(name, sizeof(name), "%.*s", (int)n, typed);
	if (!str_is_name(name))
		return err_set(e, -EINVAL, "--secret %s: '%s' is not the name of a secret", typed, name);
	g = find_or_add_ask(s, name, e);
	if (!g)
		return -E2BIG;
	s->by_line |= 1ull << (g - s->ask.v);
	s->with_host |= at ? 1ull << (g - s->ask.v) : 0;
	return at ? add_typed_hosts(g, at + 1, typed, e) : 0;
}

int net_secret_check(const struct strv *named)
{
	struct net_secrets s = NET_SECRETS_INIT;
	struct err ignored = ERR_INIT;
	int r = 0;

	for (size_t i = 0; r == 0 && i < named->n; i++)
		r = take_typed_secret(&s, named->v[i], &ignored);
	net_secrets_release(&s);
	return r;
}

static bool has_pattern_rule(const struct config_policy *cp, const char *name)
{
	for (size_t i = 0; i < cp->n_secrets; i++) {
		if (str_eq(cp->secrets[i].name, name) && !cp->secrets[i].host[0])
			return true;
	}
	return false;
}

static int take_rule_secret(struct net_secrets *s, const struct config_policy *cp,
			    const struct config_secret *c, struct err *e)
{
	struct vault_grant *g = find_or_add_ask(s, c->name, e);

	if (!g)
		return -E2BIG;
	if (c->env[0])
		snprintf(g->env, sizeof(g->env), "%s", c->env);
	s->vague |= c->ask && !c->as[0] ? 1ull << (g - s->ask.v) : 0;
	if ((s->by_line | s->offered) & (1ull << (g - s->ask.v)))
		return net_rule_add(&s->rules, c, e);
	/* A rule for one host narrows the secret to that host; each request is judged by its own rule in any
	 * case. */
	return has_pattern_rule(cp, c->name) && !c->as[0] ? 0 : net_rule_narrow(g, c, e);
}

static int take_offered_secret(struct net_secrets *s, const struct net_offer *o, struct err *e)
{
	struct vault_grant *g;
	int r = net_offer_check(o, e);

	if (r < 0)
		return r;
	g = find_or_add_ask(s, o->name, e);
	if (!g)
		return -E2BIG;
	if (o->env && o->env->n)
		snprintf(g->env, sizeof(g->env), "%s", o->env->v[0]);
	s->offered |= 1ull << (g - s->ask.v);
	return 0;
}

int net_secret_ask(struct net_secrets *s, const struct config_policy *cp, const struct strv *named,
		   struct err *e)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < named->n; i++)
		r = take_typed_secret(s, named->v[i], e);
	for (size_t i = 0; r == 0 && s->offers && i < s->offers->n; i++)
		r = take_offered_secret(s, &s->offers->v[i], e);
	for (size_t i = 0; r == 0 && i < cp->n_secrets; i++)
		r = take_rule_secret(s, cp, &cp->secrets[i], e);
	if (r == 0)
		r = net_issue_ask(s, cp, e);
	return r < 0 ? r : net_proxy_ask(s, cp->policy, e);
}
