/* SPDX-License-Identifier: Apache-2.0 */
/* Differences between the command line and the policy files: the stricter wins, and the user is told. */
#ifndef CONFIG_CONFLICT_H
#define CONFIG_CONFLICT_H

#include "config/policy_file.h"

/* Applies --resolver to the policy, before it is sealed. -EINVAL if the files name others and none is
 * left. */
int conflict_resolvers(const struct config_policy_args *a, struct config_policy *out,
		       struct err *e) MUST_CHECK;

#endif
