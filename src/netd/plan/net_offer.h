/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Offers: the secrets that a profile names for its agent, their variables, and the hosts they are sent to.
 * They are used if the vault has them and reported if it has not; none of that is an error.
 *
 * Invariants (cited elsewhere as net_offer.O1 …)
 * O1  If the vault binds a secret, that binding counts and the profile's host does not: an agent configured
 *     for another server gets its key there if the key is bound there.
 * O2  The profile's host counts for a secret that is bound nowhere, and only if the profile is built in or in
 *     the user's own directory. A profile named by its path may have come with a foreign project, as a policy
 *     file may.
 * O3  The agent gets a secret only if a rule allows one of the hosts that it is sent to: of several secrets,
 *     only those whose servers are allowed.
 */
#ifndef NETD_NET_OFFER_H
#define NETD_NET_OFFER_H

#include "base/str.h"
#include "vault/common/grants.h"

struct net_secrets;

struct net_offer {
	const char *name;
	const char *host;	/* NULL: none given */
	const struct strv *env; /* variables that get its placeholder; none: the usual one */
	const struct strv *as;	/* each form in which it is sent; none: the usual one of the host */
};

struct net_offers {
	struct net_offer *v;
	size_t n;
	bool may_bind; /* the profile may bind secrets (O2) */
	bool has_key; /* the agent has a credential by other means: do not report that none of these exists */
	bool has_file; /* there is a policy file, which limits what the profile may reach */
	void (*say)(const char *text);
};

/* The vault's information about the requested secrets, a bit for each. */
struct net_found {
	uint64_t there, expired, unbound, meets;
	uint64_t unreached; /* no rule allows a host that it is bound to */
};

/* The offered secrets that can be used, a bit for each. */
uint64_t net_offer_usable(const struct net_secrets *s, const struct net_found *f);
/* net_offer.O2: applies the profile's host to a secret that is bound nowhere. */
int net_offer_bind(const struct net_secrets *s, struct vault_grant *g, struct err *e) MUST_CHECK;
/* The variables after the first, which is the grant's own; NULL at the end. */
const char *net_offer_env(const struct net_secrets *s, const char *name, size_t i);
/* Reports to people, a sentence each. `f` is NULL if there is no vault. */
void net_offer_say(const struct net_secrets *s, const struct net_found *f);
/* Is the offer well-formed? */
int net_offer_check(const struct net_offer *o, struct err *e) MUST_CHECK;

#endif
