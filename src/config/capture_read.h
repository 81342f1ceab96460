/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a rule's `capture:` into a struct config_capture of the policy. */
#ifndef CONFIG_CAPTURE_READ_H
#define CONFIG_CAPTURE_READ_H

#include "config/read.h"

int capture_parse(struct source *s, const struct ynode *n, struct config_capture *ret) MUST_CHECK;
/* Call when the rule's host and ports are known: sets the rule's capture name, and moves the rest to the
 * policy. No effect without a capture. */
int capture_keep(struct source *s, const struct ynode *n, struct policy_rule *r,
		 struct config_capture *c) MUST_CHECK;
void capture_drop(struct config_capture *c);

#endif
