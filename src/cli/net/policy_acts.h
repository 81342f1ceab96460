/* SPDX-License-Identifier: Apache-2.0 */
/* The output of `coffer policy` about tools and about apply. */
#ifndef CLI_POLICY_ACTS_H
#define CLI_POLICY_ACTS_H

#include "base/json.h"
#include "policy/acts.h"

/* check: ", 6 rules on tools, apply: ask"; empty if the policy mentions neither. */
void cli_policy_acts_count(const struct acts *a, struct buf *out);
/* show: a line for each rule. */
void cli_policy_acts_describe(const struct acts *a, struct buf *out);
/* diff: a line for each rule that only one policy has. Returns the number of lines. */
size_t cli_policy_acts_diff(const struct acts *from, const struct acts *to, struct buf *out);
/*
 * Members "tools" (an array with a text for each rule) and "apply"; null if the policy does not mention
 * them.
 */
void cli_policy_acts_json(const struct acts *a, struct json *j);
/* explain --json: one object. */
void cli_policy_acts_verdict_json(const struct tool_verdict *v, const char *name, struct buf *out);

#endif
