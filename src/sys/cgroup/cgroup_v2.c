/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cgroup v2: where a sandbox's group may be made, and how it is set, frozen, killed and read.
 *
 * Two rules of the kernel shape this. A group that holds processes cannot hand controllers down (the root of
 * the whole tree excepted), so our groups are made next to the caller's, below the nearest ancestor that already
 * hands all of them down, or can be made to. And a process may only be moved by a process that may write to cgroup.procs
 * of the common ancestor: for an ordinary user that means within what systemd delegated.
 *
 * A group further up escapes the limits of the groups below it. So the search upwards ends at the first group
 * whose memory or CPU is limited. systemd limits the number of tasks of nearly every unit; that limit is kept
 * as host->pids_cap instead.
 *
 * Where there is no way up but our own group was delegated to us (systemd-run -p Delegate=yes), or is the top
 * of a container, it is split: its processes move to a leaf, and sandboxes go beside that leaf.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "sys/cgroup/cgroup_internal.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#define CALLER_LEAF "cofferdam-caller"
#define SPLIT_ROUNDS 64

/* How well a place fits: the controllers that a group made there would have. */
struct candidate {
	char dir[CGROUP_DIR_MAX];
	unsigned give;	 /* bits that it can hand down */
	unsigned enable; /* those of them that must be switched on */
	bool split;
	bool valid;
};

/* The parameters of one search for a parent group. */
struct search {
	struct cgroup_host *host;
	const char *root;
	unsigned wanted;
	bool may_all;
};

static bool may_write(const struct search *s, const char *dir, const char *file)
{
	char path[CGROUP_DIR_MAX + 32];

	if (s->may_all)
		return true;
	snprintf(path, sizeof(path), "%s/%s", dir, file);
	return faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) == 0;
}

static bool has_file(const char *dir, const char *file)
{
	char path[CGROUP_DIR_MAX + 32];

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	return faccessat(AT_FDCWD, path, F_OK, 0) == 0;
}

/* A small control file as text; empty when it cannot be read. */
static const char *read_control_text(const char *dir, const char *file, char *out, size_t size)
{
	char path[CGROUP_DIR_MAX + 32];
	ssize_t n = -1;

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		n = read(fd, out, size - 1);
	out[n > 0 ? n : 0] = '\0';
	return out;
}

/* "cpuset cpu io memory pids" as bits. */
static unsigned read_controllers(const char *dir, const char *file)
{
	char text[512], *save = NULL;
	unsigned bits = 0;

	read_control_text(dir, file, text, sizeof(text));
	for (char *w = strtok_r(text, " \n", &save); w; w = strtok_r(NULL, " \n", &save)) {
		for (int k = 0; k < CGROUP_FREEZER; k++)
			bits |= str_eq(w, cgroup_ctl_name(k)) ? CGROUP_BIT(k) : 0;
	}
	return bits;
}

static bool holds_processes(const char *dir)
{
	char text[64];

	return *read_control_text(dir, "cgroup.procs", text, sizeof(text)) != '\0';
}

/* The root of the whole tree is the one group without a type; it may hold processes and hand down. */
static bool is_top(const char *dir)
{
	return !has_file(dir, "cgroup.type");
}

/* Would a sandbox above this group escape a limit on memory or CPU? Records its pids limit in the host. */
static bool is_limited(struct cgroup_host *host, const char *dir)
{
	static const char *const files[] = { "memory.max", "memory.high", "cpu.max" };
	char text[64];
	uint64_t pids;

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		read_control_text(dir, files[i], text, sizeof(text));
		if (*text && !str_starts(text, "max"))
			return true;
	}
	read_control_text(dir, "pids.max", text, sizeof(text));
	text[strcspn(text, "\n")] = '\0';
	if (str_to_u64(text, &pids) == 0 && pids < host->pids_cap)
		host->pids_cap = pids;
	return false;
}

/* Has systemd marked the group as delegated to the processes in it? */
static bool is_delegated(const char *dir)
{
	char v[4];

	return getxattr(dir, "user.delegate", v, sizeof(v)) == 1 ||
	       getxattr(dir, "trusted.delegate", v, sizeof(v)) == 1;
}

static bool may_make_groups(const struct search *s, const char *dir)
{
	return may_write(s, dir, ".") && may_write(s, dir, "cgroup.procs");
}

/* Only the root of a mount can be the top of the tree, so is_top() is called for it alone. */
static bool is_mount_root(const struct search *s, const char *dir)
{
	return strlen(dir) == strlen(s->root);
}

static unsigned count_controllers(unsigned bits)
{
	return (unsigned)__builtin_popcount(bits);
}

/* Prefers more controllers, then those that are handed down already: systemd may switch off again what we
 * switch on in a group of its own. */
static void consider(struct candidate *best, const struct candidate *c)
{
	if (!best->valid ||
	    count_controllers(c->give) * 2 + !c->enable > count_controllers(best->give) * 2 + !best->enable)
		*best = *c;
}

/* Our own group as a parent: as it is when it is the top of all, else by a split. */
static void consider_own(const struct search *s, struct candidate *best, const char *dir)
{
	struct candidate c = { .split = !is_mount_root(s, dir) || !is_top(dir), .valid = true };

	if (!may_make_groups(s, dir) || !may_write(s, dir, "cgroup.subtree_control"))
		return;
	/* Root may write everywhere, but must not rearrange a group that was not delegated. */
	if (!is_mount_root(s, dir) && geteuid() == 0 && !is_delegated(dir))
		return;
	c.give = read_controllers(dir, "cgroup.controllers") & s->wanted;
	c.enable = c.give & ~read_controllers(dir, "cgroup.subtree_control");
	cgroup_copy_dir(c.dir, dir);
	if (c.give)
		consider(best, &c);
}

/* An ancestor of our own group as a parent. */
static void consider_above(const struct search *s, struct candidate *best, const char *dir)
{
	unsigned on = read_controllers(dir, "cgroup.subtree_control") & s->wanted;
	struct candidate c = { .give = on, .valid = true };

	if (on != s->wanted && may_write(s, dir, "cgroup.subtree_control") &&
	    ((is_mount_root(s, dir) && is_top(dir)) || !holds_processes(dir))) {
		c.give = read_controllers(dir, "cgroup.controllers") & s->wanted;
		c.enable = c.give & ~on;
	}
	cgroup_copy_dir(c.dir, dir);
	if (c.give)
		consider(best, &c);
}

/* Looks upwards from our own group at `dir` (which it changes). */
static void search_upwards(const struct search *s, struct candidate *best, char *dir)
{
	while (!is_mount_root(s, dir) && !is_limited(s->host, dir)) {
		*strrchr(dir, '/') = '\0';
		if (!may_make_groups(s, dir))
			return;
		consider_above(s, best, dir);
		if (best->valid && best->give == s->wanted && !best->enable)
			return;
	}
}

static void use_candidate(struct cgroup_host *host, const struct candidate *c, unsigned wanted)
{
	host->enable = c->enable;
	host->split = c->split;
	for (int k = 0; k < CGROUP_CTL_COUNT; k++) {
		if (k < CGROUP_FREEZER && !(wanted & CGROUP_BIT(k)))
			continue; /* v1 has it */
		if (k < CGROUP_FREEZER && !(c->give & CGROUP_BIT(k))) {
			if (!host->why[k][0])
				snprintf(host->why[k], sizeof(host->why[k]),
					 "the %s controller is not available below %.90s", cgroup_ctl_name(k),
					 c->dir);
			continue;
		}
		host->usable[k] = true;
		host->unified[k] = true;
		cgroup_copy_dir(host->parent[k], c->dir);
	}
}

static void explain_unusable(struct cgroup_host *host, const char *own_dir, unsigned wanted)
{
	const char *why;

	if (faccessat(AT_FDCWD, own_dir, W_OK, AT_EACCESS) < 0 && errno == EROFS)
		why = "the control groups are mounted read-only here, as in most containers; "
		      "mount them writable, or start the container with a writable cgroup2";
	else if (geteuid() == 0)
		why = "this process's own control group is limited, or cannot be given controllers; "
		      "start it with: systemd-run --scope -p Delegate=yes coffer run ...";
	else
		why = "no control group is delegated to this session; "
		      "start it with: systemd-run --user --scope -p Delegate=yes coffer run ...";
	for (int k = 0; k < CGROUP_CTL_COUNT; k++) {
		if (k >= CGROUP_FREEZER || (wanted & CGROUP_BIT(k)))
			snprintf(host->why[k], sizeof(host->why[k]), "%s", why);
	}
}

void cgroup_v2_choose(struct cgroup_host *host, const char *root, const char *own, unsigned wanted,
		      bool may_all)
{
	struct search s = { .host = host, .root = root, .wanted = wanted, .may_all = may_all };
	struct candidate best;
	char own_dir[CGROUP_DIR_MAX], dir[CGROUP_DIR_MAX];

	best.valid = false;
	if (snprintf(own_dir, sizeof(own_dir), "%s%s", root, own) >= (int)sizeof(own_dir))
		return;
	if (wanted) {
		cgroup_copy_dir(dir, own_dir);
		search_upwards(&s, &best, dir);
		if (!best.valid || best.give != wanted)
			consider_own(&s, &best, own_dir);
	}
	if (!best.valid) {
		bool may = may_make_groups(&s, own_dir);

		if (wanted || !may)
			explain_unusable(host, own_dir, wanted);
		if (!may)
			return;
		/* Without controllers a group may be a child of one with processes: it can still be
		 * frozen and killed. */
		best = (struct candidate){ .valid = true };
		cgroup_copy_dir(best.dir, own_dir);
	}
	use_candidate(host, &best, wanted);
}

/* Moves all that runs in our own group to a leaf below it, ourselves among them. */
static int split_own(const char *dir)
{
	autoclose int own = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r;

	if (own < 0)
		return -errno;
	if (mkdirat(own, CALLER_LEAF, 0755) < 0 && errno != EEXIST)
		return -errno;
	for (int i = 0; i < SPLIT_ROUNDS; i++) {
		autobuf struct buf pids = BUF_INIT;
		char *save = NULL, *pid;

		r = fd_read_file(own, "cgroup.procs", 1u << 20, &pids);
		if (r < 0 || pids.len == 0)
			return r;
		for (pid = strtok_r(pids.data, "\n", &save); pid; pid = strtok_r(NULL, "\n", &save)) {
			r = fd_write_file(own, CALLER_LEAF "/cgroup.procs", pid);
			if (r < 0 && r != -ESRCH)
				return r;
		}
	}
	return -EBUSY;
}

void cgroup_v2_prepare(struct cgroup *cg)
{
	const struct cgroup_host *host = cg->host;
	const char *dir = host->parent[CGROUP_FREEZER];
	int r = host->split ? split_own(dir) : 0;

	for (int k = 0; r == 0 && k < CGROUP_FREEZER; k++) {
		char path[CGROUP_DIR_MAX + 32], word[16];

		if (!(host->enable & CGROUP_BIT(k)))
			continue;
		snprintf(path, sizeof(path), "%s/cgroup.subtree_control", dir);
		snprintf(word, sizeof(word), "+%s", cgroup_ctl_name(k));
		r = fd_write_file(AT_FDCWD, path, word);
	}
	if (r < 0)
		snprintf(cg->why, sizeof(cg->why), "controllers could not be enabled in %.80s: %s", dir,
			 strerror(-r));
}

static unsigned set_memory(struct cgroup *cg, int dirfd, const struct cgroup_want *want)
{
	unsigned set = 0;
	int r;

	if (want->memory_max != CGROUP_UNSET && cgroup_set(cg, dirfd, "memory.max", want->memory_max)) {
		set |= CGROUP_BIT(CGROUP_MEMORY);
		r = cgroup_write_u64(dirfd, "memory.swap.max", 0);
		if (r < 0 && r != -ENOENT) /* no such file: no swap, or none that is counted */
			snprintf(cg->why, sizeof(cg->why), "swap could not be limited: %s", strerror(-r));
	}
	if (want->memory_low != CGROUP_UNSET && cgroup_set(cg, dirfd, "memory.low", want->memory_low))
		set |= CGROUP_SET_MEMORY_LOW;
	return set;
}

unsigned cgroup_v2_set(struct cgroup *cg, int dirfd, const struct cgroup_want *want)
{
	const struct cgroup_host *host = cg->host;
	uint64_t pids = want->pids_max < host->pids_cap ? want->pids_max : host->pids_cap;
	unsigned set = 0;
	char text[48];

	if (cg->unified[CGROUP_MEMORY])
		set |= set_memory(cg, dirfd, want);
	if (cg->unified[CGROUP_CPU] && want->cpu_milli != CGROUP_UNSET) {
		snprintf(text, sizeof(text), "%llu %u",
			 (unsigned long long)want->cpu_milli * CGROUP_CPU_PERIOD / 1000, CGROUP_CPU_PERIOD);
		if (cgroup_set_text(cg, dirfd, "cpu.max", text))
			set |= CGROUP_BIT(CGROUP_CPU);
	}
	if (cg->unified[CGROUP_PIDS] && pids != CGROUP_UNSET && cgroup_set(cg, dirfd, "pids.max", pids))
		set |= CGROUP_BIT(CGROUP_PIDS);
	return set;
}

/* Waits until cgroup.events says `value` for `key`: the kernel wakes a poller at every change. */
static int await_event(int dirfd, const char *key, uint64_t value, uint64_t limit_ns)
{
	uint64_t end = clock_nsec(CLOCK_MONOTONIC) + limit_ns;
	autoclose int fd = openat(dirfd, "cgroup.events", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	for (;;) {
		struct pollfd p = { .fd = fd, .events = POLLPRI };
		uint64_t now, v = 0;
		int r = cgroup_pread_key(fd, key, &v);

		if (r < 0)
			return r;
		if (v == value)
			return 0;
		now = clock_nsec(CLOCK_MONOTONIC);
		if (now >= end)
			return -ETIMEDOUT;
		if (poll(&p, 1, (int)((end - now) / NSEC_PER_MSEC) + 1) < 0 && errno != EINTR)
			return -errno;
	}
}

int cgroup_v2_freeze(int dirfd, bool on)
{
	int r = cgroup_write(dirfd, "cgroup.freeze", on ? "1" : "0");

	if (r < 0)
		return r == -ENOENT ? -EOPNOTSUPP : r;
	return await_event(dirfd, "frozen", on, CGROUP_FREEZE_NS);
}

int cgroup_v2_kill(int dirfd)
{
	int r = cgroup_write(dirfd, "cgroup.kill", "1");

	return r < 0 ? r : await_event(dirfd, "populated", 0, CGROUP_KILL_NS);
}

void cgroup_v2_read_stat(const struct cgroup *cg, struct cgroup_stat *ret, bool now)
{
	int mem = cg->unified[CGROUP_MEMORY] ? cg->dirfd[CGROUP_MEMORY] : -1;
	int cpu = cg->unified[CGROUP_CPUACCT] ? cg->dirfd[CGROUP_CPUACCT] : -1;
	int pids = cg->unified[CGROUP_PIDS] ? cg->dirfd[CGROUP_PIDS] : -1;

	if (mem >= 0) {
		ret->has_memory = cgroup_read_key(mem, "memory.events", "oom_kill", &ret->oom_kills) == 0;
		cgroup_read_u64(mem, "memory.peak", &ret->memory_peak); /* from Linux 5.19 on */
		if (now) {
			cgroup_read_u64(mem, "memory.current", &ret->memory_now);
			cgroup_read_key(mem, "memory.stat", "inactive_file", &ret->memory_idle);
		}
	}
	if (cpu >= 0)
		ret->has_cpu = cgroup_read_key(cpu, "cpu.stat", "usage_usec", &ret->cpu_usec) == 0;
	if (pids >= 0) {
		ret->has_pids = cgroup_read_key(pids, "pids.events", "max", &ret->pids_refused) == 0;
		if (now)
			cgroup_read_u64(pids, "pids.current", &ret->pids_now);
	}
}
