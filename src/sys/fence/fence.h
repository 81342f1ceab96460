/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a program of ours that reads what strangers send locks itself in, for good. It says in a struct what it
 * keeps; after fence_up() everything else is gone.
 *
 * Invariants
 *  F1  All of it, or an error, upon which the program ends before it has read a stranger's byte. Landlock alone
 *      may be missing, on a kernel that has none, and only where `no_landlock` says nothing: there the list has no
 *      call that opens anything, or the process has a root of its own already.
 *  F2  Nothing is gained: limits only go down, and a capability is kept only where it was held.
 *  F3  In any case: no core, nobody but root who can trace it or read its memory, no privilege to be had by
 *      executing something, no memory mapped as code.
 *
 * The order; each step needs what a later one takes away:
 *  1.  limits: setrlimit() is on nobody's list.
 *  2.  not dumpable: /proc/self belongs to root from here on, so who writes maps of ids there has done so. Giving
 *      up capabilities does not undo it; a change of identity would.
 *  3.  no_new_privs: without it Landlock and the filter are refused to whoever is not root.
 *  4.  capabilities: takes SETPCAP, prctl() and capset(). Who has none cannot empty its bounding set either; by 3
 *      it never gets one.
 *  5.  Landlock: opens its paths, with no more right than the program will have itself.
 *  6.  the filter: last, for it has none of the calls above.
 *
 * What a program needs later is open, mapped and looked up before. Environment, descriptors, identity and signals
 * are those that its starter gave it: none of the first, few of the second.
 */
#ifndef SYS_FENCE_H
#define SYS_FENCE_H

#include "sys/fence/landlock.h"
#include "sys/fence/seccomp_list.h"

#include <sys/resource.h>

/* Soft and hard both; the hard one that is there, where that is less. Memory (RLIMIT_AS, RLIMIT_DATA) is left alone
 * under sanitizers, whose shadow is larger than any limit. */
struct fence_limit {
	__rlimit_resource_t what;
	uint64_t most;
};

/* What is left. Zeroes leave nothing. */
struct fence {
	const char *who; /* in messages */
	const struct fence_limit *limits;
	size_t n_limits;
	uint64_t caps; /* bits: of those that it holds */
	const struct landlock_rule *paths;
	size_t n_paths;
	const char *no_landlock; /* why it does not start on a kernel without Landlock; NULL: it does */
	struct seccomp_list calls;
};

/* The first step alone, for who has to know its limits before it opens what it needs. */
int fence_limits(const struct fence *f, struct err *e) MUST_CHECK;

/* All of them. -ENOTSUP: `no_landlock`. */
int fence_up(const struct fence *f, struct err *e) MUST_CHECK;

#endif
