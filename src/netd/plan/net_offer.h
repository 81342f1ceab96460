/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a profile says of secrets: those that its agent works with, under which variable, and where each is sent. Used when
 * they are in the vault, and said when they are not; nothing of it is an error.
 *
 * Invariants
 *  O1  Where the vault binds a secret, that counts, and the profile's host does not: an agent that is told to ask another
 *      server gets its key there when it is bound there.
 *  O2  The profile's host counts for a secret that is bound nowhere, and only of a profile that is ours or lies in the user's
 *      own directory. One that is named by its path may have come with somebody's project, as a policy file may.
 *  O3  The agent gets a secret only where a rule allows one of the hosts that it is sent to: of several, those whose
 *      servers were opened, and no others.
 */
#ifndef NETD_NET_OFFER_H
#define NETD_NET_OFFER_H

#include "base/str.h"
#include "vault/common/grants.h"

struct net_secrets;

struct net_offer {
	const char *name;
	const char *host;	/* NULL: not said */
	const struct strv *env; /* variables that get its placeholder; none: the usual one */
	const struct strv *as;	/* each way in which it is sent; none: as the host usually wants it */
};

struct net_offers {
	struct net_offer *v;
	size_t n;
	bool may_bind; /* O2 */
	bool has_key;  /* the agent was handed a credential: that none of these is there is no news */
	bool has_file; /* a policy file is the ceiling of what the profile may reach */
	void (*say)(const char *text);
};

/* Which secrets there are, as the vault says; a bit for each that is asked for. */
struct net_found {
	uint64_t there, expired, unbound, meets;
	uint64_t unreached; /* no rule allows a host that it is bound to */
};

/* Those that can be had: a bit for each that is offered. */
uint64_t net_offer_usable(const struct net_secrets *s, const struct net_found *f);
/* O2: what the profile says of a secret that is bound nowhere. */
int net_offer_bind(const struct net_secrets *s, struct vault_grant *g, struct err *e) MUST_CHECK;
/* The variables beyond the first, which is the grant's own; NULL at the end. */
const char *net_offer_env(const struct net_secrets *s, const char *name, size_t i);
/* For people, in a sentence each. `f` is NULL when there is no vault. */
void net_offer_say(const struct net_secrets *s, const struct net_found *f);
/* Is all of it as it should be? */
int net_offer_check(const struct net_offer *o, struct err *e) MUST_CHECK;

#endif
