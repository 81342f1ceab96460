/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts coffer-egress, coffer-dial and coffer-netd: descriptors at fixed numbers, nothing else open, no environment, not
 * as the host's root, and with resource limits, because input from inside the sandbox determines their usage.
 * They confine themselves further before they read a byte.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "netd/serve/net_int.h"
#include "sandbox/engine/helper.h"
#include "sys/spawn.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define MEMORY_MAX (512ULL << 20) /* of all together, including the kernel's memory for their sockets */
#define PIDS_MAX 16
#define JOURNAL_MAX (64ULL << 30) /* offsets only grow; folded bytes take no space */
#define NOFILE_MAX 65536
#define BACKOFF_FIRST (100 * NSEC_PER_MSEC)
#define BACKOFF_MOST (5 * NSEC_PER_SEC)
#define LIVED_LONG (30 * NSEC_PER_SEC) /* after this long a death counts as the first again */
/* Within the run's block of ids: never the command's. What reads the journals is apart from what writes them. */
#define TRAFFIC_ID 65533
#define READER_ID 65532

static const struct {
	const char *name;
	uint64_t data; /* RLIMIT_DATA in bytes */
	uint32_t id;
} programs[] = {
	[NET_EGRESS] = { "coffer-egress", 384ULL << 20, TRAFFIC_ID },
	[NET_DIAL] = { "coffer-dial", 192ULL << 20, TRAFFIC_ID },
	[NET_READER] = { "coffer-netd", 64ULL << 20, READER_ID },
};

const char *net_part_name(enum net_part p)
{
	return programs[p].name;
}

int net_proc_open(struct net_proc *p, struct err *e)
{
	if (p->exe < 0)
		p->exe = helper_open(programs[p->part].name, e);
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
	/* Without one the rlimits below have to do. */
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

/* Never the host's root: an id of the run's own block, which nobody else has. */
static uint32_t program_uid(const struct ids *ids, enum net_part part)
{
	return ids->out_uid >= IDS_BLOCK ? ids->out_uid + programs[part].id : 65534;
}

int net_proc_socket(struct net_proc *p, struct err *e)
{
	int sv[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
		return err_sys(e, -errno, "cannot make a socket pair");
	if (fd_set_nonblock(sv[0], true) < 0) {
		fd_close(sv[0]);
		fd_close(sv[1]);
		return err_sys(e, -errno, "cannot make a socket pair");
	}
	p->w_ctl.fd = fd_close(p->w_ctl.fd);
	p->w_ctl.fd = sv[0];
	return sv[1];
}

int net_proc_start(struct net_proc *p, const int *fds, size_t n, struct err *e)
{
	const struct spawn_limit limits[] = { { RLIMIT_FSIZE, JOURNAL_MAX },
					      { RLIMIT_NOFILE, NOFILE_MAX },
					      { RLIMIT_DATA, programs[p->part].data } };
	char mask[16], *argv[] = { (char *)programs[p->part].name, mask, NULL };
	int given[SPAWN_FDS_MAX] = { SPAWN_NULL, SPAWN_NULL, SPAWN_NULL };
	const struct spawn s = { .exe = p->exe,
				 .argv = argv,
				 .fds = given,
				 .n_fds = n,
				 .id = program_uid(&p->g->c.spec->ids, p->part),
				 .ignore = SPAWN_SIGNAL(SIGPIPE) | SPAWN_SIGNAL(SIGXFSZ),
				 .limits = limits,
				 .n_limits = ARRAY_SIZE(limits),
				 .cgroup = p->g->has_cgroup ? &p->g->cg : NULL,
				 .flags = SPAWN_LATER };
	struct spawned got = SPAWNED_INIT;
	unsigned real = 0;
	int r;

	BUG_ON(n > ARRAY_SIZE(given));
	for (size_t i = 3; i < n; i++) {
		given[i] = fds[i] >= 0 ? fds[i] : SPAWN_NULL;
		real |= fds[i] >= 0 ? FDS_BIT(i) : 0;
	}
	snprintf(mask, sizeof(mask), "%x", real);
	r = spawn_start(&s, &got, e);
	if (r < 0)
		return r;
	p->pid = got.pid;
	p->w_pid.fd = got.pidfd;
	p->report = got.report;
	p->since = clock_nsec(CLOCK_MONOTONIC);
	p->ready = p->quitting = p->ca_said = false;
	p->owed = 0;
	p->why[0] = '\0';
	return 0;
}

static void close_program(struct net_proc *p)
{
	loop_unwatch(&p->g->loop, &p->w_pid);
	loop_unwatch(&p->g->loop, &p->w_ctl);
	p->w_pid.fd = fd_close(p->w_pid.fd);
	p->w_ctl.fd = fd_close(p->w_ctl.fd);
	p->report = fd_close(p->report);
	p->pid = -1;
	p->ready = false;
}

int net_proc_started(struct net_proc *p, struct err *e)
{
	enum spawn_step step;
	int r = p->report < 0 ? 0 : spawn_told(TAKE_FD(p->report), programs[p->part].name, &step, e);

	if (r < 0)
		net_proc_kill(p);
	return r;
}

uint64_t net_proc_start_again_at(uint64_t *backoff, uint64_t up_since)
{
	const uint64_t now = clock_nsec(CLOCK_MONOTONIC);

	if (up_since && now - up_since > LIVED_LONG)
		*backoff = 0;
	*backoff = !*backoff ? BACKOFF_FIRST : *backoff * 2 > BACKOFF_MOST ? BACKOFF_MOST : *backoff * 2;
	return now + *backoff;
}

bool net_proc_has_ended(const struct net_proc *p, siginfo_t *ret)
{
	*ret = (siginfo_t){ 0 };
	if (p->pid < 0)
		return false;
	return waitid(P_PIDFD, (id_t)p->w_pid.fd, ret, WEXITED | WNOHANG | WNOWAIT) < 0 || ret->si_pid != 0;
}

void net_proc_describe_end(const struct net_proc *p, const siginfo_t *si, char out[320])
{
	if (p->why[0])
		snprintf(out, 320, "%s", p->why);
	else if (si->si_pid == 0)
		snprintf(out, 320, "it ended with an unknown status");
	else if (si->si_code == CLD_EXITED)
		snprintf(out, 320, "it ended with status %d", si->si_status);
	else
		snprintf(out, 320, "it was killed by signal %d (%s)", si->si_status,
			 strsignal(si->si_status));
}

void net_proc_kill(struct net_proc *p)
{
	siginfo_t si;

	if (p->pid < 0)
		return;
	syscall(SYS_pidfd_send_signal, p->w_pid.fd, SIGKILL, NULL, 0);
	while (waitid(P_PIDFD, (id_t)p->w_pid.fd, &si, WEXITED) < 0 && errno == EINTR)
		;
	close_program(p);
}

bool net_proc_wait(struct net_proc *p, uint64_t until)
{
	struct pollfd pfd = { .fd = p->w_pid.fd, .events = POLLIN };
	uint64_t now = clock_nsec(CLOCK_MONOTONIC);

	if (p->pid < 0)
		return true;
	return poll(&pfd, 1, now < until ? (int)((until - now) / NSEC_PER_MSEC) + 1 : 0) == 1;
}
