/* SPDX-License-Identifier: Apache-2.0 */
/* Where the command line and the policy files name different things: the stricter wins, and it is said. */
#ifndef CONFIG_CONFLICT_H
#define CONFIG_CONFLICT_H

#include "config/policy_file.h"

/* --resolver into the policy, before it is sealed. -EINVAL when the files name others and nothing is left. */
int conflict_resolvers(const struct config_policy_args *a, struct config_policy *out,
		       struct err *e) MUST_CHECK;

#endif
