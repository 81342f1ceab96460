/* SPDX-License-Identifier: Apache-2.0 */
/* The walk over an upper layer and its original, for callers in this room that need no list. */
#ifndef WORKSPACE_CHANGE_H
#define WORKSPACE_CHANGE_H

#include "workspace/change/changes.h"

struct change_walk_opts {
	uint64_t since;
	bool flags; /* also find out flags and why; otherwise only that there is a change */
};

/* Called for each change; path and struct are the walk's. 0 goes on, 1 ends the walk, negative is an error. */
typedef int change_visit(void *arg, const struct change *c);

int change_walk(int upper_fd, struct base base, const struct change_walk_opts *o, change_visit *visit,
		void *arg, struct err *e) MUST_CHECK;

/* Copies a change to the end of a list. 0 or -ENOMEM. */
int changes_add(struct changes *l, const struct change *c) MUST_CHECK;

#endif
