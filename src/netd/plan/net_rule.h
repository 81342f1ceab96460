/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules of the policy about a secret that the command line or a profile names too: the stricter of both
 * holds. A rule for one host that names a form for sending the secret leaves only this form of what was
 * granted for that host.
 */
#ifndef NETD_NET_RULE_H
#define NETD_NET_RULE_H

#include "config/policy_file.h"
#include "vault/common/grants.h"

/* Adds a binding to the request, if the rule is for one host. */
int net_rule_narrow(struct vault_grant *g, const struct config_secret *c, struct err *e) MUST_CHECK;

/* Records the restriction of a rule. */
int net_rule_add(struct vault_grants *rules, const struct config_secret *c, struct err *e) MUST_CHECK;

/* Reduces the bindings of `g` to those that the rules leave; false if none is left, and `g` is unchanged. */
bool net_rule_apply(const struct vault_grants *rules, struct vault_grant *g);

/* For a key that signs: if a rule requires an approval (as: ssh:ask), that applies to what the command line
 * gave too; what that left open is narrowed to the hosts that the rules name. */
void net_rule_sign(const struct vault_grants *rules, struct vault_grant *g);

#endif
