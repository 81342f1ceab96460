/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Credentials of upstream proxies that are in the vault (`secret:` of a proxy set): coffer-dial has a channel
 * of its own to ask for these and nothing else, each for the proxies of its sets. Neither launcher nor guard
 * sees one.
 */
#include "base/fd.h"
#include "netd/plan/net_secret.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

static int add_proxy_binding(struct vault_grant *g, const struct policy_proxies *set,
			     const struct policy_proxy *x, struct err *e)
{
	struct binding b = { .port = x->port, .as = BINDING_AS_PROXY, .path = "/" };

	memcpy(b.host, x->host.text, strlen(x->host.text) + 1);
	for (size_t i = 0; i < g->n_bindings; i++) {
		if (binding_eq(&g->bindings[i], &b))
			return 0;
	}
	if (g->n_bindings == GRANTS_BINDINGS_MAX)
		return err_set(e, -E2BIG, "the proxy set '%s': one secret is for at most %d proxies",
			       set->name, GRANTS_BINDINGS_MAX);
	g->bindings[g->n_bindings++] = b;
	return 0;
}

static struct vault_grant *find_or_add_proxy_ask(struct net_secrets *s, const char *name)
{
	for (size_t i = 0; i < s->proxies.n; i++) {
		if (str_eq(s->proxies.v[i].name, name))
			return &s->proxies.v[i];
	}
	return grants_add(&s->proxies);
}

int net_proxy_ask(struct net_secrets *s, const struct policy *p, struct err *e)
{
	const struct policy_proxies *sets = NULL;
	size_t n = policy_proxies(p, &sets);
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++) {
		struct vault_grant *g = sets[i].secret[0] ? find_or_add_proxy_ask(s, sets[i].secret) : NULL;

		if (!sets[i].secret[0])
			continue;
		if (!g)
			return err_set(e, -E2BIG, "too many secrets for proxies");
		snprintf(g->name, sizeof(g->name), "%s", sets[i].secret);
		for (size_t k = 0; k < sets[i].n_proxies && r == 0; k++)
			r = add_proxy_binding(g, &sets[i], &sets[i].proxies[k], e);
	}
	return r;
}

/* A sandbox has two channels, so this one has a suffix. */
static void dial_channel_name(const char *id, char out[VAULT_NAME_MAX + 1])
{
	snprintf(out, VAULT_NAME_MAX + 1, "%.50s.dial", id);
}

static int grant_proxy_secrets(struct net_secrets *s, const struct vault_grants *ask, const char *id,
			       int theirs, struct vault_grants *ret, struct err *e)
{
	char name[VAULT_NAME_MAX + 1];

	dial_channel_name(id, name);
	return vault_grant(&s->vault, name, ask, theirs, -1, ret, e);
}

static int make_vault_pair(int *ours, int *theirs, struct err *e)
{
	int sv[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sv) < 0)
		return err_sys(e, -errno, "cannot make a socket pair");
	*ours = sv[0];
	*theirs = sv[1];
	return 0;
}

/* With these errors the vault itself is unusable; others concern one secret only. */
static bool is_vault_gone(int r)
{
	return r == -EPIPE || r == -EPROTO || r == -ENOMEM;
}

static bool covers_all_proxies(const struct vault_grant *ask, const struct vault_grant *got)
{
	for (size_t i = 0; i < ask->n_bindings; i++) {
		if (!grants_binding(got, ask->bindings[i].host, ask->bindings[i].port, slice_of("/"),
				    BINDING_AS_PROXY, NULL))
			return false;
	}
	return true;
}

int net_proxy_check(struct net_secrets *s, const char *id, struct err *e)
{
	autogrants struct vault_grants got = GRANTS_INIT;
	autoclose int ours = -1, theirs = -1;
	int r;

	if (s->proxies.n == 0)
		return 0;
	r = make_vault_pair(&ours, &theirs, e);
	if (r == 0)
		r = grant_proxy_secrets(s, &s->proxies, id, theirs, &got, e);
	for (size_t i = 0; r == 0 && i < s->proxies.n; i++) {
		const struct vault_grant *a = &s->proxies.v[i];

		if (i < got.n && covers_all_proxies(a, &got.v[i]))
			continue;
		r = err_set(e, -EACCES, "the secret '%s' is not bound to every proxy of its proxy set",
			    a->name);
	}
	if (r == -EACCES)
		err_hint(e, r, "coffer secret bind %s --host HOST:PORT --as proxy", s->proxies.v[0].name);
	return r < 0 ? err_wrap(e, r, "a proxy's credential") : 0;
}

/* The credentials available now: one that was removed or unbound does not affect the others. */
static int collect_available(struct net_secrets *s, const char *id, struct vault_grants *ask, struct err *e)
{
	for (size_t i = 0; i < s->proxies.n; i++) {
		autogrants struct vault_grants got = GRANTS_INIT;
		struct vault_grants one = { .v = &s->proxies.v[i], .n = 1 };
		autoclose int ours = -1, theirs = -1;
		struct vault_grant *g;
		int r = make_vault_pair(&ours, &theirs, e);

		if (r == 0)
			r = grant_proxy_secrets(s, &one, id, theirs, &got, e);
		if (r < 0 && is_vault_gone(r))
			return r;
		*e = ERR_INIT;
		if (r < 0)
			continue;
		g = grants_add(ask);
		if (!g)
			return err_set(e, -ENOMEM, "out of memory");
		*g = s->proxies.v[i];
	}
	return 0;
}

int net_proxy_grant(struct net_secrets *s, const char *id, struct vault_grants *ret, int *ret_channel,
		    struct err *e)
{
	autogrants struct vault_grants ask = GRANTS_INIT;
	autoclose int ours = -1, theirs = -1;
	int r = collect_available(s, id, &ask, e);

	if (r == 0)
		r = make_vault_pair(&ours, &theirs, e);
	if (r == 0 && ask.n)
		r = grant_proxy_secrets(s, &ask, id, theirs, ret, e);
	if (r == 0)
		*ret_channel = TAKE_FD(ours);
	return r;
}
