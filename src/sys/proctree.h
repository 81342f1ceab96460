/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stopping a whole tree of processes where there is no control group to freeze it: SIGSTOP from the top down, until no
 * process below the first one runs, and SIGCONT from the bottom up. A parent is stopped before its children and continued
 * after them, so it does not see them stop.
 *
 * Orphans of a pid namespace become children of its first process: all of them are below it.
 */
#ifndef SYS_PROCTREE_H
#define SYS_PROCTREE_H

#include "base/buf.h"
#include "base/err.h"

#include <sys/types.h>

struct proctree {
	struct buf stopped; /* processes that we stopped, in that order */
};

#define PROCTREE_INIT ((struct proctree){ 0 })

/* After an error all processes run again: -EOPNOTSUPP when the kernel does not list children (CONFIG_PROC_CHILDREN),
 * -ETIMEDOUT when a process does not stop within a second. */
int proctree_stop(struct proctree *t, pid_t top, struct err *e) MUST_CHECK;
void proctree_continue(struct proctree *t);

#endif
