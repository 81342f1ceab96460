/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's processes, and what those below one of them use: for sandboxes that no control group counts. All of them are
 * read once, however many sandboxes there are.
 *
 * A look at something that moves: a process may come or go meanwhile. For showing, never for deciding.
 */
#ifndef SYS_PROCS_H
#define SYS_PROCS_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct proc {
	pid_t pid, parent;
	uint64_t cpu_usec; /* its own, and that of the children it has reaped */
	uint64_t threads;
	uint64_t rss; /* bytes */
	bool taken;   /* belongs to the sum that is being made */
};

struct procs {
	struct proc *v; /* by parent */
	size_t n;
};

#define PROCS_INIT ((struct procs){ 0 })

int procs_read(struct procs *p, struct err *e) MUST_CHECK;
void procs_release(struct procs *p);

struct procs_sum {
	uint64_t cpu_usec; /* without processes that nobody reaped */
	uint64_t threads;
	uint64_t memory;
	bool is_pss; /* memory is the proportional set size of all; otherwise what they share is counted more than once */
};

/* Of a process and all below it. -ESRCH when it is not there. Asking for memory takes the kernel longer than all the rest. */
int procs_sum(struct procs *p, pid_t root, bool memory, struct procs_sum *ret) MUST_CHECK;

/* One line of /proc/PID/stat. -EBADMSG when it is not one. A process may call itself anything, ") R 1" too. */
int procs_parse(char *line, struct proc *ret) MUST_CHECK;

#endif
