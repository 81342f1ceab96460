/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop of the guard's network part (net.h): starts the programs with the first packet, restarts them,
 * and ends them with the run. It may not read a byte of the sandbox's traffic.
 */
#include "netd/serve/net.h"

#include "base/clock.h"
#include "base/fd.h"
#include "ipc/fdpass.h"
#include "netd/serve/net_int.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define IDLE (500 * NSEC_PER_MSEC)
#define QUEUED_MAX (128 << 10) /* of 208 KiB: a burst of lines fits, and the rest is for important messages */
#define QUIT_WITHIN (2 * NSEC_PER_SEC)
#define READY_AT_END (5 * NSEC_PER_SEC)
#define QUIT_STEP (50 * NSEC_PER_MSEC)

int net_launcher_send_msg(struct net_guard *g, const struct net_msg *m, int fd)
{
	int queued = 0;

	/* A stopped launcher reads nothing: lines for its terminal must neither block us nor take the room of
	 * important messages. */
	if ((m->type == NET_SAY || m->type == NET_ASKED) && ioctl(g->w_launcher.fd, SIOCOUTQ, &queued) == 0 &&
	    queued > QUEUED_MAX)
		return -EAGAIN;
	return fdpass_send(g->w_launcher.fd, m, sizeof(*m), &fd, fd >= 0 ? 1 : 0);
}

int net_launcher_send(struct net_guard *g, enum net_msg_type type, uint32_t level, const char *text, int fd)
{
	struct net_msg m = { .type = type, .level = level };

	snprintf(m.text, sizeof(m.text), "%s", text);
	return net_launcher_send_msg(g, &m, fd);
}

/* The launcher ends the sandbox; if it is gone, the guard is about to do so. */
void net_fail(struct net_guard *g, const char *fmt, ...)
{
	char raw[NET_MSG_TEXT], safe[NET_MSG_TEXT];
	va_list ap;

	if (g->failed)
		return;
	g->failed = true;
	va_start(ap, fmt);
	vsnprintf(raw, sizeof(raw), fmt, ap);
	va_end(ap);
	(void)!net_launcher_send(g, NET_FAILED, 0, str_safe(raw, safe, sizeof(safe)), -1);
}

void net_audit(struct net_guard *g, const char *type, const struct buf *fields)
{
	if (buf_error(fields) || audit_append(g->c.audit, type, g->c.spec->id, fields, NULL) < 0)
		net_fail(g, "network events cannot be written to the audit log");
}

static void log_net_state(struct net_guard *g, const char *type, const char *part, const char *why)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);

	if (part)
		json_str(&j, "part", part);
	if (why)
		json_str(&j, "why", why);
	json_u64(&j, "generation", g->generation);
	net_audit(g, type, &b);
}

void net_up(struct net_guard *g)
{
	if (g->is_up || !g->proc[NET_EGRESS].ready || !g->proc[NET_DIAL].ready)
		return;
	g->is_up = true;
	g->tries = 0;
	g->up_since = clock_nsec(CLOCK_MONOTONIC);
	log_net_state(g, "net.up", NULL, NULL);
	if (g->was_up)
		net_say(g, NET_LEVEL_NOTE, "the network is up again");
	g->was_up = true;
}

static void restart_later(struct net_guard *g)
{
	loop_timer(&g->loop, &g->t_start, net_proc_start_again_at(&g->backoff, g->up_since));
}

void net_down(struct net_guard *g, struct net_proc *p, const char *why)
{
	char text[256];
	bool first = g->is_up || g->tries == 0;

	if (g->ending || g->failed)
		return;
	snprintf(text, sizeof(text), "%s", why);
	net_proc_kill(p);
	/* Without egress dial has nobody to dial for. */
	if (p->part == NET_EGRESS) {
		net_proc_kill(&g->proc[NET_DIAL]);
		net_ask_egress_gone(g);
	}
	if (first) {
		log_net_state(g, "net.down", net_part_name(p->part), text);
		if (g->was_up)
			net_say(g, NET_LEVEL_WARN, "the network is down and is being restarted: %s: %s",
				net_part_name(p->part), text);
	}
	if (!g->is_up && ++g->tries >= NET_TRIES) {
		net_fail(g, "%s cannot be started: %s", net_part_name(p->part), text);
		return;
	}
	g->is_up = false;
	restart_later(g);
}

static void on_proc_end(struct watch *w, uint32_t events)
{
	struct net_proc *p = w->ctx, *egress = &p->g->proc[NET_EGRESS];
	siginfo_t si;
	char why[320];

	(void)events;
	/* dial ends when egress does, and its end may be noticed first. */
	if (p->part == NET_DIAL && net_proc_has_ended(egress, &si))
		p = egress;
	if (!net_proc_has_ended(p, &si))
		return;
	/* Its error message may still be in the socket, and explains more than an exit status. */
	if (p->w_ctl.events) {
		p->w_ctl.fn(&p->w_ctl, EPOLLIN);
		if (p->pid < 0)
			return;
	}
	net_proc_describe_end(p, &si, why);
	net_down(p->g, p, why);
}

static int watch_program(struct net_proc *p, struct err *e)
{
	p->w_pid.fn = on_proc_end;
	p->w_pid.ctx = p;
	if (loop_watch(&p->g->loop, &p->w_pid, EPOLLIN) < 0)
		return err_set(e, -ENOMEM, "cannot watch %s", net_part_name(p->part));
	net_ctl_watch(p);
	return 0;
}

static int start_egress(struct net_guard *g, int link, struct err *e)
{
	struct net_proc *p = &g->proc[NET_EGRESS];
	autoclose int journal = -1, list = -1, vault = -1, ctl = net_proc_socket(p, e);
	const int *w = wall_fds(&g->wall);
	int fds[EGRESS_FD_END] = { 0 };
	int r = ctl < 0 ? ctl : net_journal_open(g, NET_EGRESS, &journal, e);

	if (r == 0)
		r = net_vault_give(g, &list, &vault, e);
	if (r < 0)
		return r;
	fds[EGRESS_FD_SECRETS] = list;
	fds[EGRESS_FD_VAULT] = vault;
	fds[EGRESS_FD_BUNDLE] = g->bundle;
	fds[EGRESS_FD_JOURNAL] = journal;
	fds[EGRESS_FD_DIAL] = link;
	fds[EGRESS_FD_CONTROL] = ctl;
	for (int i = 0; i < WALL_FDS; i++)
		fds[EGRESS_FD_TCP4 + i] = w[i];
	fds[EGRESS_FD_NAMES] = g->names;
	fds[EGRESS_FD_CA] = g->ca;
	fds[EGRESS_FD_STORE] = g->store;
	r = net_proc_start(p, fds, EGRESS_FD_END, e);
	return r < 0 ? r : watch_program(p, e);
}

static int start_dial(struct net_guard *g, int link, struct err *e)
{
	struct net_proc *p = &g->proc[NET_DIAL];
	autoclose int journal = -1, list = -1, vault = -1, ctl = net_proc_socket(p, e);
	autoclose int resolv = ctl < 0 ? -1 : hostfiles_resolv(e);
	int fds[DIAL_FD_END] = { 0 };
	int r = ctl < 0 ? ctl : resolv < 0 ? resolv : net_journal_open(g, NET_DIAL, &journal, e);

	/* An earlier reader left the file position at its end. */
	if (r == 0 && g->proxy_sets >= 0 && lseek(g->proxy_sets, 0, SEEK_SET) < 0)
		r = err_sys(e, -errno, "cannot hand over the proxies' credentials");
	if (r == 0)
		r = net_vault_give_dial(g, &list, &vault, e);
	if (r < 0)
		return r;
	fds[DIAL_FD_SECRETS] = list;
	fds[DIAL_FD_VAULT] = vault;
	fds[DIAL_FD_BUNDLE] = g->bundle;
	fds[DIAL_FD_JOURNAL] = journal;
	fds[DIAL_FD_EGRESS] = link;
	fds[DIAL_FD_CONTROL] = ctl;
	fds[DIAL_FD_PROXY_SETS] = g->proxy_sets;
	fds[DIAL_FD_RESOLV] = resolv;
	r = net_proc_start(p, fds, DIAL_FD_END, e);
	return r < 0 ? r : watch_program(p, e);
}

/* Makes, once, the files that both programs need and that outlive them. */
static int prepare_shared_files(struct net_guard *g, struct err *e)
{
	int r = 0;

	for (int i = 0; i < NET_PARTS && r == 0; i++)
		r = net_proc_open(&g->proc[i], e);
	if (r == 0 && g->bundle < 0)
		r = net_give_bundle(g, e);
	if (r == 0 && g->names < 0)
		r = g->names = memfile_make("names", NULL, 0, false, e);
	if (r >= 0 && g->ca < 0)
		r = g->ca = memfile_make("ca", NULL, 0, false, e);
	if (r >= 0 && g->proxy_sets < 0 && policy_needs_proxies(g->c.plan->cp.policy))
		r = g->proxy_sets = net_compile_credentials(g, e);
	if (r < 0)
		return r;
	if (g->store < 0)
		g->store = hostfiles_store();
	net_cgroup_open(g);
	return 0;
}

static int start_missing_programs(struct net_guard *g, struct err *e)
{
	bool both = g->proc[NET_EGRESS].pid < 0;
	autoclose int a = -1, b = -1;
	int link[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, link) < 0)
		return err_sys(e, -errno, "cannot make a socket pair");
	a = link[0];
	b = link[1];
	if (both)
		net_proc_kill(&g->proc[NET_DIAL]);
	/* Both are started before we wait for either exec. */
	r = g->proc[NET_DIAL].pid < 0 ? start_dial(g, b, e) : 0;
	if (r == 0 && both)
		r = start_egress(g, a, e);
	for (int i = 0; r == 0 && i < NET_PARTS; i++)
		r = net_proc_started(&g->proc[i], e);
	/* If one could not be executed, end the other too: otherwise its end would be reported as the cause. */
	for (int i = 0; r < 0 && both && i < NET_PARTS; i++)
		net_proc_kill(&g->proc[i]);
	/* One that was not even spawned has no end at which its control socket would be closed. */
	for (int i = 0; r < 0 && i < NET_PARTS; i++) {
		if (g->proc[i].pid < 0)
			g->proc[i].w_ctl.fd = fd_close(g->proc[i].w_ctl.fd);
	}
	if (r == 0 && !both && net_ctl_send(&g->proc[NET_EGRESS], CTL_NEW_DIAL, &a, 1) < 0)
		net_down(g, &g->proc[NET_EGRESS], "it does not take a new coffer-dial");
	return r;
}

static void on_start_timer(struct timer *t)
{
	struct net_guard *g = t->ctx;
	struct err e = ERR_INIT;
	int r;

	/* A program that was ended because it wrote too fast would go on with that. */
	if (net_journal_is_flooded(g, NET_EGRESS) || net_journal_is_flooded(g, NET_DIAL)) {
		restart_later(g);
		return;
	}
	r = prepare_shared_files(g, &e);

	/* All three are started before we wait for one of them. */
	if (r == 0)
		r = net_reader_begin(g, &e);
	if (r == 0)
		r = start_missing_programs(g, &e);
	if (r == 0)
		r = net_reader_started(g, &e);
	if (r == 0) {
		g->started = true;
		return;
	}
	/* A program that is missing now will be missing in a moment too. */
	if (g->proc[NET_EGRESS].exe < 0 || g->proc[NET_DIAL].exe < 0 || g->reader.proc.exe < 0 ||
	    ++g->tries >= NET_TRIES)
		net_fail(g, "%s", e.msg);
	else
		restart_later(g);
}

void net_start_now(struct net_guard *g)
{
	for (int i = 0; i < WALL_FDS; i++)
		loop_unwatch(&g->loop, &g->w_wall[i]);
	if (g->started || g->failed || g->t_start.armed)
		return;
	g->t_ping = (struct timer){ .fn = net_ctl_ping, .ctx = g };
	loop_timer(&g->loop, &g->t_ping, clock_nsec(CLOCK_MONOTONIC) + NSEC_PER_SEC);
	g->t_stats = (struct timer){ .fn = net_ctl_stats, .ctx = g };
	if (policy_needs_proxies(g->c.plan->cp.policy))
		loop_timer(&g->loop, &g->t_stats, clock_nsec(CLOCK_MONOTONIC) + NSEC_PER_SEC);
	on_start_timer(&g->t_start);
}

static void on_first_packet(struct watch *w, uint32_t events)
{
	(void)events;
	net_start_now(w->ctx);
}

static void watch_wall(struct net_guard *g)
{
	const int *fds = wall_fds(&g->wall);

	g->has_wall = true;
	net_reload_watch(g);
	if (g->c.plan->needs_ca) {
		net_start_now(g);
		return;
	}
	for (int i = 0; i < WALL_FDS; i++) {
		g->w_wall[i] = (struct watch){ .fd = fds[i], .fn = on_first_packet, .ctx = g };
		if (fds[i] >= 0 && loop_watch(&g->loop, &g->w_wall[i], EPOLLIN) < 0)
			net_start_now(g);
	}
}

static void wait_for_quit(struct net_guard *g, struct net_proc *p)
{
	uint64_t now = clock_nsec(CLOCK_MONOTONIC), until = now + QUIT_WITHIN;

	/* It only has to write records of open connections: if it fills the disk instead, do not wait for it. */
	while (now < until && !net_proc_wait(p, now + QUIT_STEP) && !net_journal_is_flooded(g, p->part))
		now = clock_nsec(CLOCK_MONOTONIC);
}

/* Are there refused packets that are not logged yet? */
static bool has_refused_packets(const struct net_guard *g)
{
	struct pollfd p = { .fd = g->wall.nflog, .events = POLLIN };

	return p.fd >= 0 && poll(&p, 1, 0) == 1;
}

/* The command may have ended before the program that its last packets started was ready to count them. */
static void wait_for_ready(struct net_guard *g, struct net_proc *p)
{
	uint64_t now = clock_nsec(CLOCK_MONOTONIC), until = now + READY_AT_END;

	if (!g->started && !g->failed)
		net_start_now(g);
	while (p->pid >= 0 && !p->ready && p->w_ctl.events && now < until) {
		struct pollfd pfd = { .fd = p->w_ctl.fd, .events = POLLIN };

		if (poll(&pfd, 1, (int)((until - now) / NSEC_PER_MSEC) + 1) == 1)
			p->w_ctl.fn(&p->w_ctl, EPOLLIN);
		now = clock_nsec(CLOCK_MONOTONIC);
	}
}

/* Asks both programs to write records of open connections and to exit; kills them otherwise. Nothing of the
 * network is left when this returns. */
static void end_network(struct net_guard *g)
{
	struct net_proc *e = &g->proc[NET_EGRESS], *d = &g->proc[NET_DIAL];

	if (g->ending)
		return;
	g->ending = true;
	loop_timer_off(&g->loop, &g->t_start);
	net_compile_stop(g);
	/* A program that has started may have taken the packets already. */
	if (!e->ready && (e->pid >= 0 || has_refused_packets(g)))
		wait_for_ready(g, e);
	if (e->ready) {
		e->quitting = true;
		if (net_ctl_send(e, CTL_QUIT, NULL, 0) == 0)
			wait_for_quit(g, e);
	}
	net_proc_kill(e);
	net_proc_kill(d);
	net_ask_close(g);
	net_vault_end(g);
	wall_release(&g->wall);
	net_reader_finish(g);
	free(g->broken);
	g->broken = NULL;
	g->is_over = net_journal_is_read(g);
	net_journal_remove(g);
	net_cgroup_close(g);
	(void)unlinkat(g->dir, NET_STATS_DIAL, 0);
	(void)unlinkat(g->dir, NET_STATS_EGRESS, 0);
}

static void send_network_ended(struct net_guard *g)
{
	autoclose int report = net_reader_report(g);

	/* A launcher that is gone does not need it. */
	(void)!net_launcher_send(g, NET_ENDED, g->is_over ? NET_ALL_LOGGED : NET_LEFT_OVER, "", report);
}

/* Accepts the wall (once), files for the certificate, requests to sign, and the end. On anything else, or end
 * of file, the launcher is considered gone. */
static void on_launcher_message(struct watch *w, uint32_t events)
{
	struct net_guard *g = w->ctx;
	union {
		struct net_msg m;
		struct net_sign sign;
		char wall[WALL_WORD];
	} word = { 0 };
	int fds[WALL_FDS];
	size_t len = 0;
	int n = fdpass_recv_some(w->fd, &word, sizeof(word), &len, fds, ARRAY_SIZE(fds));

	(void)events;
	if (n >= 0 && !g->has_wall && !g->ending && len == sizeof(word.wall) &&
	    wall_unpack(word.wall, fds, (size_t)n, &g->wall) == 0) {
		watch_wall(g);
		return;
	}
	if (n == 2 && len == sizeof(word.m) && word.m.type == NET_CA_FILES && g->room[0] < 0) {
		memcpy(g->room, fds, sizeof(g->room));
		return;
	}
	if (n == 0 && !g->ending && net_sign_is_message(&word, len)) {
		net_sign_take(g, &word, len);
		return;
	}
	if (n == 0 && len == sizeof(word.m) && word.m.type == NET_END) {
		end_network(g);
		send_network_ended(g);
		return;
	}
	loop_stop(&g->loop);
}

static void on_sandbox_dead(struct watch *w, uint32_t events)
{
	struct net_guard *g = w->ctx;

	(void)events;
	loop_unwatch(&g->loop, w);
	g->calls.dead(g->calls.ctx);
}

static void on_guard_idle(struct timer *t)
{
	struct net_guard *g = t->ctx;

	/* Opens the programs now, because another release may be installed before the first packet. A missing
	 * program is looked for again, and reported, when it is needed. */
	for (int i = 0; i < NET_PARTS; i++)
		(void)!net_proc_open(&g->proc[i], NULL);
	(void)!net_proc_open(&g->reader.proc, NULL);
	net_ask_listen(g);
	g->calls.idle(g->calls.ctx);
}

static void net_proc_init(struct net_proc *p, struct net_guard *g, enum net_part part)
{
	*p = (struct net_proc){ .g = g,
				.part = part,
				.exe = -1,
				.report = -1,
				.pid = -1,
				.w_pid = WATCH_INIT,
				.w_ctl = WATCH_INIT };
}

static int net_guard_open(struct net_guard *g, int launcher)
{
	struct err e = ERR_INIT;

	for (int i = 0; i < NET_PARTS; i++) {
		net_proc_init(&g->proc[i], g, (enum net_part)i);
		g->journal[i].fd = -1;
	}
	net_proc_init(&g->reader.proc, g, NET_READER);
	g->reader.report = g->place = -1;
	for (int i = 0; i < WALL_FDS; i++)
		g->w_wall[i] = WATCH_INIT;
	g->t_start = (struct timer){ .fn = on_start_timer, .ctx = g };
	g->t_idle = (struct timer){ .fn = on_guard_idle, .ctx = g };
	g->w_launcher = (struct watch){ .fd = launcher, .fn = on_launcher_message, .ctx = g };
	g->w_sandbox = (struct watch){ .fd = g->c.sandbox, .fn = on_sandbox_dead, .ctx = g };
	g->dir = openat(g->c.st->runs_fd, g->c.spec->id, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (g->dir < 0 || loop_open(&g->loop, &e) < 0 || loop_watch(&g->loop, &g->w_launcher, EPOLLIN) < 0)
		return -ENOMEM;
	if (loop_watch(&g->loop, &g->w_sandbox, EPOLLIN) < 0)
		return -ENOMEM;
	if (net_ask_open(g, &e) < 0)
		return -ENOMEM;
	net_vault_begin(g);
	loop_timer(&g->loop, &g->t_idle, clock_nsec(CLOCK_MONOTONIC) + IDLE);
	return 0;
}

bool net_guard(const struct net_config *c, int launcher, const struct net_calls *calls)
{
	static struct net_guard g;
	struct err e = ERR_INIT;

	g = (struct net_guard){ .c = *c,
				.calls = *calls,
				.loop = LOOP_INIT,
				.wall = WALL_INIT,
				.serve = ASKSERVE_INIT,
				.w_notify = WATCH_INIT,
				.w_vault = WATCH_INIT,
				.w_vault_dir = WATCH_INIT,
				.cg = CGROUP_INIT,
				.bundle = -1,
				.names = -1,
				.ca = -1,
				.room = { -1, -1 },
				.store = -1,
				.proxy_sets = -1 };
	if (net_guard_open(&g, launcher) == 0)
		(void)!loop_run(&g.loop, &e);
	else
		(void)!net_launcher_send(&g, NET_FAILED, 0, "the network's guard cannot begin", -1);
	end_network(&g);
	return g.is_over;
}
