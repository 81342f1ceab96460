/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting a program, in two halves: the steps that the child takes before exec, in a fixed order, and the starter that
 * forks, waits for the report pipe and turns a failed step into an error. The invariants S1 to S9 are in spawn.h. The child
 * runs nothing but its steps: a step that fails ends it (spawn.S8).
 */
#include "sys/spawn.h"

#include "base/cleanup.h"
#include "sys/cgroup/cgroup.h"
#include "sys/fence/caps.h"
#include "sys/fence/seccomp_list.h"
#include "sys/ns.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NO_FD (-1)
#define RANGE_CLOEXEC 4 /* CLOSE_RANGE_CLOEXEC, Linux 5.11 */

/* The state of the child before exec. Its own descriptors are moved away from the numbers that step_fds() assigns. */
struct child {
	const struct spawn *s;
	pid_t parent; /* 0: this is spawn_exec() */
	int exe;      /* -1: by path */
	int report;   /* write end of the report pipe, CLOEXEC; -1: none */
	bool is_born_in_group;
};

/* The failure that the child sends up the pipe. An empty pipe that closes means that exec has succeeded. */
struct report {
	int step, code;
};

/* --- the steps: in the child, each 0 or a negative errno -------------------------------------------------------- */

static int step_cgroup(struct child *c)
{
	return c->s->cgroup ? cgroup_attach_self(c->s->cgroup, c->is_born_in_group) : 0;
}

static int step_session(struct child *c)
{
	/* setsid() makes a process group too, and fails for a process that already leads one. */
	if (c->s->flags & SPAWN_SESSION)
		return setsid() < 0 ? -errno : 0;
	if (c->s->flags & SPAWN_GROUP)
		return setpgid(0, 0) < 0 ? -errno : 0;
	return 0;
}

static int step_orphan(struct child *c)
{
	pid_t pid;

	if (!(c->s->flags & SPAWN_ORPHAN))
		return 0;
	pid = fork();
	if (pid > 0)
		_exit(0);
	return pid < 0 ? -errno : 0;
}

/* tcsetpgrp() from the background raises SIGTTOU, so it is ignored until step_signals() restores it. A failing tcsetpgrp()
 * is ignored. */
static int step_terminal(struct child *c)
{
	if (!(c->s->flags & SPAWN_FOREGROUND))
		return 0;
	if (signal(SIGTTOU, SIG_IGN) == SIG_ERR)
		return -errno;
	(void)!tcsetpgrp(c->s->terminal, getpid());
	return 0;
}

static int step_cwd(struct child *c)
{
	if (c->s->flags & SPAWN_KEEP_CWD)
		return 0;
	if (c->s->flags & SPAWN_CWD_FD)
		return fchdir(c->s->cwd_fd) < 0 ? -errno : 0;
	return chdir(c->s->cwd ? c->s->cwd : "/") < 0 ? -errno : 0;
}

/* Copies fd to a number that is not assigned by fds[], unless it has such a number already. */
static int move_fd_above(int fd, size_t n)
{
	if (fd < 0 || fd >= (int)n)
		return fd;
	fd = fcntl(fd, F_DUPFD_CLOEXEC, (int)n);
	return fd < 0 ? -errno : fd;
}

static int place_fd(int from, int to)
{
	if (from == to)
		return fcntl(to, F_SETFD, 0) < 0 ? -errno : 0;
	return dup2(from, to) < 0 ? -errno : 0;
}

static int open_null(size_t n)
{
	autoclose int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	return fd >= (int)n ? TAKE_FD(fd) : move_fd_above(fd, n);
}

/* For each number the descriptor to copy from, none of which has a number that is assigned. */
static int choose_fd_sources(const struct spawn *s, int from[SPAWN_FDS_MAX])
{
	int null = NO_FD;

	for (size_t i = 0; i < s->n_fds; i++) {
		if (s->fds[i] == SPAWN_NULL && null < 0)
			null = open_null(s->n_fds);
		if (s->fds[i] == SPAWN_NULL)
			from[i] = null;
		else
			from[i] = s->fds[i] == (int)i ? (int)i : move_fd_above(s->fds[i], s->n_fds);
		if (from[i] < 0)
			return from[i];
	}
	return 0;
}

/* spawn.S1: first copies the descriptors whose number is assigned to another one, then puts each in place, then marks all others
 * close-on-exec. That keeps the report pipe open until exec. */
static int step_fds(struct child *c)
{
	const size_t n = c->s->n_fds;
	int from[SPAWN_FDS_MAX], r = move_fd_above(c->report, n);

	if (r < NO_FD)
		return r;
	c->report = r;
	r = move_fd_above(c->exe, n);
	if (r < NO_FD)
		return r;
	c->exe = r;
	r = choose_fd_sources(c->s, from);
	for (size_t i = 0; i < n && r == 0; i++)
		r = place_fd(from[i], (int)i);
	if (r == 0 && syscall(SYS_close_range, (unsigned)n, ~0U, RANGE_CLOEXEC) < 0)
		r = -errno;
	return r;
}

static int lower_limit(int what, uint64_t most)
{
	struct rlimit now;

	if (SANITIZED && (what == RLIMIT_AS ||
			  what == RLIMIT_DATA)) /* sanitizers: their shadow memory is larger than any limit */
		return 0;
	if (getrlimit((__rlimit_resource_t)what, &now) < 0)
		return -errno;
	now.rlim_max = most < now.rlim_max ? most : now.rlim_max;
	now.rlim_cur = now.rlim_max;
	return setrlimit((__rlimit_resource_t)what, &now) < 0 ? -errno : 0;
}

static int step_limits(struct child *c)
{
	const struct rlimit all = { RLIM_INFINITY, RLIM_INFINITY }, none = { 0, 0 };
	int r = 0;

	/* Only root may raise it; otherwise the current limit stays. */
	if (c->s->flags & SPAWN_MEMLOCK)
		(void)!setrlimit(RLIMIT_MEMLOCK, &all);
	if (!(c->s->flags & SPAWN_SAME_ID) && setrlimit(RLIMIT_CORE, &none) < 0)
		return -errno;
	for (size_t i = 0; r == 0 && i < c->s->n_limits; i++)
		r = lower_limit(c->s->limits[i].what, c->s->limits[i].most);
	if (!(c->s->flags & SPAWN_KEEP_UMASK))
		umask(077);
	return r;
}

/* spawn.S3: raw system calls, because this process has one thread and the C library would look for others. */
static int step_id(struct child *c)
{
	uint32_t id = c->s->id;

	if (c->s->flags & SPAWN_SAME_ID)
		return c->s->flags & SPAWN_NO_CAPS ? caps_give_up_all(NULL) : 0;
	if (geteuid() == 0 && ns_is_initial_user() &&
	    (syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, id, id, id) < 0 ||
	     syscall(SYS_setresuid, id, id, id) < 0))
		return -errno;
	return caps_give_up_all(NULL);
}

static int step_privs(struct child *c)
{
	if (c->s->flags & SPAWN_MAY_GAIN)
		return 0;
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;
}

static int step_death(struct child *c)
{
	if (!c->parent || c->s->flags & SPAWN_OUTLIVES)
		return 0;
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		return -errno;
	return getppid() == c->parent ? 0 : -ESRCH;
}

static int step_signals(struct child *c)
{
	spawn_plain_signals(c->s->ignore);
	return 0;
}

static int step_exec(struct child *c)
{
	static char *const no_env[] = { NULL };
	char *const *env = c->s->env ? c->s->env : no_env;

	if (!c->s->path)
		syscall(SYS_execveat, c->exe, "", c->s->argv, env, AT_EMPTY_PATH);
	else
		execvpe(c->s->path, c->s->argv, env);
	return -errno;
}

static const struct {
	int (*fn)(struct child *c);
	const char *what;
} steps[] = {
	[SPAWN_STEP_CGROUP] = { step_cgroup, "joining its control group" },
	[SPAWN_STEP_SESSION] = { step_session, "making its session" },
	[SPAWN_STEP_ORPHAN] = { step_orphan, "leaving its starter" },
	[SPAWN_STEP_TERMINAL] = { step_terminal, "taking the terminal" },
	[SPAWN_STEP_CWD] = { step_cwd, "changing to its directory" },
	[SPAWN_STEP_FDS] = { step_fds, "placing its descriptors" },
	[SPAWN_STEP_LIMITS] = { step_limits, "setting its limits" },
	[SPAWN_STEP_ID] = { step_id, "giving up identity and capabilities" },
	[SPAWN_STEP_PRIVS] = { step_privs, "setting no_new_privs" },
	[SPAWN_STEP_DEATH] = { step_death, "tying it to its starter" },
	[SPAWN_STEP_SIGNALS] = { step_signals, "resetting its signals" },
	[SPAWN_STEP_EXEC] = { step_exec, "executing it" },
};
static_assert(ARRAY_SIZE(steps) == SPAWN_STEP_COUNT, "each step has its function");

/* Runs all steps. Returns only when one has failed. */
static struct report walk_steps(struct child *c)
{
	for (int i = 0;; i++) {
		int r = steps[i].fn(c);

		if (r < 0)
			return (struct report){ i, r };
	}
}

void spawn_die_with(pid_t parent)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
		_exit(126);
}

/* spawn.S5, by raw system calls: the C library hides two signals. exec resets handlers, but not ignored signals. */
void spawn_plain_signals(uint64_t ignore)
{
	const struct {
		void (*handler)(int);
		unsigned long flags;
		void (*restorer)(void);
		uint64_t mask;
	} deflt = { SIG_DFL, 0, NULL, 0 }, ignored = { SIG_IGN, 0, NULL, 0 };
	const uint64_t none = 0;

	for (int sig = 1; sig <= 64; sig++) {
		if (sig != SIGKILL && sig != SIGSTOP)
			syscall(SYS_rt_sigaction, sig, ignore & SPAWN_SIGNAL(sig) ? &ignored : &deflt, NULL,
				sizeof(uint64_t));
	}
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, sizeof(none));
}

/* --- the starter ------------------------------------------------------------------------------------------------ */

static const char *spawn_name(const struct spawn *s)
{
	return s->name ? s->name : s->argv[0];
}

/* Aborts on combinations of fields that make no sense: a bug of the caller. */
static void check_spawn(const struct spawn *s)
{
	BUG_ON(!s->argv || !s->argv[0]);
	BUG_ON(s->n_fds < 3 || s->n_fds > SPAWN_FDS_MAX);
	BUG_ON(!(s->flags & SPAWN_SAME_ID) != (s->id != 0));
	BUG_ON(s->flags & SPAWN_MAY_GAIN && !(s->flags & SPAWN_SAME_ID));
	BUG_ON(s->flags & SPAWN_ORPHAN && (!(s->flags & SPAWN_OUTLIVES) || s->flags & SPAWN_LATER));
	BUG_ON(s->flags & SPAWN_FOREGROUND && !(s->flags & SPAWN_GROUP));
}

/* CLONE_CLEAR_SIGHAND: no handler of the starter's runs in the child. */
static pid_t fork_into_cgroup(const struct cgroup *cg, bool *ret_born, int *ret_pidfd)
{
	int fd = cg ? cgroup_clone_fd(cg) : -1;

	*ret_born = fd >= 0;
	return ns_fork(CLONE_CLEAR_SIGHAND, fd, ret_pidfd);
}

static int step_failed(const char *name, const struct report *rep, enum spawn_step *ret_step, struct err *e)
{
	*ret_step = (enum spawn_step)rep->step;
	return err_sys(e, rep->code, "cannot start %s: %s", name, steps[rep->step].what);
}

int spawn_told(int report, const char *name, enum spawn_step *ret_step, struct err *e)
{
	struct report rep = { 0 };
	ssize_t n;

	*ret_step = SPAWN_STEP_COUNT;
	do {
		n = read(report, &rep, sizeof(rep));
	} while (n < 0 && errno == EINTR);
	fd_close(report);
	if (n == (ssize_t)sizeof(rep) && rep.step >= 0 && rep.step < SPAWN_STEP_COUNT && rep.code < 0)
		return step_failed(name, &rep, ret_step, e);
	return n == 0 ? 0 : err_set(e, -EPROTO, "cannot start %s: it ended without a reason", name);
}

int spawn_wait(struct spawned *p)
{
	siginfo_t si = { 0 };
	int r;

	do {
		r = waitid(P_PIDFD, (id_t)p->pidfd, &si, WEXITED);
	} while (r < 0 && errno == EINTR);
	p->pidfd = fd_close(p->pidfd);
	p->pid = 0;
	if (r < 0)
		return SPAWN_STATUS_UNKNOWN;
	return si.si_code == CLD_EXITED ? (si.si_status & 0xff) << 8 : si.si_status & 0x7f;
}

int spawn_start_step(const struct spawn *s, struct spawned *ret, enum spawn_step *ret_step, struct err *e)
{
	struct child c = { .s = s, .parent = getpid(), .exe = s->path ? NO_FD : s->exe };
	struct spawned got = SPAWNED_INIT;
	autoclose int in = -1, out = -1;
	int p[2], r = 0;

	check_spawn(s);
	*ret_step = SPAWN_STEP_COUNT;
	if (pipe2(p, O_CLOEXEC) < 0)
		return err_sys(e, -errno, "cannot start %s", spawn_name(s));
	in = p[0];
	c.report = out = p[1];
	got.pid = fork_into_cgroup(s->cgroup, &c.is_born_in_group, &got.pidfd);
	if (got.pid == 0) {
		struct report rep = walk_steps(&c);

		(void)!write(c.report, &rep, sizeof(rep));
		_exit(126);
	}
	if (got.pid < 0)
		return err_sys(e, got.pid, "cannot start %s: no process could be made", spawn_name(s));
	out = fd_close(out);
	if (s->flags & SPAWN_LATER)
		got.report = TAKE_FD(in);
	else
		r = spawn_told(TAKE_FD(in), spawn_name(s), ret_step, e);
	if (r < 0 || s->flags & SPAWN_ORPHAN)
		(void)spawn_wait(&got);
	if (r == 0)
		*ret = got;
	return r;
}

int spawn_start(const struct spawn *s, struct spawned *ret, struct err *e)
{
	enum spawn_step step;

	return spawn_start_step(s, ret, &step, e);
}

int spawn_exec(const struct spawn *s, struct err *e)
{
	struct child c = { .s = s, .exe = s->path ? NO_FD : s->exe, .report = NO_FD };
	enum spawn_step step;
	struct report rep;

	check_spawn(s);
	BUG_ON(s->flags & SPAWN_ORPHAN);
	rep = walk_steps(&c);
	return step_failed(spawn_name(s), &rep, &step, e);
}

/* --- environment ------------------------------------------------------------------------------------------------ */

int spawn_env_copy(struct strv *env, const char *const *names, size_t n)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++) {
		const char *v = getenv(names[i]); // NOLINT(concurrency-mt-unsafe): one thread

		r = v ? strv_addf(env, "%s=%s", names[i], v) : 0;
	}
	return r;
}

static bool is_var_of(const char *var, const char *const *names, size_t n)
{
	size_t len = strcspn(var, "=");

	for (size_t i = 0; i < n; i++) {
		if (strlen(names[i]) == len && memcmp(names[i], var, len) == 0)
			return true;
	}
	return false;
}

int spawn_env_but(struct strv *env, const char *const *names, size_t n)
{
	int r = 0;

	for (char **v = environ; r == 0 && *v; v++) {
		if (!is_var_of(*v, names, n))
			r = strv_add(env, *v);
	}
	return r;
}
