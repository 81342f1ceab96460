/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the cgroup*.c files and their tests. No other file includes this. */
#ifndef SYS_CGROUP_INTERNAL_H
#define SYS_CGROUP_INTERNAL_H

#include "base/clock.h"
#include "base/str.h"
#include "sys/cgroup/cgroup.h"

#define CGROUP_BIT(ctl) (1u << (ctl))
#define CGROUP_LIMITING (CGROUP_BIT(CGROUP_MEMORY) | CGROUP_BIT(CGROUP_CPU) | CGROUP_BIT(CGROUP_PIDS))

#define CGROUP_DEPTH_MAX 24	  /* of groups within groups */
#define CGROUP_CPU_PERIOD 100000u /* microseconds, the kernel's own default */
#define CGROUP_FREEZE_NS (2 * NSEC_PER_SEC)
#define CGROUP_KILL_NS (10 * NSEC_PER_SEC)

/* Where to look; the tests point it at a tree of their own. */
struct cgroup_source {
	const char *cgroup;    /* /proc/self/cgroup */
	const char *mountinfo; /* /proc/self/mountinfo */
	const char *prefix;    /* put before every mount point; "" for the real ones */
	bool shortcut;	       /* try the usual mount points before reading the mount table */
};
extern const struct cgroup_source cgroup_source_real;

int cgroup_host_probe_at(struct cgroup_host *ret, const struct cgroup_source *src, struct err *e) MUST_CHECK;

/* A mounted hierarchy. */
struct cgroup_mount {
	bool unified;
	unsigned ctls;		    /* v1: bits of the controllers it has */
	char root[CGROUP_DIR_MAX];  /* the group that the mount shows */
	char point[CGROUP_DIR_MAX]; /* where */
};
#define CGROUP_MOUNTS_MAX 64
/* All of them, up to `max`. Returns how many. */
int cgroup_mounts(const struct cgroup_source *src, struct cgroup_mount *ret, int max) MUST_CHECK;

/* Control files. One value: a number, or CGROUP_UNSET for "max". A key: the number after it, where a line
 * starts with it. The out-parameter is untouched on failure; -ENOENT where there is no such file. */
int cgroup_read_u64(int dirfd, const char *file, uint64_t *ret);
int cgroup_read_key(int dirfd, const char *file, const char *key, uint64_t *ret);
int cgroup_pread_key(int fd, const char *key, uint64_t *ret);
int cgroup_write(int dirfd, const char *file, const char *text);
int cgroup_write_u64(int dirfd, const char *file, uint64_t v);

/* Sets a limit; on failure returns false with the reason in cg->why. */
bool cgroup_set(struct cgroup *cg, int dirfd, const char *file, uint64_t v);
bool cgroup_set_text(struct cgroup *cg, int dirfd, const char *file, const char *text);

/*
 * v2. Chooses where sandboxes go: fills usable, unified, parent, why, enable, split and pids_cap for the
 * controllers of `wanted`, and for freezing and CPU time. `root` is the mount point, `own` the path of our
 * own group below it ("" or "/a/b"). `may_all`: we are known to be allowed everything there.
 */
void cgroup_v2_choose(struct cgroup_host *host, const char *root, const char *own, unsigned wanted,
		      bool may_all);
/* Makes the parent ready: moves processes out of the way where host->split says so, enables controllers. A
 * failure is recorded in cg->why; setting the limits fails later. */
void cgroup_v2_prepare(struct cgroup *cg);
unsigned cgroup_v2_set(struct cgroup *cg, int dirfd, const struct cgroup_want *want);
int cgroup_v2_freeze(int dirfd, bool on) MUST_CHECK;
int cgroup_v2_kill(int dirfd) MUST_CHECK; /* -ENOENT on a kernel without cgroup.kill */
void cgroup_v2_read_stat(const struct cgroup *cg, struct cgroup_stat *ret, bool now);

/* v1: sets what is wanted of one controller and returns the bits that are in force. */
unsigned cgroup_v1_set(struct cgroup *cg, enum cgroup_ctl k, const struct cgroup_want *want);
int cgroup_v1_freeze(int dirfd, bool on) MUST_CHECK;
void cgroup_v1_read_stat(const struct cgroup *cg, struct cgroup_stat *ret, bool now);

/* A directory's path; every one of them fits. */
static inline void cgroup_copy_dir(char dst[CGROUP_DIR_MAX], const char *src)
{
	size_t n = strlen(src);

	BUG_ON(n >= CGROUP_DIR_MAX);
	memcpy(dst, src, n);
	dst[n] = '\0';
}

/* Visits every group below an open directory, depth first, a parent before its children. visit() returns 0 to
 * descend into the group, 1 to skip it, or a negative number to stop, which is returned. */
typedef int (*cgroup_visit)(int parent_fd, const char *name, void *ctx);
int cgroup_walk(int fd, cgroup_visit visit, void *ctx);

/* Looks everywhere for the parts of the group that are not open yet. */
int cgroup_search(struct cgroup *cg, struct err *e) MUST_CHECK;

/* Kills without cgroup.kill, by signal, until the group is empty. */
int cgroup_kill_each(struct cgroup *cg) MUST_CHECK;

#endif
