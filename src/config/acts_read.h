/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a policy file says of tools and of `coffer apply` (policy/acts.h):
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

/* Keys of the top of a file, beside `egress:`. */
int read_tools(struct source *s, const struct ynode *n, void *to) MUST_CHECK;
int read_apply(struct source *s, const struct ynode *n, void *to) MUST_CHECK;

/* Is there nothing in it but that? Then it says nothing of the network, and is no layer of that. */
bool acts_are_all(const struct ynode *root);

#endif
