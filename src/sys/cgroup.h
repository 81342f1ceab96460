/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One control group per sandbox, on cgroup v2 (as root, or delegated by systemd to an ordinary user) or on v1
 * hierarchies where only those have the controllers.
 *
 * A sandbox's groups are found again by its id alone ("coffer-ID" below a known parent), so that whoever
 * survives a crash can kill and remove them: cgroup_reopen() + cgroup_kill() + cgroup_destroy().
 * Nothing here trusts what happens inside: kill, freeze and counters are the kernel's.
 */
#ifndef SYS_CGROUP_H
#define SYS_CGROUP_H

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum cgroup_ctl { CGROUP_MEMORY, CGROUP_CPU, CGROUP_PIDS, CGROUP_FREEZER, CGROUP_CPUACCT, CGROUP_CTL_COUNT };

/* What this process may do with control groups on this host. */
struct cgroup_host {
	int version;			    /* 2, 1, or 0: none usable */
	bool usable[CGROUP_CTL_COUNT];	    /* can be set for a new group of ours */
	char parent[CGROUP_CTL_COUNT][512]; /* absolute directory in which the sandbox's group is made */
	char why[CGROUP_CTL_COUNT][160];    /* when not usable: the cause, for a person */
};

/* Looks, creates nothing. Cheap: it is on the way of every start. */
int cgroup_host_probe(struct cgroup_host *ret, struct err *e) MUST_CHECK;

#define CGROUP_UNSET UINT64_MAX

struct cgroup_want {
	uint64_t memory_max;  /* bytes; swap is limited to 0 beyond it where the kernel can */
	uint64_t memory_low;
	uint64_t cpu_milli;   /* thousandths of a CPU */
	uint64_t pids_max;
};

struct cgroup {
	char name[64];			 /* coffer-ID */
	const struct cgroup_host *host;	 /* borrowed */
	int dirfd[CGROUP_CTL_COUNT];	 /* -1 where there is none; v2: CGROUP_MEMORY's is shared by all, see .c */
	/* the implementation may add members */
};

#define CGROUP_INIT ((struct cgroup){ .dirfd = { -1, -1, -1, -1, -1 } })

/* Makes the group for sandbox `id` and sets what is wanted of the usable controllers. `*ret_set` gets one bit
 * (1u << enum cgroup_ctl) for each controller whose limit is now in force. Creates nothing when no controller is usable. */
int cgroup_create(struct cgroup *cg, const struct cgroup_host *host, const char *id,
		  const struct cgroup_want *want, unsigned *ret_set, struct err *e) MUST_CHECK;

/* An fd for clone3(CLONE_INTO_CGROUP), or -1 (v1, none): then cgroup_attach() must be used. */
int cgroup_clone_fd(const struct cgroup *cg);
int cgroup_attach(struct cgroup *cg, pid_t pid, struct err *e) MUST_CHECK;

int cgroup_freeze(struct cgroup *cg, bool on, struct err *e) MUST_CHECK; /* -EOPNOTSUPP without a freezer */

/* SIGKILLs everything in the group until it is empty (cgroup.kill where there is one), bounded in time. */
int cgroup_kill(struct cgroup *cg, struct err *e) MUST_CHECK;

struct cgroup_stat {
	bool has_memory, has_cpu, has_pids;
	uint64_t memory_peak;	/* bytes */
	uint64_t memory_now;
	uint64_t cpu_usec;
	uint64_t oom_kills;	/* processes that the kernel killed for this group's limit */
	uint64_t pids_refused;	/* forks refused by the pids limit */
	uint64_t pids_now;
};
void cgroup_read_stat(const struct cgroup *cg, struct cgroup_stat *ret);

/* Removes the (empty) group. Idempotent. */
int cgroup_destroy(struct cgroup *cg, struct err *e) MUST_CHECK;
void cgroup_release(struct cgroup *cg); /* closes fds only */

/* Finds the group of a sandbox of which only the id is known. Fine when there is none: all dirfds -1. */
int cgroup_reopen(struct cgroup *cg, const struct cgroup_host *host, const char *id, struct err *e) MUST_CHECK;

#endif
