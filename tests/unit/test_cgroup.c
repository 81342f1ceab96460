/* SPDX-License-Identifier: Apache-2.0 */
/* Control groups against the real kernel, where this process may make groups. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "sys/cgroup/cgroup_internal.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static struct cgroup_host host;

static void make_id(char id[16])
{
	static unsigned n;

	snprintf(id, 16, "t%x-%u", (unsigned)getpid(), n++);
}

/* A child in the group, as the engine makes one. */
static pid_t spawn_in(struct cgroup *cg)
{
	int fd = cgroup_clone_fd(cg);
	struct clone_args ca = { .exit_signal = SIGCHLD,
				 .flags = fd >= 0 ? CLONE_INTO_CGROUP : 0,
				 .cgroup = fd >= 0 ? (uint64_t)fd : 0 };
	pid_t pid = (pid_t)syscall(SYS_clone3, &ca, sizeof(ca));

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (cgroup_attach_self(cg, fd >= 0) < 0)
			_exit(99);
	}
	return pid;
}

static int reap(pid_t pid)
{
	int status = -1;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status;
}

static void pause_ms(unsigned ms)
{
	struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000 };

	nanosleep(&t, NULL);
}

/* Until the child has moved itself into the group of controller k. */
static void await_member(const struct cgroup *cg, int k)
{
	for (int i = 0; i < 12000; i++) {
		autobuf struct buf b = BUF_INIT;

		if (fd_read_file(cg->dirfd[k], "cgroup.procs", 4096, &b) == 0 && b.len > 0)
			return;
		pause_ms(5);
	}
	CHECKF(false, "the child came into its control group");
}

static bool is_left(const char *id)
{
	struct cgroup cg;
	bool left = false;

	if (cgroup_reopen(&cg, &host, id, NULL) < 0)
		return true;
	for (int k = 0; k < CGROUP_CTL_COUNT; k++)
		left = left || cg.dirfd[k] >= 0;
	cgroup_release(&cg);
	return left;
}

static const struct cgroup_want nothing = { CGROUP_UNSET, CGROUP_UNSET, CGROUP_UNSET, CGROUP_UNSET, false };

static bool make(struct cgroup *cg, const struct cgroup_want *want, char id[16], unsigned *set)
{
	struct err e = ERR_INIT;

	make_id(id);
	if (cgroup_create(cg, &host, id, want, set, &e) == 0)
		return CHECKF(!cg->why[0], "a new control group has no failure: %s", cg->why);
	CHECKF(false, "the control group is made: %s", e.msg);
	return false;
}

static void unmake(struct cgroup *cg, const char *id)
{
	struct err e = ERR_INIT;

	CHECKF(is_left(id), "the control group can be found by its id alone");
	CHECKF(cgroup_destroy(cg, &e) == 0, "the control group is removed %s", e.msg);
	CHECKF(cgroup_destroy(cg, &e) == 0, "a second removal of the group succeeds");
	CHECKF(!is_left(id), "a removed control group leaves nothing");
}

/* The shortcut gives what the mount table gives. */
static void test_shortcut(void)
{
	struct cgroup_source slow = cgroup_source_real;
	struct cgroup_host other;
	struct err e = ERR_INIT;

	slow.shortcut = false;
	CHECKF(cgroup_host_probe_at(&other, &slow, &e) == 0, "the mount table can be read %s", e.msg);
	CHECK(other.version == host.version);
	for (int k = 0; k < CGROUP_CTL_COUNT; k++) {
		CHECKF(other.usable[k] == host.usable[k] && other.unified[k] == host.unified[k],
		       "the mount table and the probe agree on controller %s", cgroup_ctl_name(k));
		CHECKF(!host.usable[k] || str_eq(other.parent[k], host.parent[k]),
		       "the parent group of %s is %s, by the mount table %s", cgroup_ctl_name(k),
		       host.parent[k], other.parent[k]);
		CHECKF(host.usable[k] == !host.why[k][0], "controller %s is usable or has a reason: %s",
		       cgroup_ctl_name(k), host.why[k]);
	}
}

static void test_bad_id(void)
{
	static const char *const bad[] = { "", "../x", "a/b", ".hidden",
					   "0123456789012345678901234567890123456789012345678901234567890" };
	struct cgroup cg;
	unsigned set;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		CHECKF(cgroup_create(&cg, &host, bad[i], &nothing, &set, NULL) == -EINVAL,
		       "the name '%s' of a group is refused", bad[i]);
		CHECKF(cgroup_reopen(&cg, &host, bad[i], NULL) == -EINVAL,
		       "a group with the name '%s' is not looked for", bad[i]);
	}
}

/* The groups that a child is born in come first, the rest and the limits later, and both are found and removed as
 * one. */
static void test_two_steps(void)
{
	const struct cgroup_want want = { 1 << 30, CGROUP_UNSET, 1000, 100, false };
	struct cgroup one, two;
	unsigned set_one = 0, set_two = 0;
	bool early = true;

	if (!CHECK(cgroup_create(&one, &host, "abcdef012345", &want, &set_one, NULL) == 0))
		return;
	if (CHECK(cgroup_create_born(&two, &host, "abcdef012346", &want, NULL) == 0)) {
		for (int k = 0; k < CGROUP_CTL_COUNT; k++)
			early = early && (two.dirfd[k] >= 0) == (one.dirfd[k] >= 0 && one.unified[k]);
		CHECKF(early, "only unified controllers are there before the first process");
		CHECK((cgroup_clone_fd(&two) >= 0) == (cgroup_clone_fd(&one) >= 0));
		CHECK(cgroup_complete(&two, &want, &set_two, NULL) == 0 && set_two == set_one);
		for (int k = 0; k < CGROUP_CTL_COUNT; k++)
			CHECK((two.dirfd[k] >= 0) == (one.dirfd[k] >= 0) && two.unified[k] == one.unified[k]);
		CHECK(cgroup_destroy(&two, NULL) == 0);
	}
	CHECK(cgroup_destroy(&one, NULL) == 0);
}

static void test_nothing_usable(void)
{
	struct cgroup_host none = { .pids_cap = CGROUP_UNSET };
	struct cgroup_want want = { 1 << 30, CGROUP_UNSET, 1000, 100, false };
	struct cgroup_stat s;
	struct cgroup cg;
	unsigned set = 77;

	CHECK(cgroup_create(&cg, &none, "abc", &want, &set, NULL) == 0 && set == 0);
	CHECK(cgroup_clone_fd(&cg) == -1 && cgroup_attach_self(&cg, false) == 0 &&
	      cgroup_attach(&cg, 1, NULL) == 0);
	cgroup_read_stat(&cg, &s);
	CHECK(!s.has_memory && !s.has_cpu && !s.has_pids);
	CHECK(cgroup_freeze(&cg, true, NULL) == -EOPNOTSUPP && cgroup_kill(&cg, NULL) == 0);
	CHECK(cgroup_destroy(&cg, NULL) == 0);
	CHECK(cgroup_reopen(&cg, &none, "abc", NULL) == 0 && cg.dirfd[CGROUP_MEMORY] == -1);
}

static int eat_memory(size_t bytes)
{
	char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return 98;
	for (size_t i = 0; i < bytes; i += 4096)
		((volatile char *)p)[i] = 1;
	return 7;
}

static void test_memory(void)
{
	struct cgroup_want want = nothing;
	struct cgroup_stat s;
	struct cgroup cg;
	unsigned set = 0;
	char id[16];
	int status;
	pid_t pid;

	want.memory_max = 32 << 20;
	want.memory_low = 16 << 20;
	if (!make(&cg, &want, id, &set))
		return;
	CHECK(set == (CGROUP_BIT(CGROUP_MEMORY) | CGROUP_SET_MEMORY_LOW));
	pid = spawn_in(&cg);
	if (pid == 0)
		_exit(eat_memory(8 << 20));
	status = reap(pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7); /* control: less than the limit is fine */
	cgroup_read_stat(&cg, &s);
	CHECKF(s.has_memory && s.memory_peak >= 8 << 20 && s.memory_peak <= 32 << 20 && s.oom_kills == 0,
	       "the peak of memory is measured: %llu", (unsigned long long)s.memory_peak);
	pid = spawn_in(&cg);
	if (pid == 0)
		_exit(eat_memory(200 << 20));
	status = reap(pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	cgroup_read_totals(&cg, &s);
	CHECK(s.oom_kills == 1 && s.memory_peak > 30 << 20 && s.memory_peak <= 32 << 20 && s.memory_now == 0);
	unmake(&cg, id);
}

static int fork_until_refused(void)
{
	for (int i = 0; i < 50; i++) {
		pid_t p = fork();

		if (p == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			pause();
			_exit(0);
		}
		if (p < 0)
			return errno == EAGAIN ? i : 97;
	}
	return 98;
}

static void test_pids(void)
{
	struct cgroup_want want = nothing;
	struct cgroup_stat s;
	struct cgroup cg;
	unsigned set = 0;
	char id[16];
	int status;
	pid_t pid;

	want.pids_max = 8;
	if (!make(&cg, &want, id, &set))
		return;
	CHECK(set == CGROUP_BIT(CGROUP_PIDS));
	cgroup_read_stat(&cg, &s);
	CHECK(s.has_pids && s.pids_refused == 0 && s.pids_now == 0);
	pid = spawn_in(&cg);
	if (pid == 0)
		_exit(fork_until_refused());
	status = reap(pid);
	CHECKF(WIFEXITED(status) && WEXITSTATUS(status) == 7,
	       "the parent and seven children fit the limit (%d)", WEXITSTATUS(status));
	CHECK(cgroup_kill(&cg, NULL) == 0);
	cgroup_read_stat(&cg, &s);
	CHECKF(s.pids_refused == 1, "a fork over the limit is refused (%llu)",
	       (unsigned long long)s.pids_refused);
	unmake(&cg, id);
}

static _Noreturn void spin(volatile uint64_t *counter)
{
	for (;;)
		++*counter;
}

static uint64_t *shared_counter(void)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static void test_cpu(void)
{
	struct cgroup_want want = nothing;
	struct cgroup_stat s;
	struct cgroup cg;
	unsigned set = 0;
	uint64_t *n = shared_counter(), t0, ms;
	char id[16];
	pid_t pid;

	want.cpu_milli = 100;
	if (!n || !make(&cg, &want, id, &set))
		return;
	CHECK(set == CGROUP_BIT(CGROUP_CPU));
	t0 = clock_nsec(CLOCK_MONOTONIC);
	pid = spawn_in(&cg);
	if (pid == 0)
		spin(n);
	/* On a busy machine it may have begun late, and we may have slept long. */
	do {
		pause_ms(600);
		cgroup_read_stat(&cg, &s);
		ms = (clock_nsec(CLOCK_MONOTONIC) - t0) / NSEC_PER_MSEC;
	} while (s.has_cpu && s.cpu_usec <= 10000 && ms < 60000);
	CHECKF(s.has_cpu && s.cpu_usec > 10000 && s.cpu_usec < 190000 + 100 * ms,
	       "a tenth of a CPU for %llu ms uses little time: %llu us", (unsigned long long)ms,
	       (unsigned long long)s.cpu_usec);
	CHECK(cgroup_kill(&cg, NULL) == 0);
	CHECK(WTERMSIG(reap(pid)) == SIGKILL);
	munmap(n, 4096);
	unmake(&cg, id);
}

/* Until the counter is past `from`; on a busy machine that takes a while. */
static bool moves(const volatile uint64_t *n, uint64_t from)
{
	for (int i = 0; i < 2500 && *n <= from; i++)
		pause_ms(10);
	return *n > from;
}

static void test_freeze(const char *how)
{
	struct cgroup_want want = nothing;
	volatile uint64_t *n = shared_counter();
	struct cgroup cg;
	struct err e = ERR_INIT;
	uint64_t a;
	unsigned set = 0;
	char id[16];
	pid_t pid;

	if (!n || !make(&cg, &want, id, &set))
		return;
	pid = spawn_in(&cg);
	if (pid == 0)
		spin(n);
	CHECKF(moves(n, 0), "the process in the group runs before freezing (%s)", how);
	CHECKF(cgroup_freeze(&cg, true, &e) == 0, "the group can be frozen (%s) %s", how, e.msg);
	a = *n;
	pause_ms(60);
	CHECKF(*n == a, "a frozen group stands still (%s)", how);
	CHECKF(cgroup_freeze(&cg, false, &e) == 0, "the group can be thawed (%s) %s", how, e.msg);
	CHECKF(moves(n, a), "a thawed group runs again (%s)", how);
	CHECKF(cgroup_freeze(&cg, true, &e) == 0 && cgroup_kill(&cg, &e) == 0,
	       "a frozen group can be killed (%s) %s", how, e.msg);
	CHECK(WTERMSIG(reap(pid)) == SIGKILL);
	munmap((void *)n, 4096);
	unmake(&cg, id);
}

static _Noreturn void bomb(void)
{
	for (;;)
		fork();
}

static void test_bomb(const char *how, bool lean)
{
	struct cgroup_want want = nothing;
	struct cgroup_stat s, after;
	struct cgroup cg;
	struct err e = ERR_INIT;
	unsigned set = 0;
	uint64_t t0, ms;
	char id[16];
	pid_t pid;

	want.pids_max = 64;
	want.lean = lean;
	if (!make(&cg, &want, id, &set))
		return;
	pid = spawn_in(&cg);
	if (pid == 0)
		bomb();
	for (int i = 0; i < 12000; i++) {
		cgroup_read_stat(&cg, &s);
		if (s.pids_refused > 100)
			break;
		pause_ms(5);
	}
	CHECKF(s.pids_now > 32 && s.pids_refused > 100,
	       "the fork bomb in the group reaches its limit (%s): %llu processes, %llu refused", how,
	       (unsigned long long)s.pids_now, (unsigned long long)s.pids_refused);
	t0 = clock_nsec(CLOCK_MONOTONIC);
	CHECKF(cgroup_kill(&cg, &e) == 0, "a fork bomb can be killed (%s) %s", how, e.msg);
	ms = (clock_nsec(CLOCK_MONOTONIC) - t0) / NSEC_PER_MSEC;
	while (waitpid(-1, NULL, 0) > 0) /* orphans come to us: we are their subreaper */
		;
	cgroup_read_stat(&cg, &after);
	CHECKF(after.pids_now == 0, "a killed group is empty (%s) after %llu ms", how,
	       (unsigned long long)ms);
	CHECK(after.pids_refused >= s.pids_refused);
	unmake(&cg, id);
}

/* Moving a process that is there already: slow, but it counts in every hierarchy. */
static void test_attach(void)
{
	struct cgroup_want want = nothing;
	struct cgroup_stat s;
	struct cgroup cg;
	struct err e = ERR_INIT;
	unsigned set = 0;
	char id[16];
	pid_t pid;

	want.pids_max = 4;
	if (!make(&cg, &want, id, &set))
		return;
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
		_exit(0);
	}
	CHECKF(cgroup_attach(&cg, pid, &e) == 0, "a process can be moved into the group %s", e.msg);
	cgroup_read_stat(&cg, &s);
	CHECK(s.pids_now == 1);
	CHECK(cgroup_kill(&cg, NULL) == 0 && WTERMSIG(reap(pid)) == SIGKILL);
	CHECK(cgroup_attach(&cg, pid, &e) == -ESRCH);
	unmake(&cg, id);
}

/* A process in other groups that finds only the id can end the whole group. */
static void test_reopen(void)
{
	struct cgroup_want want = { 64 << 20, CGROUP_UNSET, 1000, 16, false };
	struct cgroup cg, again;
	struct cgroup_host elsewhere = host;
	struct err e = ERR_INIT;
	unsigned set = 0;
	char id[16];
	pid_t pid;

	if (!make(&cg, &want, id, &set))
		return;
	pid = spawn_in(&cg);
	if (pid == 0)
		spin(shared_counter());
	cgroup_release(&cg);
	for (int k = 0; k < CGROUP_CTL_COUNT;
	     k++) /* as if we lived in groups that have nothing to do with it */
		snprintf(elsewhere.parent[k], CGROUP_DIR_MAX, "/sys/fs/cgroup/nowhere/%d", k);
	CHECKF(cgroup_reopen(&again, &elsewhere, id, &e) == 0, "the group can be reopened by its id %s",
	       e.msg);
	for (int k = 0; k < CGROUP_CTL_COUNT; k++) {
		if (k < CGROUP_FREEZER || host.unified[k])
			CHECKF(again.dirfd[k] >= 0, "the %s part of a reopened group is found",
			       cgroup_ctl_name(k));
	}
	CHECKF(cgroup_kill(&again, &e) == 0, "a reopened group can be killed %s", e.msg);
	CHECK(WTERMSIG(reap(pid)) == SIGKILL);
	CHECKF(cgroup_destroy(&again, &e) == 0 && !is_left(id), "a reopened group can be removed %s", e.msg);
}

/* Groups made inside ours do not stand in the way. */
static void test_nested(void)
{
	struct cgroup cg;
	struct cgroup_want want = nothing;
	unsigned set = 0;
	char id[16];
	int fd;

	if (!make(&cg, &want, id, &set))
		return;
	fd = cgroup_clone_fd(&cg);
	if (fd < 0)
		fd = cg.dirfd[CGROUP_MEMORY];
	CHECK(mkdirat(fd, "a", 0755) == 0 && mkdirat(fd, "a/b", 0755) == 0 && mkdirat(fd, "c", 0755) == 0);
	unmake(&cg, id);
}

static void test_busy(void)
{
	struct cgroup cg;
	struct cgroup_want want = nothing;
	struct err e = ERR_INIT;
	unsigned set = 0;
	char id[16];
	pid_t pid;

	if (!make(&cg, &want, id, &set))
		return;
	CHECK(cgroup_create(&(struct cgroup){ 0 }, &host, id, &want, &set, &e) == -EEXIST &&
	      strstr(e.msg, "already"));
	pid = spawn_in(&cg);
	if (pid == 0) {
		pause();
		_exit(0);
	}
	await_member(&cg, CGROUP_MEMORY);
	CHECK(cgroup_destroy(&cg, &e) == -EBUSY && strstr(e.msg, "cannot remove"));
	CHECK(cgroup_kill(&cg, NULL) == 0);
	reap(pid);
	unmake(&cg, id);
}

/* The groups of v1 alone, as on a host without cgroup2: freezer and cpuacct stand in. */
static bool without_v2(void)
{
	static const char *const name[] = { "freezer", "cpuacct" };

	if (host.version != 1)
		return false;
	for (int i = 0; i < 2; i++) {
		snprintf(host.parent[CGROUP_FREEZER + i], CGROUP_DIR_MAX, "/sys/fs/cgroup/%s", name[i]);
		host.unified[CGROUP_FREEZER + i] = false;
		if (access(host.parent[CGROUP_FREEZER + i], W_OK) < 0)
			return false;
	}
	return true;
}

static void test_real(void)
{
	test_bad_id();
	if (!host.usable[CGROUP_MEMORY] || !host.usable[CGROUP_PIDS] || !host.usable[CGROUP_CPU]) {
		tap_skip("limits hold on the real kernel", host.why[CGROUP_MEMORY]);
		return;
	}
	test_memory();
	test_pids();
	test_cpu();
	test_freeze("best");
	test_bomb("best", false);
	test_bomb("lean", true);
	test_attach();
	test_reopen();
	test_nested();
	test_busy();
	if (!without_v2()) {
		tap_skip("the v1 freezer and cpuacct work",
			 "they are not mounted at the usual place, or not ours to use");
		return;
	}
	test_freeze("v1");
	test_bomb("v1", false);
	test_cpu();
}

int main(void)
{
	struct err e = ERR_INIT;

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	test_nothing_usable();
	CHECKF(cgroup_host_probe(&host, &e) == 0, "control groups of this host can be probed %s", e.msg);
	test_shortcut();
	test_two_steps();
	test_real();
	return tap_done();
}
