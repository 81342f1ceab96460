/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of a policy file about tools and `coffer apply` (policy/acts.h):
 *
 *	tools:
 *	  - allow: [read_file, list_files]
 *	  - ask: deploy
 *	    when: {env: production}
 *	  - deny: "shell_*"
 *	apply: ask
 */
#ifndef CONFIG_ACTS_READ_H
#define CONFIG_ACTS_READ_H

#include "config/read.h"

/* Top-level keys of a file, beside `egress:`. */
int read_tools(struct source *s, const struct ynode *n, void *to) MUST_CHECK;
int read_apply(struct source *s, const struct ynode *n, void *to) MUST_CHECK;

/* Does the file contain nothing else? Then it has no rules on the network, and is not a layer of the
 * policy. */
bool acts_are_all(const struct ynode *root);

#endif
