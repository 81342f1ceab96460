/* SPDX-License-Identifier: Apache-2.0 */
/* Starts `coffer` as a child of cofferd: the one place that decides what such a process keeps. */
#ifndef DAEMON_CHILD_COFFER_H
#define DAEMON_CHILD_COFFER_H

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct child_coffer {
	int exe;	   /* the open program */
	const char *state; /* the path of the state, for COFFER_STATE */
	char *const *argv;
	const int *fds; /* as in sys/spawn.h */
	size_t n_fds;
	bool outlives; /* continues if cofferd dies */
};

/* It has cofferd's identity, since it makes sandboxes, and a session of its own. `env` has the rest of its
 * environment; COFFER_STATE is added to it. cofferd reaps *ret. */
int child_start_coffer(const struct child_coffer *c, struct strv *env, pid_t *ret, struct err *e) MUST_CHECK;

#endif
