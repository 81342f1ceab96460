/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's processes, and the resources that a tree of them uses: for sandboxes without a control group. All processes are
 * read once, however many sandboxes there are.
 *
 * The result is not a snapshot: processes may start and end meanwhile. It is for display, never for a decision.
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
	bool taken;   /* counted in the current sum already */
};

struct procs {
	struct proc *v; /* by parent */
	size_t n;
};

#define PROCS_INIT ((struct procs){ 0 })

int procs_read(struct procs *p, struct err *e) MUST_CHECK;
void procs_release(struct procs *p);

struct procs_sum {
	uint64_t cpu_usec; /* without processes that were not reaped */
	uint64_t threads;
	uint64_t memory;
	bool is_pss; /* memory is the proportional set size; otherwise shared pages are counted more than once */
};

/* Sums over a process and its descendants. -ESRCH when there is no such process. `memory` costs more than all the rest. */
int procs_sum(struct procs *p, pid_t root, bool memory, struct procs_sum *ret) MUST_CHECK;

/* Parses /proc/PID/stat; -EBADMSG when malformed. The process chooses its own name, which may be ") R 1" to confuse a parser. */
int procs_parse(char *line, struct proc *ret) MUST_CHECK;

#endif
