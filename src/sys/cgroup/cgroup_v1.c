/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cgroup v1: one hierarchy for each controller (or for cpu and cpuacct together), each with files of its own.
 * A new group is made below the caller's own, so that the limits of the caller apply to it too. It must not
 * be made beside it or above it.
 */
#include "base/fd.h"
#include "sys/cgroup/cgroup_internal.h"

#include <fcntl.h>
#include <stdio.h>
#include <time.h>

static unsigned set_memory(struct cgroup *cg, int dirfd, const struct cgroup_want *want)
{
	unsigned set = 0;
	int r;

	if (want->memory_max != CGROUP_UNSET &&
	    cgroup_set(cg, dirfd, "memory.limit_in_bytes", want->memory_max)) {
		set |= CGROUP_BIT(CGROUP_MEMORY);
		/* Memory and swap together: the same number leaves none for swap. No such file: swap is not
		 * counted. */
		r = cgroup_write_u64(dirfd, "memory.memsw.limit_in_bytes", want->memory_max);
		if (r < 0 && r != -ENOENT && r != -EOPNOTSUPP)
			snprintf(cg->why, sizeof(cg->why), "swap could not be limited: %s", strerror(-r));
	}
	if (want->memory_low != CGROUP_UNSET &&
	    cgroup_set(cg, dirfd, "memory.soft_limit_in_bytes", want->memory_low))
		set |= CGROUP_SET_MEMORY_LOW;
	return set;
}

/* Is the parent group limited itself? Then the kernel refuses a larger limit, and the parent's smaller one
 * applies already. */
static bool is_outer_stricter(int dirfd)
{
	uint64_t quota;

	return cgroup_read_u64(dirfd, "../cpu.cfs_quota_us", &quota) == 0;
}

static unsigned set_cpu(struct cgroup *cg, int dirfd, const struct cgroup_want *want)
{
	uint64_t quota = want->cpu_milli * CGROUP_CPU_PERIOD / 1000;
	int r;

	if (want->cpu_milli == CGROUP_UNSET)
		return 0;
	r = cgroup_write_u64(dirfd, "cpu.cfs_quota_us", quota);
	if (r == 0 || (r == -EINVAL && is_outer_stricter(dirfd)))
		return CGROUP_BIT(CGROUP_CPU);
	snprintf(cg->why, sizeof(cg->why), "the CPU quota could not be set: %s", strerror(-r));
	return 0;
}

unsigned cgroup_v1_set(struct cgroup *cg, enum cgroup_ctl k, const struct cgroup_want *want)
{
	int dirfd = cg->dirfd[k];

	switch (k) {
	case CGROUP_MEMORY:
		return set_memory(cg, dirfd, want);
	case CGROUP_CPU:
		return set_cpu(cg, dirfd, want);
	case CGROUP_PIDS:
		if (want->pids_max != CGROUP_UNSET && cgroup_set(cg, dirfd, "pids.max", want->pids_max))
			return CGROUP_BIT(CGROUP_PIDS);
		return 0;
	default:
		return 0;
	}
}

static bool has_state(int dirfd, const char *state)
{
	char text[16] = "";
	autoclose int fd = openat(dirfd, "freezer.state", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	return fd >= 0 && read(fd, text, sizeof(text) - 1) > 0 && str_starts(text, state);
}

int cgroup_v1_freeze(int dirfd, bool on)
{
	const char *state = on ? "FROZEN" : "THAWED";
	uint64_t end = clock_nsec(CLOCK_MONOTONIC) + CGROUP_FREEZE_NS;
	struct timespec pause = { .tv_nsec = NSEC_PER_MSEC };

	for (;;) {
		/* Written again each time: a task that was forking when it was written may have slipped
		 * through. */
		int r = cgroup_write(dirfd, "freezer.state", state);

		if (r < 0)
			return r;
		if (has_state(dirfd, state))
			return 0;
		if (clock_nsec(CLOCK_MONOTONIC) > end)
			return -ETIMEDOUT;
		nanosleep(&pause, NULL);
	}
}

void cgroup_v1_read_stat(const struct cgroup *cg, struct cgroup_stat *ret, bool now)
{
	int mem = cg->unified[CGROUP_MEMORY] ? -1 : cg->dirfd[CGROUP_MEMORY];
	int cpu = cg->unified[CGROUP_CPUACCT] ? -1 : cg->dirfd[CGROUP_CPUACCT];
	int pids = cg->unified[CGROUP_PIDS] ? -1 : cg->dirfd[CGROUP_PIDS];
	uint64_t ns = 0;

	if (mem >= 0) {
		ret->has_memory = cgroup_read_u64(mem, "memory.max_usage_in_bytes", &ret->memory_peak) == 0;
		cgroup_read_key(mem, "memory.oom_control", "oom_kill", &ret->oom_kills);
		if (now) {
			cgroup_read_u64(mem, "memory.usage_in_bytes", &ret->memory_now);
			cgroup_read_key(mem, "memory.stat", "total_inactive_file", &ret->memory_idle);
		}
	}
	if (cpu >= 0 && cgroup_read_u64(cpu, "cpuacct.usage", &ns) == 0) {
		ret->has_cpu = true;
		ret->cpu_usec = ns / 1000;
	}
	if (pids >= 0) {
		ret->has_pids = cgroup_read_key(pids, "pids.events", "max", &ret->pids_refused) == 0;
		if (now)
			cgroup_read_u64(pids, "pids.current", &ret->pids_now);
	}
}
