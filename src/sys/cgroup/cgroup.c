/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a sandbox's group, over whatever mixture of hierarchies the host has.
 *
 * Controllers that live in one directory (all of v2; cpu and cpuacct of v1) share one fd: dirfd[k] is the
 * same number for each of them, and owned once, by the first. is_owner() tells which. It must not trust a
 * process in the group: kill, freeze and counters are the kernel's.
 */
#include "sys/cgroup/cgroup.h"

#include "base/fd.h"
#include "sys/cgroup/cgroup_internal.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#define BUSY_NS (2 * NSEC_PER_SEC)

static bool is_owner(const struct cgroup *cg, int k)
{
	if (cg->dirfd[k] < 0)
		return false;
	for (int j = 0; j < k; j++) {
		if (cg->dirfd[j] == cg->dirfd[k])
			return false;
	}
	return true;
}

/* Sets the name of the group. Ids are our own, but a malformed one must never become a path. */
static int set_name(struct cgroup *cg, const struct cgroup_host *host, const char *id, struct err *e)
{
	*cg = CGROUP_INIT;
	cg->host = host;
	if (!str_is_name(id) ||
	    snprintf(cg->name, sizeof(cg->name), "coffer-%s", id) >= (int)sizeof(cg->name))
		return err_set(e, -EINVAL, "'%.64s' cannot name a control group", id);
	return 0;
}

/* Does this controller need a directory for the wanted limits? */
static bool is_needed(const struct cgroup_host *host, int k, const struct cgroup_want *want)
{
	if (!host->usable[k])
		return false;
	if (host->version == 2)
		return true;
	switch (k) {
	case CGROUP_MEMORY:
		return true; /* also for the peak in the report */
	case CGROUP_CPU:
		return want->cpu_milli != CGROUP_UNSET;
	case CGROUP_PIDS:
		return want->pids_max != CGROUP_UNSET;
	default:
		return !want->lean;
	}
}

/* Uses the directory of another controller for controller k, when both have the same parent. */
static bool share_dir(struct cgroup *cg, int k)
{
	for (int j = 0; j < k; j++) {
		if (cg->dirfd[j] < 0 || !str_eq(cg->host->parent[j], cg->host->parent[k]))
			continue;
		cg->dirfd[k] = cg->dirfd[j];
		cg->unified[k] = cg->host->unified[k];
		return true;
	}
	return false;
}

/*
 * When the directory cannot be made, the limit cannot be set: the reason is recorded in cg->why, and the caller
 * decides.
 */
static int make_dir(struct cgroup *cg, int k, struct err *e)
{
	char path[CGROUP_DIR_MAX + 80];

	snprintf(path, sizeof(path), "%s/%s", cg->host->parent[k], cg->name);
	if (mkdir(path, 0755) < 0) {
		if (errno == EEXIST)
			return err_set(e, -EEXIST, "the control group %s already exists", path);
		snprintf(cg->why, sizeof(cg->why), "no group could be made in %.90s: %s", cg->host->parent[k],
			 strerror(errno));
		return 0;
	}
	cg->dirfd[k] = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (cg->dirfd[k] < 0) {
		int r = -errno;

		rmdir(path);
		return err_sys(e, r, "cannot open the control group %s", path);
	}
	cg->unified[k] = cg->host->unified[k];
	if (cg->unified[k])
		return 0;
	cg->tasks[k] = openat(cg->dirfd[k], "tasks", O_WRONLY | O_CLOEXEC);
	return cg->tasks[k] < 0 ? err_sys(e, -errno, "cannot open %s/tasks", path) : 0;
}

static int make_dirs(struct cgroup *cg, const struct cgroup_want *want, bool born, struct err *e)
{
	int r = 0;

	for (int k = 0; r == 0 && k < CGROUP_CTL_COUNT; k++) {
		if (cg->dirfd[k] >= 0 || (born && !cg->host->unified[k]))
			continue;
		if (cg->host->usable[k] && share_dir(cg, k))
			continue;
		if (is_needed(cg->host, k, want))
			r = make_dir(cg, k, e);
	}
	if (r < 0)
		(void)!cgroup_destroy(cg, NULL);
	return r;
}

static unsigned set_limits(struct cgroup *cg, const struct cgroup_want *want)
{
	unsigned set = 0;

	for (int k = 0; k < CGROUP_CTL_COUNT; k++) {
		if (cg->dirfd[k] >= 0 && !cg->unified[k])
			set |= cgroup_v1_set(cg, k, want);
		else if (cg->unified[k] && is_owner(cg, k))
			set |= cgroup_v2_set(cg, cg->dirfd[k], want);
	}
	return set;
}

int cgroup_create_born(struct cgroup *cg, const struct cgroup_host *host, const char *id,
		       const struct cgroup_want *want, struct err *e)
{
	int r = set_name(cg, host, id, e);

	if (r < 0)
		return r;
	if (host->split || host->enable)
		cgroup_v2_prepare(cg);
	return make_dirs(cg, want, true, e);
}

int cgroup_complete(struct cgroup *cg, const struct cgroup_want *want, unsigned *ret_set, struct err *e)
{
	int r = make_dirs(cg, want, false, e);

	if (r == 0)
		*ret_set = set_limits(cg, want);
	return r;
}

int cgroup_create(struct cgroup *cg, const struct cgroup_host *host, const char *id,
		  const struct cgroup_want *want, unsigned *ret_set, struct err *e)
{
	int r = cgroup_create_born(cg, host, id, want, e);

	return r < 0 ? r : cgroup_complete(cg, want, ret_set, e);
}

int cgroup_clone_fd(const struct cgroup *cg)
{
	for (int k = 0; k < CGROUP_CTL_COUNT; k++) {
		if (cg->unified[k])
			return cg->dirfd[k];
	}
	return -1;
}

unsigned cgroup_attach_fds(const struct cgroup *cg, int ret[CGROUP_CTL_COUNT])
{
	unsigned n = 0;

	for (int k = 0; k < CGROUP_CTL_COUNT; k++) {
		if (cg->tasks[k] >= 0)
			ret[n++] = cg->tasks[k];
	}
	return n;
}

int cgroup_attach_self(const struct cgroup *cg, bool cloned)
{
	int fds[CGROUP_CTL_COUNT], v2 = cgroup_clone_fd(cg);
	unsigned n = cgroup_attach_fds(cg, fds);

	/* Writing "0" to `tasks` is the only move that does not make the kernel wait for every CPU. */
	for (unsigned i = 0; i < n; i++) {
		if (write(fds[i], "0", 1) != 1)
			return -errno;
	}
	return cloned || v2 < 0 ? 0 : cgroup_write(v2, "cgroup.procs", "0");
}

int cgroup_attach(struct cgroup *cg, pid_t pid, struct err *e)
{
	int r;

	for (int k = 0; k < CGROUP_CTL_COUNT; k++) {
		if (!is_owner(cg, k))
			continue;
		r = cgroup_write_u64(cg->dirfd[k], "cgroup.procs", (uint64_t)pid);
		if (r < 0)
			return err_sys(e, r, "cannot move process %d into its %s control group", (int)pid,
				       cgroup_ctl_name(k));
	}
	return 0;
}

int cgroup_freeze(struct cgroup *cg, bool on, struct err *e)
{
	int dirfd = cg->dirfd[CGROUP_FREEZER], r;

	if (dirfd < 0)
		return err_set(e, -EOPNOTSUPP,
			       "this sandbox cannot be frozen: it has no control group for that");
	r = cg->unified[CGROUP_FREEZER] ? cgroup_v2_freeze(dirfd, on) : cgroup_v1_freeze(dirfd, on);
	return r < 0 ? err_sys(e, r, "cannot %s the sandbox", on ? "freeze" : "thaw") : 0;
}

int cgroup_kill(struct cgroup *cg, struct err *e)
{
	int v2 = cgroup_clone_fd(cg);
	int r = v2 >= 0 ? cgroup_v2_kill(v2) : -ENOENT;

	if (r == -ENODEV)
		return 0; /* the group is gone */
	/* The kernel has no cgroup.kill, or there is no v2 group. Also after success: processes may be in a v1 part only. */
	if (r == -ENOENT || r == 0)
		r = cgroup_kill_each(cg);
	if (r == -ETIMEDOUT)
		return err_set(e, r,
			       "processes in %s did not end: they may be waiting for a device or a network",
			       cg->name);
	return r < 0 ? err_sys(e, r, "cannot kill the processes in %s", cg->name) : 0;
}

static void read_stat(const struct cgroup *cg, struct cgroup_stat *ret, bool now)
{
	*ret = (struct cgroup_stat){ 0 };
	cgroup_v1_read_stat(cg, ret, now);
	cgroup_v2_read_stat(cg, ret, now);
	if (cg->choked)
		ret->pids_refused = cg->refused;
}

void cgroup_read_stat(const struct cgroup *cg, struct cgroup_stat *ret)
{
	read_stat(cg, ret, true);
}

void cgroup_read_totals(const struct cgroup *cg, struct cgroup_stat *ret)
{
	read_stat(cg, ret, false);
}

/* Removes an empty group that was made inside ours; its parent is removed at the next attempt. */
static int remove_child(int parent_fd, const char *name, void *ctx)
{
	(void)ctx;
	return unlinkat(parent_fd, name, AT_REMOVEDIR) == 0;
}

static int remove_dir(const struct cgroup *cg, int dirfd)
{
	uint64_t end = 0;
	struct timespec pause = { .tv_nsec = 50000 };
	char path[80];

	/* By a path relative to the group itself: a reopened group may have another parent than host->parent. */
	snprintf(path, sizeof(path), "../%s", cg->name);
	while (unlinkat(dirfd, path, AT_REMOVEDIR) < 0) {
		if (errno == ENOENT || errno == ENODEV)
			return 0;
		if (errno != EBUSY && errno != EINTR)
			return -errno;
		/* The last process may still be on its way out. */
		if (end == 0)
			end = clock_nsec(CLOCK_MONOTONIC) + BUSY_NS;
		else if (clock_nsec(CLOCK_MONOTONIC) > end)
			return -EBUSY;
		else
			(void)cgroup_walk(dirfd, remove_child, NULL);
		nanosleep(&pause, NULL);
		if (pause.tv_nsec < (long)(10 * NSEC_PER_MSEC))
			pause.tv_nsec *= 2;
	}
	return 0;
}

int cgroup_destroy(struct cgroup *cg, struct err *e)
{
	int first = 0;

	for (int k = 0; k < CGROUP_CTL_COUNT; k++) {
		int r = is_owner(cg, k) ? remove_dir(cg, cg->dirfd[k]) : 0;

		if (r < 0 && first == 0)
			first = err_sys(e, r, "cannot remove the %s control group %s", cgroup_ctl_name(k),
					cg->name);
	}
	if (first == 0)
		cgroup_release(cg);
	return first;
}

void cgroup_release(struct cgroup *cg)
{
	/* From the last to the first: the owner of a shared fd comes after those who share it. */
	for (int k = CGROUP_CTL_COUNT - 1; k >= 0; k--) {
		if (is_owner(cg, k))
			fd_close(cg->dirfd[k]);
		cg->dirfd[k] = -1;
		cg->tasks[k] = fd_close(cg->tasks[k]);
		cg->unified[k] = false;
	}
}

int cgroup_reopen(struct cgroup *cg, const struct cgroup_host *host, const char *id, struct err *e)
{
	bool any = false, all = true;
	int r = set_name(cg, host, id, e);

	for (int k = 0; r == 0 && k < CGROUP_CTL_COUNT; k++) {
		char path[CGROUP_DIR_MAX + 80];

		if (!host->usable[k])
			continue;
		any = true;
		if (share_dir(cg, k))
			continue;
		snprintf(path, sizeof(path), "%s/%s", host->parent[k], cg->name);
		cg->dirfd[k] = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (cg->dirfd[k] >= 0)
			cg->unified[k] = host->unified[k];
		else
			all = false;
	}
	return r == 0 && any && !all ? cgroup_search(cg, e) : r;
}
