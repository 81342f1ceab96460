/* SPDX-License-Identifier: Apache-2.0 */
/* What `coffer policy` says of tools and of apply. */
#ifndef CLI_POLICY_ACTS_H
#define CLI_POLICY_ACTS_H

#include "base/json.h"
#include "policy/acts.h"

/* check: ", 6 rules on tools, apply: ask"; nothing where nothing is said of them. */
void policy_acts_count(const struct acts *a, struct buf *out);
/* show: a line for each rule. */
void policy_acts_describe(const struct acts *a, struct buf *out);
/* diff: a line for each rule that only one has; how many. */
size_t policy_acts_diff(const struct acts *from, const struct acts *to, struct buf *out);
/* Members "tools", a text for each rule, and "apply"; null where it says nothing of them. */
void policy_acts_json(const struct acts *a, struct json *j);
/* explain --json: one object. */
void policy_acts_verdict_json(const struct tool_verdict *v, const char *name, struct buf *out);

#endif
