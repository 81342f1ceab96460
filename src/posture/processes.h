/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes of Cofferdam that run now, and what confines each of them, as far as /proc shows it to the caller: for
 * `coffer doctor --processes`. What is not visible is marked so; nothing is concluded from the code of a kind but what
 * process_kind.h marks as such.
 *
 * The result is not a snapshot: processes start and end meanwhile. A process that ends while it is read is left out. It is for
 * people and for tests, never for a decision.
 */
#ifndef POSTURE_PROCESSES_H
#define POSTURE_PROCESSES_H

#include "posture/process_kind.h"

#define PROCESS_PATHS_MAX 16 /* files open for writing that are named; more are only counted */

enum process_ns {
	PROCESS_NS_USER,
	PROCESS_NS_MNT,
	PROCESS_NS_NET,
	PROCESS_NS_PID,
	PROCESS_NS_IPC,
	PROCESS_NS_UTS,
	PROCESS_NS_CGROUP,
	PROCESS_NS_COUNT
};
const char *process_ns_name(enum process_ns ns); /* "user" */

enum process_dump { PROCESS_DUMP_HIDDEN, PROCESS_DUMP_NO, PROCESS_DUMP_YES };

struct process {
	struct process_facts f;
	uint64_t start; /* of stat */
	char *path;	/* of the program, NULL: not visible */
	char *word;	/* the first argument; NULL: none */
	enum process_dump dumpable;

	bool ns_visible;
	unsigned differs; /* 1 << enum process_ns: other than the caller's */
	uint64_t netns;

	bool fds_visible;
	size_t descriptors, sockets, writable; /* sockets are not counted as writable */
	size_t socket_kinds[SOCKET_KIND_COUNT], writable_sorts[FD_SORT_COUNT];
	struct strv paths; /* files among the writable ones */
};

struct processes {
	struct process **v; /* by pid */
	size_t n;
	bool landlock; /* this kernel has it, so the kinds that say so have entered a domain */
};

#define PROCESSES_INIT ((struct processes){ 0 })

/* The state directory is that of the caller; it is not made where there is none. */
int processes_read(struct processes *ret, struct err *e) MUST_CHECK;
void processes_release(struct processes *p);

/* Could this user see which program a process executes, and its descriptors? */
bool process_is_visible(const struct process *p);

#endif
