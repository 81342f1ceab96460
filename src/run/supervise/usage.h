/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resource usage of a running sandbox, as its launcher reads it from the control group. Figures that no control group
 * counts are summed over the sandbox's processes here: the launcher has no access to /proc.
 */
#ifndef RUN_USAGE_H
#define RUN_USAGE_H

#include "base/err.h"
#include "sys/procs.h"

#include <stdbool.h>
#include <stdint.h>

#define USAGE_UNKNOWN UINT64_MAX

struct usage {
	uint64_t at; /* CLOCK_MONOTONIC ns */
	uint64_t uptime_usec;
	uint64_t commands;
	uint64_t memory, memory_peak, memory_limit; /* bytes */
	uint64_t cpu_usec;
	uint64_t pids, pids_limit; /* processes and threads, on gVisor those of the host */
	const char *memory_from;   /* "cgroup", "pss", "rss"; NULL: not known */
};

/* run_fd: its directory. *procs is filled when it is first needed. -ENOENT and -ECONNREFUSED: it is just starting or
 * ending; -ETIMEDOUT: its launcher does not answer. */
int usage_read(int run_fd, struct procs *procs, struct usage *ret, struct err *e) MUST_CHECK;

#endif
