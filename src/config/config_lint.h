/* SPDX-License-Identifier: Apache-2.0 */
/* Warnings about valid rules that are most likely not what was intended. One sentence each, with file and
 * line. */
#ifndef CONFIG_LINT_H
#define CONFIG_LINT_H

#include "base/err.h"
#include "base/str.h"
#include "policy/build.h"

/* Before the policy is sealed, with all rules of the layer added. In observe, a deny matters even without an
 * allow. */
int config_lint_layer(const struct policy *p, unsigned layer, bool observe, struct strv *warnings,
		      struct err *e) MUST_CHECK;

#endif
