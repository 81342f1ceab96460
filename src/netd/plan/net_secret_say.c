/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notes for the person who starts a run, a line each: a secret that expires soon, and one that is named in
 * vain because no rule allows a request to its hosts. Names, hosts and dates only; nothing is decided here.
 */
#include "base/clock.h"
#include "netd/plan/net_secret_int.h"
#include "policy/policy.h"
#include "vault/client/schedule.h"

#include <errno.h>

#define DAY 86400u

static bool policy_may_reach(const struct policy *p, const struct binding *b)
{
	struct policy_verdict v;
	struct host h;
	const struct policy_target t = { .name = &h, .port = b->port ? b->port : BINDING_PORT };

	if (host_canon(b->host, strlen(b->host), &h, NULL) < 0)
		return true;
	policy_connect_quietly(p, &t, &v);
	return policy_may_allow(&v);
}

int net_secret_say_expiry(struct net_say *to, const char *name, uint64_t expires, uint64_t now)
{
	unsigned long long days = expires > now ? (expires - now) / DAY : 0;

	if (!to || !schedule_is_soon(expires, now))
		return 0;
	return strv_addf(to->lines,
			 "the secret '%s' expires in %llu day%s: coffer secret rotate %s --expires DATE",
			 name, days, days == 1 ? "" : "s", name);
}

bool net_secret_is_reached(const struct net_say *to, const struct binding *b, size_t n)
{
	for (size_t i = 0; to && i < n; i++) {
		if (b[i].as == BINDING_AS_PROXY || policy_may_reach(to->policy, &b[i]))
			return true;
	}
	return !to || !n;
}

/* `b` are the bindings of the grant: the secret's own, or if it is bound nowhere the requested ones. */
int net_secret_say_unreached(struct net_say *to, const char *name, const struct binding *b, size_t n)
{
	if (net_secret_is_reached(to, b, n))
		return 0;
	return strv_addf(to->lines, "secret '%s' will not be used: no rule allows %s. Add --allow %s%s", name,
			 b[0].host, b[0].host, b[0].as == BINDING_AS_SSH ? ":22" : "");
}
