/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits of a sandbox. Each limit records whether the user set it: such a limit that cannot be enforced is an error,
 * a default one that cannot is reported in one line. Pure but for limits_defaults(), which reads the machine's size.
 */
#ifndef SANDBOX_LIMITS_H
#define SANDBOX_LIMITS_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum limit_kind {
	LIMIT_MEMORY,	   /* bytes */
	LIMIT_MEMORY_LOW,  /* --memory-reservation, bytes */
	LIMIT_CPUS,	   /* thousandths of a CPU */
	LIMIT_PIDS,	   /* processes and threads */
	LIMIT_NOFILE_SOFT, /* --nofile SOFT[:HARD] */
	LIMIT_NOFILE_HARD,
	LIMIT_TIMEOUT, /* nanoseconds of wall time */
	LIMIT_TMP,     /* bytes of /tmp and of /run, each */
	LIMIT_SHM,     /* bytes of /dev/shm */
	LIMIT_OUTPUT,  /* bytes of output to anything but a terminal */
	LIMIT_DISK,    /* bytes in the workspace's upper layer */
	LIMIT_INODES,  /* files there */
	LIMIT_COUNT
};

#define LIMIT_NONE UINT64_MAX /* no limit */

struct limit {
	uint64_t value;	 /* LIMIT_NONE: not limited */
	bool named;	 /* set by the user, by its own option or by a preset */
	bool preset;	 /* set by a preset: its own option overrides it, in any order */
	bool enforced;	 /* it is in force; `how` tells by what */
	const char *how; /* static text for the report: "cgroup v2", "rlimit", "watched", NULL */
};

struct limits {
	struct limit l[LIMIT_COUNT];
	bool best_effort; /* --limits best-effort: a named limit that cannot be enforced is only reported */
};

/* The name on the command line without dashes: "memory", "memory-reservation", "cpus", …; soft and hard
 * nofile share one, and so do disk and inodes. */
const char *limit_name(enum limit_kind k);

/* The name in a report, one for each: "memory", "memory_reservation", …, "nofile", "nofile_hard", "disk",
 * "inodes" */
const char *limit_key(enum limit_kind k);

/*
 * The defaults for this machine: they protect it without hurting a build.
 *   memory   the smaller of half the RAM and 8 GiB          cpus    all but one, at least one
 *   pids     1024                                           nofile  8192:65536, within the caller's own limit
 *   tmp      the smaller of a quarter of the RAM and 2 GiB  shm     256 MiB
 *   output   64 MiB                                         disk    10 GiB, 1 000 000 files
 * No reservation and no time limit.
 */
void limits_defaults(struct limits *l);

/* --limits strict|default|best-effort, several separated by commas. Limits named by their own option are not
 * overwritten. strict: memory 3g, cpus 1.8, pids 256. default: as limits_defaults(). */
int limits_preset(struct limits *l, const char *preset, struct err *e) MUST_CHECK;

/* One option and its text: ("memory", "3g"), ("nofile", "1024:4096"), ("disk", "2g,100000"). A second number
 * that is left out means the same as the first for nofile, and the default for disk. Refuses 0, negative,
 * absurd and malformed values, with the legal range; "none" lifts a limit where that makes sense. */
int limits_set(struct limits *l, const char *option, const char *text, struct err *e) MUST_CHECK;

/* Checks over several options, once all are read: no reservation above the memory limit. */
int limits_check(const struct limits *l, struct err *e) MUST_CHECK;

/* "3.0 GiB", "1.8", "256", "none" */
char *limit_format(enum limit_kind k, uint64_t value, char out[32]);

#endif
