/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stopping a whole tree of processes where there is no control group to freeze it: SIGSTOP from the top down, until no
 * process below the first one runs, and SIGCONT from the bottom up. Whoever watches its children is itself stopped
 * before them and goes on after them, so nobody sees it happen.
 *
 * Orphans of a pid namespace become children of its first process: all of them are below it.
 */
#ifndef SYS_PROCTREE_H
#define SYS_PROCTREE_H

#include "base/buf.h"
#include "base/err.h"

#include <sys/types.h>

struct proctree {
	struct buf stopped; /* those that we stopped, in that order */
};

#define PROCTREE_INIT ((struct proctree){ 0 })

/* 0, or after an error all goes on as before: -EOPNOTSUPP when the kernel does not tell who is whose child, -ETIMEDOUT
 * when something does not stop within a second. */
int proctree_stop(struct proctree *t, pid_t top, struct err *e) MUST_CHECK;
void proctree_continue(struct proctree *t);

#endif
