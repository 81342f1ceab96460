/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which control groups a host offers, and what is written there, on hosts that are made of files: this works for anybody,
 * and for kinds of host that this one is not.
 */
#include "base/fd.h"
#include "base/str.h"
#include "sys/cgroup/cgroup_internal.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/xattr.h>

static char tree[64]; /* its root directory */

static void put(const char *path, const char *text)
{
	char full[512];
	FILE *f;

	snprintf(full, sizeof(full), "%s%s", tree, path);
	f = fopen(full, "we");
	if (!f || fputs(text, f) < 0)
		CHECKF(false, "the fixture can write %s", full);
	if (f)
		fclose(f);
}

/* A v2 group; NULL: no such file. */
static void group(const char *dir, const char *controllers, const char *subtree, const char *procs)
{
	char full[512], path[512];

	snprintf(full, sizeof(full), "%s/sys/fs/cgroup%s", tree, dir);
	if (fd_mkdir_p(AT_FDCWD, full, 0755) < 0)
		CHECKF(false, "the fixture can make %s", full);
	snprintf(path, sizeof(path), "/sys/fs/cgroup%s/cgroup.controllers", dir);
	put(path, controllers);
	snprintf(path, sizeof(path), "/sys/fs/cgroup%s/cgroup.subtree_control", dir);
	put(path, subtree);
	snprintf(path, sizeof(path), "/sys/fs/cgroup%s/cgroup.procs", dir);
	put(path, procs);
	snprintf(path, sizeof(path), "/sys/fs/cgroup%s/cgroup.type", dir);
	if (*dir)
		put(path, "domain\n");
}

static void tree_begin(void)
{
	char path[128];

	strcpy(tree, "/tmp/test_cgroup-XXXXXX");
	if (!mkdtemp(tree))
		tree[0] = '\0';
	snprintf(path, sizeof(path), "%s/proc", tree);
	CHECKF(mkdir(path, 0755) == 0, "the directory of the fixture is made: %s", path);
	put("/proc/mountinfo",
	    "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n");
}

static void tree_end(void)
{
	struct err e = ERR_INIT;

	CHECKF(fd_rm_rf(AT_FDCWD, tree, &e) == 0, "the fixture is removed %s", e.msg);
}

static void probe(struct cgroup_host *h)
{
	char cgroup[128], mountinfo[128];
	struct cgroup_source src = { .cgroup = cgroup, .mountinfo = mountinfo, .prefix = tree };
	struct err e = ERR_INIT;

	snprintf(cgroup, sizeof(cgroup), "%s/proc/cgroup", tree);
	snprintf(mountinfo, sizeof(mountinfo), "%s/proc/mountinfo", tree);
	CHECKF(cgroup_host_probe_at(h, &src, &e) == 0, "the probe of the fixture succeeds %s", e.msg);
}

/* Whether `dir` is `want` below the tree. */
static bool is_at(const char *dir, const char *want)
{
	size_t n = strlen(tree);

	if (strncmp(dir, tree, n) == 0 && str_eq(dir + n, want))
		return true;
	printf("# got '%s', wanted '%s'\n", dir, want);
	return false;
}

#define ALL "cpuset cpu io memory pids\n"

/* A login session: root, or a user for whom every directory is writable. */
static void session(const char *slice_subtree)
{
	put("/proc/cgroup", "0::/user.slice/user-0.slice/session-1.scope\n");
	group("", ALL, ALL, "1\n");
	group("/user.slice", ALL, ALL, "");
	group("/user.slice/user-0.slice", ALL, slice_subtree, "");
	group("/user.slice/user-0.slice/session-1.scope", "memory pids\n", "", "100\n101\n");
}

static void test_v2_nearest(void)
{
	struct cgroup_host h;

	tree_begin();
	session("cpu memory pids\n");
	probe(&h);
	CHECK(h.version == 2 && h.usable[CGROUP_MEMORY] && h.usable[CGROUP_CPU] && h.usable[CGROUP_PIDS]);
	CHECK(h.usable[CGROUP_FREEZER] && h.usable[CGROUP_CPUACCT] && h.unified[CGROUP_CPUACCT]);
	CHECK(is_at(h.parent[CGROUP_MEMORY], "/sys/fs/cgroup/user.slice/user-0.slice"));
	CHECK(h.enable == 0 && !h.split && h.pids_cap == CGROUP_UNSET && !h.why[CGROUP_MEMORY][0]);

	/* a slice that lacks one: the next that hands all of them down already */
	session("memory pids\n");
	probe(&h);
	CHECK(is_at(h.parent[CGROUP_CPU], "/sys/fs/cgroup/user.slice") && h.enable == 0);

	/* the tasks limit that systemd puts on everything is taken along */
	put("/sys/fs/cgroup/user.slice/user-0.slice/session-1.scope/pids.max", "19000\n");
	put("/sys/fs/cgroup/user.slice/user-0.slice/pids.max", "800\n");
	probe(&h);
	CHECK(is_at(h.parent[CGROUP_CPU], "/sys/fs/cgroup/user.slice") && h.pids_cap == 800);

	/* a limit on memory is not left behind: the way up ends there, with what can be had below it */
	put("/sys/fs/cgroup/user.slice/user-0.slice/memory.max", "1000000000\n");
	probe(&h);
	CHECK(is_at(h.parent[CGROUP_MEMORY], "/sys/fs/cgroup/user.slice/user-0.slice"));
	CHECK(h.usable[CGROUP_CPU] && h.enable == CGROUP_BIT(CGROUP_CPU));
	put("/sys/fs/cgroup/user.slice/user-0.slice/memory.max", "max\n");
	put("/sys/fs/cgroup/user.slice/user-0.slice/cpu.max", "50000 100000\n");
	probe(&h);
	CHECK(is_at(h.parent[CGROUP_MEMORY], "/sys/fs/cgroup/user.slice/user-0.slice"));
	put("/sys/fs/cgroup/user.slice/user-0.slice/cpu.max", "max 100000\n");
	probe(&h);
	CHECK(is_at(h.parent[CGROUP_MEMORY], "/sys/fs/cgroup/user.slice"));
	tree_end();
}

/* Our own group is limited: nothing may go beside it. Root does not rearrange it unless it was delegated. */
static void test_v2_limited(void)
{
	const char *own = "/sys/fs/cgroup/user.slice/user-0.slice/session-1.scope";
	struct cgroup_host h;
	char full[256];

	tree_begin();
	session("cpu memory pids\n");
	put("/sys/fs/cgroup/user.slice/user-0.slice/session-1.scope/memory.max", "1000000000\n");
	probe(&h);
	if (geteuid() == 0) {
		CHECK(!h.usable[CGROUP_MEMORY] && !h.usable[CGROUP_PIDS] &&
		      strstr(h.why[CGROUP_MEMORY], "Delegate=yes"));
		CHECK(h.usable[CGROUP_FREEZER] && is_at(h.parent[CGROUP_FREEZER], own) && !h.split);
	} else {
		CHECK(h.usable[CGROUP_MEMORY] && h.split && is_at(h.parent[CGROUP_MEMORY], own));
	}
	snprintf(full, sizeof(full), "%s%s", tree, own);
	if (setxattr(full, "user.delegate", "1", 1, 0) == 0) {
		probe(&h);
		CHECK(h.split && is_at(h.parent[CGROUP_MEMORY], own) && !h.why[CGROUP_MEMORY][0]);
		CHECK(h.enable == (CGROUP_BIT(CGROUP_MEMORY) | CGROUP_BIT(CGROUP_PIDS)));
		CHECK(!h.usable[CGROUP_CPU] && strstr(h.why[CGROUP_CPU], "cpu controller is not available"));
	} else {
		tap_skip("a delegated group is used", "this file system has no user attributes");
	}
	tree_end();
}

static void test_v2_top(void)
{
	struct cgroup_host h;

	/* the top of all: may hold processes and hand down */
	tree_begin();
	put("/proc/cgroup", "0::/\n");
	group("", ALL, "memory\n", "1\n2\n");
	probe(&h);
	CHECK(is_at(h.parent[CGROUP_MEMORY], "/sys/fs/cgroup") && !h.split);
	CHECK(h.enable == (CGROUP_BIT(CGROUP_CPU) | CGROUP_BIT(CGROUP_PIDS)));

	/* the top of a container looks the same but for its type, and must be split */
	put("/sys/fs/cgroup/cgroup.type", "domain\n");
	probe(&h);
	CHECK(is_at(h.parent[CGROUP_MEMORY], "/sys/fs/cgroup") && h.split);

	/* a group next to ours whose parent holds processes cannot be given controllers */
	put("/proc/cgroup", "0::/a/b\n");
	group("/a", "memory pids\n", "", "77\n");
	group("/a/b", "", "", "78\n");
	put("/sys/fs/cgroup/a/memory.max", "1000000\n");
	probe(&h);
	CHECK(!h.usable[CGROUP_MEMORY] && h.why[CGROUP_MEMORY][0]);
	/* control: without those processes it can */
	put("/sys/fs/cgroup/a/cgroup.procs", "");
	probe(&h);
	CHECK(h.usable[CGROUP_MEMORY] && is_at(h.parent[CGROUP_MEMORY], "/sys/fs/cgroup/a"));
	CHECK(!h.usable[CGROUP_CPU] && h.why[CGROUP_CPU][0]);
	tree_end();
}

/* Nothing above or at our group may be written: an ordinary login. Root becomes somebody for as long as it
 * looks. */
static void test_v2_not_ours(void)
{
	static const char *const dirs[] = { "", "/user.slice", "/user.slice/user-0.slice",
					    "/user.slice/user-0.slice/session-1.scope" };
	bool root = geteuid() == 0;
	struct cgroup_host h;
	char full[256];

	tree_begin();
	session("cpu memory pids\n");
	chmod(tree, 0755);
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		snprintf(full, sizeof(full), "%s/sys/fs/cgroup%s", tree, dirs[i]);
		chmod(full, 0555);
	}
	if (root && seteuid(65534) < 0) {
		tap_skip("groups that belong to others are not used",
			 "root of this user namespace cannot become anybody else");
	} else {
		probe(&h);
		CHECK(!root || seteuid(0) == 0);
		CHECK(!h.usable[CGROUP_MEMORY] && !h.usable[CGROUP_FREEZER]);
		CHECK(strstr(h.why[CGROUP_PIDS], "systemd-run --user --scope -p Delegate=yes"));
	}
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		snprintf(full, sizeof(full), "%s/sys/fs/cgroup%s", tree, dirs[i]);
		chmod(full, 0755);
	}
	tree_end();
}

static void test_mounts(void)
{
	struct cgroup_host h;

	/* a container without a cgroup namespace: the mount shows a part of the tree only */
	tree_begin();
	put("/proc/cgroup",
	    "12:pids:/docker/abc/x\n5:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n0::/docker/abc\n");
	put("/proc/mountinfo",
	    "1 1 0:2 /docker/abc /sys/fs/cgroup/memory rw master:3 - cgroup cgroup rw,memory\n"
	    "2 1 0:3 /docker/abc /sys/fs/cgroup/cpu\\040x rw - cgroup cgroup rw,cpu,cpuacct\n"
	    "3 1 0:4 /docker/abc /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"
	    "4 1 0:5 / /somewhere rw - tmpfs none rw\nnonsense\n\n");
	group("/memory", "", "", "");
	group("/cpu x", "", "", "");
	group("/pids/x", "", "", "");
	put("/sys/fs/cgroup/memory/tasks", "");
	put("/sys/fs/cgroup/cpu x/tasks", "");
	put("/sys/fs/cgroup/pids/x/tasks", "");
	probe(&h);
	CHECK(h.version == 1 && h.usable[CGROUP_MEMORY] &&
	      is_at(h.parent[CGROUP_MEMORY], "/sys/fs/cgroup/memory"));
	CHECK(h.usable[CGROUP_PIDS] && is_at(h.parent[CGROUP_PIDS], "/sys/fs/cgroup/pids/x"));
	CHECK(h.usable[CGROUP_CPU] && is_at(h.parent[CGROUP_CPU], "/sys/fs/cgroup/cpu x"));
	CHECK(h.usable[CGROUP_CPUACCT] && str_eq(h.parent[CGROUP_CPU], h.parent[CGROUP_CPUACCT]));
	CHECK(!h.usable[CGROUP_FREEZER] && h.why[CGROUP_FREEZER][0]);

	/* a mount that does not show our group, or comes from outside of our cgroup namespace, is not used */
	put("/proc/mountinfo", "1 1 0:2 /docker/other /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
			       "2 1 0:3 /../.. /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"
			       "3 1 0:3 /docker/ab /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n");
	probe(&h);
	CHECK(h.version == 1 && !h.usable[CGROUP_MEMORY] && !h.usable[CGROUP_PIDS] && !h.usable[CGROUP_CPU]);
	CHECK(strstr(h.why[CGROUP_MEMORY], "not mounted"));

	put("/proc/cgroup", "");
	put("/proc/mountinfo", "");
	probe(&h);
	CHECK(h.version == 0 && !h.usable[CGROUP_MEMORY] &&
	      strstr(h.why[CGROUP_MEMORY], "no memory controller"));
	tree_end();
}

/* The files of v2 and their contents. */
static void test_v2_set(void)
{
	static const char *const files[] = { "memory.max", "memory.swap.max", "memory.low", "cpu.max",
					     "pids.max" };
	static const char *const wanted[] = { "1073741824", "0", "536870912", "180000 100000", "100" };
	struct cgroup_host h = { .version = 2, .pids_cap = 100 };
	struct cgroup cg = CGROUP_INIT;
	struct cgroup_want want = {
		.memory_max = 1 << 30, .memory_low = 1 << 29, .cpu_milli = 1800, .pids_max = 256
	};
	unsigned set;

	tree_begin();
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		char path[64];

		snprintf(path, sizeof(path), "/%s", files[i]);
		put(path, "");
	}
	autoclose int fd = open(tree, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cg.host = &h;
	for (int k = 0; k < CGROUP_CTL_COUNT; k++) {
		cg.dirfd[k] = fd;
		cg.unified[k] = true;
	}
	set = cgroup_v2_set(&cg, fd, &want);
	CHECK(set == (CGROUP_LIMITING | CGROUP_SET_MEMORY_LOW) && !cg.why[0]);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		autobuf struct buf b = BUF_INIT;

		CHECK(fd_read_file(fd, files[i], 100, &b) == 0);
		CHECK_STR(buf_cstr(&b), wanted[i]);
	}
	unlinkat(fd, "cpu.max", 0);
	set = cgroup_v2_set(&cg, fd, &want);
	CHECK(!(set & CGROUP_BIT(CGROUP_CPU)) && strstr(cg.why, "cpu.max"));
	tree_end();
}

static void test_v2_stat(void)
{
	struct cgroup_host h = { .version = 2 };
	struct cgroup cg = CGROUP_INIT;
	struct cgroup_stat s;

	tree_begin();
	put("/memory.current", "4096\n");
	put("/memory.peak", "8192\n");
	put("/memory.events", "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0\n");
	put("/cpu.stat", "usage_usec 1234\nuser_usec 1000\nsystem_usec 234\n");
	put("/pids.current", "7\n");
	put("/pids.events", "max 9\n");
	autoclose int fd = open(tree, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cg.host = &h;
	for (int k = 0; k < CGROUP_CTL_COUNT; k++) {
		cg.dirfd[k] = fd;
		cg.unified[k] = true;
	}
	cgroup_read_stat(&cg, &s);
	CHECK(s.has_memory && s.has_cpu && s.has_pids);
	CHECK(s.memory_now == 4096 && s.memory_peak == 8192 && s.oom_kills == 2);
	CHECK(s.cpu_usec == 1234 && s.pids_now == 7 && s.pids_refused == 9);
	tree_end();
}

/* Processes leave a delegated group for a leaf before controllers are enabled. A file keeps what is written
 * into it, so only the order of things can be seen here, not their effect. */
static void test_v2_prepare(void)
{
	struct cgroup_host h = { .version = 2, .enable = CGROUP_BIT(CGROUP_MEMORY) };
	struct cgroup cg = CGROUP_INIT;
	autobuf struct buf b = BUF_INIT;

	tree_begin();
	group("/own", "memory\n", "", "");
	snprintf(h.parent[CGROUP_FREEZER], CGROUP_DIR_MAX, "%s/sys/fs/cgroup/own", tree);
	cg.host = &h;
	cgroup_v2_prepare(&cg);
	autoclose int fd = open(h.parent[CGROUP_FREEZER], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(fd_read_file(fd, "cgroup.subtree_control", 100, &b) == 0 && !cg.why[0]);
	CHECK_STR(buf_cstr(&b), "+memory");

	/* processes that cannot be moved: said, and no controller is touched */
	buf_clear(&b);
	put("/sys/fs/cgroup/own/cgroup.subtree_control", "");
	put("/sys/fs/cgroup/own/cgroup.procs", "1\n");
	h.split = true;
	cgroup_v2_prepare(&cg);
	CHECK(strstr(cg.why, "could not be enabled"));
	CHECK(fd_read_file(fd, "cgroup.subtree_control", 100, &b) == 0 && b.len == 0);
	tree_end();
}

int main(void)
{
	test_v2_nearest();
	test_v2_limited();
	test_v2_top();
	test_v2_not_ours();
	test_v2_set();
	test_v2_stat();
	test_v2_prepare();
	test_mounts();
	return tap_done();
}
