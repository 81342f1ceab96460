/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One control group per sandbox, on cgroup v2 (as root, or delegated by systemd to an ordinary user) or on v1
 * hierarchies where only those have the controllers.
 *
 * A sandbox's groups are found again by its id alone ("coffer-ID"), so that a process that survives a crash can kill
 * and remove them: cgroup_reopen() + cgroup_kill() + cgroup_destroy(). Nothing here trusts processes inside the
 * group: kill, freeze and counters are the kernel's.
 *
 * Groups are never made where they would escape a limit that applies to the caller itself: on v1 they are
 * made below the caller's own groups; on v2, where a group that holds processes cannot have children with
 * controllers, next to the caller's group, but never above one whose memory or CPU is limited.
 *
 * The way in which a process enters the group decides the cost. Moving another process (cgroup_attach()) makes the kernel
 * wait for an RCU grace period, many milliseconds. Being born in a v2 group (clone3 with cgroup_clone_fd())
 * and moving oneself, alone, in a v1 hierarchy (cgroup_attach_self()) do not: some ten microseconds each.
 */
#ifndef SYS_CGROUP_H
#define SYS_CGROUP_H

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum cgroup_ctl { CGROUP_MEMORY, CGROUP_CPU, CGROUP_PIDS, CGROUP_FREEZER, CGROUP_CPUACCT, CGROUP_CTL_COUNT };

/* "memory", "cpu", "pids", "freezer", "cpuacct" */
const char *cgroup_ctl_name(enum cgroup_ctl k);

#define CGROUP_UNSET UINT64_MAX

#define CGROUP_DIR_MAX 512

/* The control groups that this process may use on this host. Bits are 1u << enum cgroup_ctl. */
struct cgroup_host {
	/* The cgroup version that has this host's controllers, 2 or 1; 0: there are none. */
	int version;
	/* The controller can be used in a new group of ours; if not, `why` is the reason, as text for a person. */
	bool usable[CGROUP_CTL_COUNT];
	char why[CGROUP_CTL_COUNT][160];
	/* The controller is on cgroup2. That is possible with version 1: a cgroup2 tree without controllers can still
	 * freeze, kill and count CPU time. */
	bool unified[CGROUP_CTL_COUNT];
	/* Absolute directory in which the sandbox's group is made. */
	char parent[CGROUP_CTL_COUNT][CGROUP_DIR_MAX];

	/* v2: controllers that must first be enabled for the children of the parent. */
	unsigned enable;
	/* v2: the parent is our own group; its processes must first move to a leaf below it. */
	bool split;
	/*
	 * v2: the lowest pids limit of the caller's group and of those between it and `parent`, which would not apply
	 * to a sandbox in `parent`; or CGROUP_UNSET.
	 */
	uint64_t pids_cap;
};

/* Only looks and creates nothing. Cheap, because every start calls it. */
int cgroup_host_probe(struct cgroup_host *ret, struct err *e) MUST_CHECK;

struct cgroup_want {
	uint64_t memory_max; /* bytes; swap is limited to 0 beyond it where the kernel can */
	uint64_t memory_low;
	uint64_t cpu_milli; /* thousandths of a CPU */
	uint64_t pids_max;
	bool lean; /* v1: make no group for freezing and CPU time, which saves a directory */
};

struct cgroup {
	char name[64];			/* coffer-ID */
	const struct cgroup_host *host; /* borrowed */
	/* -1 where there is none. Controllers in one directory share one fd. */
	int dirfd[CGROUP_CTL_COUNT];
	/* v1: where a process writes "0" to move itself; -1 at all but one of those that share. */
	int tasks[CGROUP_CTL_COUNT];
	bool unified[CGROUP_CTL_COUNT];
	/* cgroup_kill() has forbidden forks, which the kernel counts as refused; `refused` is the count before that. */
	bool choked;
	uint64_t refused;
	/* Why a usable controller's limit was not set; empty when all were. */
	char why[160];
};

#define CGROUP_INIT ((struct cgroup){ .dirfd = { -1, -1, -1, -1, -1 }, .tasks = { -1, -1, -1, -1, -1 } })

/* One more bit of cgroup_create()'s *ret_set: memory_low is in force. */
#define CGROUP_SET_MEMORY_LOW (1u << CGROUP_CTL_COUNT)

/* Makes the group for sandbox `id` and sets the limits of `want` that usable controllers have. `*ret_set` gets one bit
 * (1u << enum cgroup_ctl) for each controller whose limit is now in force. Creates nothing when no controller
 * is usable. After a failure nothing is left. */
int cgroup_create(struct cgroup *cg, const struct cgroup_host *host, const char *id,
		  const struct cgroup_want *want, unsigned *ret_set, struct err *e) MUST_CHECK;

/*
 * The same in two steps. cgroup_create_born() makes the v2 part, without limits, because a child can only be born
 * into a group that exists. cgroup_complete() does the rest while the child works already. After a failure of either,
 * nothing is left.
 */
int cgroup_create_born(struct cgroup *cg, const struct cgroup_host *host, const char *id,
		       const struct cgroup_want *want, struct err *e) MUST_CHECK;
int cgroup_complete(struct cgroup *cg, const struct cgroup_want *want, unsigned *ret_set,
		    struct err *e) MUST_CHECK;

/*
 * The fd of the group's v2 part for clone3(CLONE_INTO_CGROUP), with which a child is born in it; -1: there is no v2
 * part.
 */
int cgroup_clone_fd(const struct cgroup *cg);

/* Called by the single-threaded child on itself, before it runs anything: moves it into the v1 parts, and
 * into the v2 part unless it was `cloned` there (slowly, as cgroup_attach() does). For a cloned child these
 * are only write() calls on fds opened before: works in a new user namespace, in another root, under a
 * filter. 0 or negative errno. */
int cgroup_attach_self(const struct cgroup *cg, bool cloned) MUST_CHECK;

/* The fds to which cgroup_attach_self(cg, true) would write "0", for a child that was made before the group
 * was and is handed them over a socket. Returns how many. */
unsigned cgroup_attach_fds(const struct cgroup *cg, int ret[CGROUP_CTL_COUNT]);

/* Moves another process. Slow, see above. */
int cgroup_attach(struct cgroup *cg, pid_t pid, struct err *e) MUST_CHECK;

/* Returns when all is frozen, or running again. -EOPNOTSUPP without a freezer, -ETIMEDOUT when a process did
 * not stop within two seconds (it will once it leaves the kernel). */
int cgroup_freeze(struct cgroup *cg, bool on, struct err *e) MUST_CHECK;

/* SIGKILLs everything in the group until it is empty (cgroup.kill where there is one), bounded in time. */
int cgroup_kill(struct cgroup *cg, struct err *e) MUST_CHECK;

struct cgroup_stat {
	bool has_memory, has_cpu, has_pids;
	uint64_t memory_peak; /* bytes; 0 where the kernel has no such counter */
	uint64_t memory_now;
	uint64_t memory_idle; /* of that: file pages that the kernel may take back at once */
	uint64_t cpu_usec;
	uint64_t oom_kills;    /* processes that the kernel killed for this group's limit */
	uint64_t pids_refused; /* forks refused by the pids limit */
	uint64_t pids_now;
};
void cgroup_read_stat(const struct cgroup *cg, struct cgroup_stat *ret);

/* cgroup_read_stat() at the end of a sandbox, when no process is left: skips memory_now, memory_idle and pids_now, which
 * stay 0. */
void cgroup_read_totals(const struct cgroup *cg, struct cgroup_stat *ret);

/* Removes the (empty) group and closes its fds. Idempotent. */
int cgroup_destroy(struct cgroup *cg, struct err *e) MUST_CHECK;
void cgroup_release(struct cgroup *cg); /* closes fds only */

/* Finds the group of a sandbox of which only the id is known, also when it was made by a process that lived
 * in another group than we do. Fine when there is none: all dirfds -1. Not for a hot path: it may walk the
 * tree. */
int cgroup_reopen(struct cgroup *cg, const struct cgroup_host *host, const char *id,
		  struct err *e) MUST_CHECK;

#endif
