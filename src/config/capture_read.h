/* SPDX-License-Identifier: Apache-2.0 */
/* A rule's `capture:`, from its mapping to a struct config_capture of the policy. */
#ifndef CONFIG_CAPTURE_READ_H
#define CONFIG_CAPTURE_READ_H

#include "config/read.h"

int capture_parse(struct source *s, const struct ynode *n, struct config_capture *ret) MUST_CHECK;
/* When the rule's host and ports are known: the rule gets its name, the policy the rest. Nothing when there is none. */
int capture_keep(struct source *s, const struct ynode *n, struct policy_rule *r,
		 struct config_capture *c) MUST_CHECK;
void capture_drop(struct config_capture *c);

#endif
