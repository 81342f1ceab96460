/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting coffer-egress and coffer-dial: descriptors at fixed numbers, nothing else open, no environment, no identity
 * of the host's root, and a limit to what they may use, for what comes from inside decides how much that is. They
 * confine themselves further before they read a byte.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "netd/serve/net_int.h"
#include "sandbox/engine/helper.h"
#include "sys/fence/caps.h"
#include "sys/fence/seccomp_list.h"
#include "sys/ns.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define MEMORY_MAX (512ULL << 20) /* of both together, with what the kernel holds for their sockets */
#define PIDS_MAX 16
#define JOURNAL_MAX (64ULL << 30) /* offsets go on for as long as it lives; what was folded takes no room */
#define NOFILE_MAX 65536
#define OWN_ID 65533 /* of the run's block: never the command's */

static const struct {
	const char *name;
	uint64_t data; /* bytes of memory of its own */
} parts[] = {
	[NET_EGRESS] = { "coffer-egress", 384ULL << 20 },
	[NET_DIAL] = { "coffer-dial", 192ULL << 20 },
};

const char *net_part_name(enum net_part p)
{
	return parts[p].name;
}

int net_proc_open(struct net_proc *p, struct err *e)
{
	if (p->exe < 0)
		p->exe = helper_open(parts[p->part].name, e);
	return p->exe < 0 ? p->exe : 0;
}

void net_cgroup_open(struct net_guard *g)
{
	const struct cgroup_want want = { .memory_max = MEMORY_MAX,
					  .memory_low = CGROUP_UNSET,
					  .cpu_milli = CGROUP_UNSET,
					  .pids_max = PIDS_MAX,
					  .lean = true };
	char id[RUN_ID_LEN + 8];
	unsigned set;

	if (g->has_cgroup)
		return;
	snprintf(id, sizeof(id), "%s-net", g->c.spec->id);
	/* Without one the rlimits below are what there is. */
	g->has_cgroup = cgroup_host_probe(&g->cgroup_host, NULL) == 0 &&
			cgroup_create(&g->cg, &g->cgroup_host, id, &want, &set, NULL) == 0;
}

void net_cgroup_close(struct net_guard *g)
{
	if (!g->has_cgroup)
		return;
	if (cgroup_kill(&g->cg, NULL) == 0)
		(void)!cgroup_destroy(&g->cg, NULL);
	cgroup_release(&g->cg);
	g->has_cgroup = false;
}

static void limit(int what, uint64_t most)
{
	struct rlimit now;

	if (getrlimit((__rlimit_resource_t)what, &now) < 0)
		_exit(126);
	now.rlim_max = most < now.rlim_max ? most : now.rlim_max;
	now.rlim_cur = now.rlim_max;
	if (setrlimit((__rlimit_resource_t)what, &now) < 0)
		_exit(126);
}

/* The host's root runs neither of them; the id is one of the run's own block, which nobody else has. */
static void give_up_identity(const struct ids *ids)
{
	uint32_t id = ids->out_uid >= IDS_BLOCK ? ids->out_uid + OWN_ID : 65534;

	uint64_t have = 0;

	if (state_is_host_root() &&
	    (setgroups(0, NULL) < 0 || setresgid(id, id, id) < 0 || setresuid(id, id, id) < 0))
		_exit(126);
	/* Root of some user namespace has them too. */
	if (caps_effective(&have, NULL) < 0 || (have && caps_give_up(0, NULL) < 0))
		_exit(126);
}

/* Each to its number, without stepping on one that is still to be moved. */
static void place(const int *fds, size_t n, int exe)
{
	int high[32], null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int keep = fcntl(exe, F_DUPFD_CLOEXEC, 100);

	if (null < 0 || keep < 0 || n > ARRAY_SIZE(high))
		_exit(126);
	for (size_t i = 0; i < n; i++) {
		high[i] = fcntl(i >= 3 && fds[i] >= 0 ? fds[i] : null, F_DUPFD_CLOEXEC, 100);
		if (high[i] < 0)
			_exit(126);
	}
	for (size_t i = 0; i < n; i++) {
		if (dup2(high[i], (int)i) < 0)
			_exit(126);
	}
	/* The program itself is behind all of them, and closed by its own exec. */
	if (dup2(keep, (int)n) < 0 || fcntl((int)n, F_SETFD, FD_CLOEXEC) < 0 ||
	    syscall(SYS_close_range, (unsigned)n + 1, ~0U, 0) < 0)
		_exit(126);
}

static void plain_signals(void)
{
	sigset_t none;

	for (int sig = 1; sig < 32; sig++)
		signal(sig, sig == SIGPIPE || sig == SIGXFSZ ? SIG_IGN : SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

_Noreturn static void become(const struct net_proc *p, const int *fds, size_t n, pid_t parent)
{
	static char *const no_env[] = { NULL };
	char mask[16];
	char *argv[] = { (char *)parts[p->part].name, mask, NULL };
	unsigned real = 0;

	for (size_t i = 3; i < n; i++)
		real |= fds[i] >= 0 ? FDS_BIT(i) : 0;
	snprintf(mask, sizeof(mask), "%x", real);
	place(fds, n, p->exe);
	limit(RLIMIT_CORE, 0);
	limit(RLIMIT_FSIZE, JOURNAL_MAX);
	limit(RLIMIT_NOFILE, NOFILE_MAX);
	if (!SANITIZED) /* whose shadow is larger than any limit */
		limit(RLIMIT_DATA, parts[p->part].data);
	plain_signals();
	give_up_identity(&p->g->c.spec->ids);
	/* After the change of identity, which forgets it. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
		_exit(126);
	syscall(SYS_execveat, (int)n, "", argv, no_env, AT_EMPTY_PATH);
	_exit(127);
}

int net_proc_start(struct net_proc *p, const int *fds, size_t n, struct err *e)
{
	int cgroup_fd = p->g->has_cgroup ? cgroup_clone_fd(&p->g->cg) : -1;
	pid_t parent = getpid();
	int pidfd = -1;
	pid_t pid = ns_fork(0, cgroup_fd, &pidfd);

	if (pid < 0)
		return err_sys(e, pid, "cannot start %s", parts[p->part].name);
	if (pid == 0) {
		if (p->g->has_cgroup && cgroup_attach_self(&p->g->cg, cgroup_fd >= 0) < 0)
			_exit(126);
		become(p, fds, n, parent);
	}
	p->pid = pid;
	p->w_pid.fd = pidfd;
	p->since = clock_nsec(CLOCK_MONOTONIC);
	p->ready = p->quitting = p->ca_said = false;
	p->owed = 0;
	p->why[0] = '\0';
	return 0;
}

static void forget(struct net_proc *p)
{
	loop_unwatch(&p->g->loop, &p->w_pid);
	loop_unwatch(&p->g->loop, &p->w_ctl);
	p->w_pid.fd = fd_close(p->w_pid.fd);
	p->w_ctl.fd = fd_close(p->w_ctl.fd);
	p->pid = -1;
	p->ready = false;
}

void net_proc_kill(struct net_proc *p)
{
	siginfo_t si;

	if (p->pid < 0)
		return;
	syscall(SYS_pidfd_send_signal, p->w_pid.fd, SIGKILL, NULL, 0);
	while (waitid(P_PIDFD, (id_t)p->w_pid.fd, &si, WEXITED) < 0 && errno == EINTR)
		;
	forget(p);
}

bool net_proc_wait(struct net_proc *p, uint64_t until)
{
	struct pollfd pfd = { .fd = p->w_pid.fd, .events = POLLIN };
	uint64_t now = clock_nsec(CLOCK_MONOTONIC);

	if (p->pid < 0)
		return true;
	return poll(&pfd, 1, now < until ? (int)((until - now) / NSEC_PER_MSEC) + 1 : 0) == 1;
}
