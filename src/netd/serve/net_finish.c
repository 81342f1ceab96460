/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journals of a run whose guard is gone, or whose coffer-netd did not do its part: read to their end by a forked child behind
 * coffer-netd's fence, which speaks the same protocol (wire/netd_proto.h). This process may not parse a byte of them.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "ipc/fdpass.h"
#include "netd/read/netd_fence.h"
#include "netd/read/netd_read.h"
#include "netd/serve/net_int.h"
#include "sys/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Without a sign of progress, and in all: an honest program leaves 64 MiB at most (net_journal.c), which take some 20 seconds. */
#define PROGRESS_WITHIN (30 * NSEC_PER_SEC)
#define READ_WITHIN (120 * NSEC_PER_SEC)

struct leftover {
	const struct net_config *c;
	struct net_journal journal[NET_PARTS];
	struct netd_peer peer;
	uint64_t begun, progress; /* CLOCK_MONOTONIC ns */
	int place;		  /* NET_JOURNAL_PLACE; -1: none */
	int log_error;
	int sock;
	pid_t pid;
};

/* The programs died with their guard; only their control group is left. */
static void end_leftover_programs(const struct net_config *c)
{
	struct cgroup cg = CGROUP_INIT;
	char id[RUN_ID_LEN + 8];

	snprintf(id, sizeof(id), "%s-net", c->spec->id);
	/* A confined launcher finds the group only in the place where it would make one. That suffices,
	 * because its guard made it there. */
	(void)!cgroup_reopen(&cg, c->cgroup_host, id, NULL);
	if (cgroup_kill(&cg, NULL) == 0)
		(void)!cgroup_destroy(&cg, NULL);
	cgroup_release(&cg);
}

/* Becomes what coffer-netd is: its descriptors at their numbers and no other, a fence, and the loop of netd_read.h. */
_Noreturn static void be_reader(int sock, const int read_fd[NET_PARTS], pid_t parent)
{
	static struct netd_report report;
	const int from[] = { sock, read_fd[NET_EGRESS], read_fd[NET_DIAL] };
	int journal[NET_FROM_COUNT], high[ARRAY_SIZE(from)];
	struct err e = ERR_INIT;

	/* Out of the way first: a number that one of them gets may be another's. */
	for (size_t i = 0; i < ARRAY_SIZE(from); i++)
		high[i] = from[i] < 0 ? -1 : fcntl(from[i], F_DUPFD_CLOEXEC, 64);
	if (close_range(0, 63, 0) < 0)
		_exit(125);
	for (size_t i = 0; i < ARRAY_SIZE(from); i++) {
		if (from[i] >= 0 && dup2(high[i], NETD_FD_CONTROL + (int)i) < 0)
			_exit(125);
	}
	if (close_range(64, ~0U, 0) < 0)
		_exit(125);
	journal[NET_FROM_EGRESS] = read_fd[NET_EGRESS] < 0 ? -1 : NETD_FD_EGRESS;
	journal[NET_FROM_DIAL] = read_fd[NET_DIAL] < 0 ? -1 : NETD_FD_DIAL;
	netd_prepare();
	spawn_plain_signals(SPAWN_SIGNAL(SIGPIPE));
	spawn_die_with(parent);
	if (fence_up(&netd_fence, &e) < 0)
		_exit(125);
	_exit(netd_serve(NETD_FD_CONTROL, journal, &report) < 0 ? 125 : 0);
}

static int start_leftover_reader(struct leftover *l, const int read_fd[NET_PARTS], struct err *e)
{
	const pid_t parent = getpid();
	int sv[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
		return err_sys(e, -errno, "cannot make a socket pair");
	l->pid = fork();
	if (l->pid == 0)
		be_reader(sv[1], read_fd, parent);
	fd_close(sv[1]);
	l->sock = sv[0];
	return l->pid < 0 ? err_sys(e, -errno, "cannot start the reader of a run's journals") : 0;
}

static int end_leftover_reader(struct leftover *l)
{
	int status = 0;

	l->sock = fd_close(l->sock);
	if (l->pid <= 0)
		return 0;
	kill(l->pid, SIGKILL);
	while (waitpid(l->pid, &status, 0) < 0 && errno == EINTR)
		;
	return status;
}

static uint64_t on_leftover_size(void *ctx, enum net_from from)
{
	const struct leftover *l = ctx;

	return net_journal_size(&l->journal[from]);
}

static int on_leftover_event(void *ctx, const void *packed, size_t len)
{
	struct leftover *l = ctx;
	int r = net_reader_log(l->c, packed, len);

	l->progress = clock_nsec(CLOCK_MONOTONIC);
	if (r < 0 && r != -EPROTO)
		l->log_error = r;
	return r;
}

static void on_leftover_logged(void *ctx)
{
	const struct leftover *l = ctx;

	net_journal_keep_place(l->place, &l->peer);
}

static void on_leftover_counted(void *ctx)
{
	struct leftover *l = ctx;

	net_journal_keep_place(l->place, &l->peer);
	l->progress = clock_nsec(CLOCK_MONOTONIC);
	for (int i = 0; i < NET_PARTS; i++)
		net_journal_punch(&l->journal[i], l->peer.counted[i]);
}

static void on_leftover_said(void *ctx, const struct netd_said *s)
{
	(void)ctx;
	(void)s; /* the terminal is gone */
}

static void on_leftover_fail(void *ctx, const char *text, size_t len)
{
	(void)ctx;
	(void)text;
	(void)len;
}

static int ask_leftover_reader(struct leftover *l, enum netd_ask_type type)
{
	struct netd_ask a = { .type = type };

	memcpy(a.counted, l->peer.counted, sizeof(a.counted));
	memcpy(a.logged, l->peer.logged, sizeof(a.logged));
	return fdpass_send(l->sock, &a, sizeof(a), NULL, 0);
}

/* Takes messages until that state. */
static int take_leftover_until(struct leftover *l, enum netd_state state)
{
	static char message[NETD_MESSAGE_MAX];
	const struct netd_calls calls = { on_leftover_size,
					  on_leftover_event,
					  on_leftover_logged,
					  on_leftover_counted,
					  on_leftover_said,
					  on_leftover_fail,
					  l };
	int r = 0;

	l->progress = clock_nsec(CLOCK_MONOTONIC);
	while (r == 0 && l->peer.state != state) {
		const uint64_t now = clock_nsec(CLOCK_MONOTONIC);
		struct pollfd p = { .fd = l->sock, .events = POLLIN };
		size_t len = 0;

		if (now - l->progress > PROGRESS_WITHIN || now - l->begun > READ_WITHIN)
			return -ETIMEDOUT;
		if (poll(&p, 1, 1000) <= 0)
			continue;
		r = fdpass_recv_some(l->sock, message, sizeof(message), &len, NULL, 0);
		r = r == -EINTR ? 0 : r < 0 ? r : netd_take(&l->peer, message, len, now, &calls);
	}
	return r;
}

static int read_leftover(struct leftover *l)
{
	uint64_t size[NET_PARTS];
	int r;

	for (int i = 0; i < NET_PARTS; i++)
		size[i] = net_journal_size(&l->journal[i]);
	net_journal_find_place(l->place, size, &l->peer);
	l->begun = clock_nsec(CLOCK_MONOTONIC);
	netd_peer_begin(&l->peer, l->begun);
	r = ask_leftover_reader(l, NETD_BEGIN);
	if (r == 0)
		r = take_leftover_until(l, NETD_IS_UP);
	if (r == 0)
		r = ask_leftover_reader(l, NETD_QUIT);
	if (r < 0)
		return r;
	l->peer.state = NETD_IS_ENDING;
	return take_leftover_until(l, NETD_IS_OVER);
}

/* The log says that lines are missing, and where. */
static int log_unread(const struct leftover *l, int error)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);

	for (int i = 0; i < NET_PARTS; i++) {
		const uint64_t size = net_journal_size(&l->journal[i]);

		if (l->journal[i].fd >= 0 && size > l->peer.counted[i])
			json_u64(&j, i == NET_EGRESS ? "egress_bytes" : "dial_bytes",
				 size - l->peer.counted[i]);
	}
	json_str(&j, "why",
		 error == -EPROTO      ? "the reader sent a malformed message"
		 : error == -ETIMEDOUT ? "the reader did not get on"
				       : "the reader ended before it had read everything");
	return buf_error(&b) ? -ENOMEM : audit_append(l->c->audit, "net.unread", l->c->spec->id, &b, NULL);
}

static int finish_journals(struct leftover *l, const int read_fd[NET_PARTS], struct err *e)
{
	int r = start_leftover_reader(l, read_fd, e);

	if (r < 0)
		return r;
	r = read_leftover(l);
	(void)end_leftover_reader(l);
	if (r < 0 && !l->log_error)
		l->log_error = log_unread(l, r);
	if (l->log_error < 0)
		return err_sys(e, l->log_error, "cannot write network events to the audit log");
	for (int i = 0; i < NET_PARTS; i++)
		(void)unlinkat(l->c->spec->run_fd, net_journal_names[i], 0);
	(void)unlinkat(l->c->spec->run_fd, NET_JOURNAL_PLACE, 0);
	return 0;
}

int net_finish(const struct net_config *c, struct err *e)
{
	struct leftover l = { .c = c, .sock = -1, .place = net_journal_open_place(c->spec->run_fd, false) };
	int read_fd[NET_PARTS], r = 0;
	bool any = false;

	for (int i = 0; i < NET_PARTS; i++) {
		const int flags = O_CLOEXEC | O_NOFOLLOW;

		l.journal[i].fd = openat(c->spec->run_fd, net_journal_names[i], O_RDWR | flags);
		read_fd[i] = l.journal[i].fd < 0
				     ? -1
				     : openat(c->spec->run_fd, net_journal_names[i], O_RDONLY | flags);
		any = any || l.journal[i].fd >= 0;
		if (l.journal[i].fd >= 0 && read_fd[i] < 0)
			r = err_sys(e, -errno, "cannot read %s of a run", net_journal_names[i]);
	}
	/* Nobody may write while they are read to their end. */
	end_leftover_programs(c);
	if (any && r == 0)
		r = finish_journals(&l, read_fd, e);
	fd_close(l.place);
	for (int i = 0; i < NET_PARTS; i++) {
		fd_close(l.journal[i].fd);
		fd_close(read_fd[i]);
	}
	return r;
}
