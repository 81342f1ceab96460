/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the policy's rules say of a secret that the command line or a profile names as well: the stricter of both holds. A rule
 * for one host that says how the secret is sent leaves of what was granted for that host only this way.
 */
#ifndef NETD_NET_RULE_H
#define NETD_NET_RULE_H

#include "config/policy_file.h"
#include "vault/common/grants.h"

/* One more binding of what is asked for, where the rule is for one host. */
int net_rule_narrow(struct vault_grant *g, const struct config_secret *c, struct err *e) MUST_CHECK;

/* Remembers what a rule says. */
int net_rule_add(struct vault_grants *rules, const struct config_secret *c, struct err *e) MUST_CHECK;

/* Of the bindings of `g` those that the rules leave; false when that is none, and `g` is as it was. */
bool net_rule_apply(const struct vault_grants *rules, struct vault_grant *g);

/* Of a key that signs: where a rule says that a person is asked first (as: ssh:ask), that holds for what the command line gave
 * too; what that left open is then narrowed to the hosts that the rules name. */
void net_rule_sign(const struct vault_grants *rules, struct vault_grant *g);

#endif
