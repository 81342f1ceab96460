/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a sandbox may use. Each limit remembers whether a person named it: a named limit that cannot be enforced
 * is an error, a default one is said in one line and in the report. Pure but for limits_defaults(), which asks
 * how large this machine is.
 */
#ifndef SANDBOX_LIMITS_H
#define SANDBOX_LIMITS_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum limit_kind {
	LIMIT_MEMORY,	    /* bytes */
	LIMIT_MEMORY_LOW,   /* --memory-reservation, bytes */
	LIMIT_CPUS,	    /* thousandths of a CPU */
	LIMIT_PIDS,	    /* processes and threads */
	LIMIT_NOFILE_SOFT,  /* --nofile SOFT[:HARD] */
	LIMIT_NOFILE_HARD,
	LIMIT_TIMEOUT,	    /* nanoseconds of wall time */
	LIMIT_TMP,	    /* bytes of /tmp and of /run, each */
	LIMIT_SHM,	    /* bytes of /dev/shm */
	LIMIT_OUTPUT,	    /* bytes printed to what is not a terminal */
	LIMIT_DISK,	    /* bytes in the workspace's upper layer */
	LIMIT_INODES,	    /* files there */
	LIMIT_COUNT
};

#define LIMIT_NONE UINT64_MAX /* no limit */

struct limit {
	uint64_t value; /* LIMIT_NONE: not limited */
	bool named;	/* a person asked for it */
	bool enforced;	/* set by whoever put it in force */
	const char *how; /* static text for the report: "cgroup v2", "rlimit", "watched", NULL */
};

struct limits {
	struct limit l[LIMIT_COUNT];
	bool best_effort; /* --limits best-effort: a named limit that cannot be enforced is only said */
};

/* The name on the command line without dashes: "memory", "memory-reservation", "cpus", … */
const char *limit_name(enum limit_kind k);

/* The defaults for this machine. */
void limits_defaults(struct limits *l);

/* --limits strict|default|best-effort, several separated by commas. Named limits are not overwritten. */
int limits_preset(struct limits *l, const char *preset, struct err *e) MUST_CHECK;

/* One option and its text: ("memory", "3g"), ("nofile", "1024:4096"), ("disk", "2g,100000"). Refuses 0, negative,
 * absurd and malformed values, saying what is right; "none" lifts a limit where that makes sense. */
int limits_set(struct limits *l, const char *option, const char *text, struct err *e) MUST_CHECK;

/* "3.0 GiB", "1.8", "256", "none" */
char *limit_format(enum limit_kind k, uint64_t value, char out[32]);

#endif
