/* SPDX-License-Identifier: Apache-2.0 */
/* What is allowed in a policy, and yet most likely not what was meant. One sentence each, with file and line. */
#ifndef CONFIG_LINT_H
#define CONFIG_LINT_H

#include "base/err.h"
#include "base/str.h"
#include "policy/build.h"

/* Before the policy is sealed, all rules of the layer added. In observe, a deny needs no allow to matter. */
int lint_layer(const struct policy *p, unsigned layer, bool observe, struct strv *warnings,
	       struct err *e) MUST_CHECK;

#endif
