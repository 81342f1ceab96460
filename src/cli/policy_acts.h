/* SPDX-License-Identifier: Apache-2.0 */
/* What `coffer policy` says of tools and of apply. */
#ifndef CLI_POLICY_ACTS_H
#define CLI_POLICY_ACTS_H

#include "policy/acts.h"

/* check: ", 6 rules on tools, apply: ask"; nothing where nothing is said of them. */
void policy_acts_count(const struct acts *a, struct buf *out);
/* show: a line for each rule. */
void policy_acts_describe(const struct acts *a, struct buf *out);
/* diff: a line for each rule that only one has; how many. */
size_t policy_acts_diff(const struct acts *from, const struct acts *to, struct buf *out);
/* explain --json: one object. */
void policy_acts_verdict_json(const struct tool_verdict *v, const char *name, struct buf *out);

#endif
