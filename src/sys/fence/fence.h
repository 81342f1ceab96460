/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a program of ours that parses untrusted input confines itself, for good. A struct lists what it keeps; after
 * fence_up() it has nothing else.
 *
 * Invariants
 *  F1  All steps succeed, or there is an error and the program ends before it has read an untrusted byte. Only Landlock
 *      may be missing, on a kernel without it, and only where `no_landlock` is NULL: there the filter has no call that
 *      opens a file, or opens them for reading only and Landlock would allow that for all, or the process has a root of
 *      its own already.
 *  F2  Nothing is gained: limits only go down, and a capability is kept only where it was held.
 *  F3  In every case: no core dump, no process but root's can trace it or read its memory, exec gains no privilege,
 *      and no memory is mapped as code.
 *
 * The order; each step needs what a later one takes away:
 *  1.  limits: no filter allows setrlimit().
 *  2.  not dumpable: /proc/self belongs to root from here on, so id maps must have been written before. Giving
 *      up capabilities does not undo it; a change of identity would.
 *  3.  no_new_privs: without it Landlock and the filter are refused to every process but root's.
 *  4.  capabilities: needs prctl() and capset(). A process without SETPCAP cannot empty its bounding set, but after step 3
 *      it never gains one.
 *  5.  Landlock: opens its paths, with no more right than the program will have itself.
 *  6.  the filter: last, for it has none of the calls above.
 *
 * A program opens, maps and resolves everything that it needs before. Its environment (empty), descriptors (few),
 * identity and signals come from its starter (sys/spawn.h).
 */
#ifndef SYS_FENCE_H
#define SYS_FENCE_H

#include "sys/fence/landlock.h"
#include "sys/fence/seccomp_list.h"

#include <sys/resource.h>

/* The soft and the hard limit both become `most`, or the hard limit of before where that is lower. Limits on memory
 * (RLIMIT_AS, RLIMIT_DATA) are not set under sanitizers, whose shadow memory is larger than any limit. */
struct fence_limit {
	__rlimit_resource_t what;
	uint64_t most;
};

/* The rights that the program keeps. A zeroed struct keeps none. */
struct fence {
	const char *who; /* in messages */
	const struct fence_limit *limits;
	size_t n_limits;
	uint64_t caps; /* bits; only those that it holds are kept */
	const struct landlock_rule *paths;
	size_t n_paths;
	const char *no_landlock; /* the reason why the program must not run without Landlock; NULL: it may */
	struct seccomp_list calls;
};

/* The first step alone, for a program that must know its limits before it opens descriptors. */
int fence_limits(const struct fence *f, struct err *e) MUST_CHECK;

/* All steps. -ENOTSUP: the kernel has no Landlock, and `no_landlock` is set. */
int fence_up(const struct fence *f, struct err *e) MUST_CHECK;

#endif
