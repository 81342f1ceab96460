/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's main loop: clients and responses to them, signals, the tick, start and end. The warm pool is
 * in cofferd_pool.c; the keeper, the vault and the API are reached through gate.h. It must serve nobody but
 * the owner, and must not read anything of a sandbox.
 */
#include "cofferdc/cofferd_client.h"

#include "base/clock.h"
#include "base/fd.h"
#include "cofferdc/activate.h"
#include "daemon/cofferd_daemon.h"
#include "daemon/cofferd_serve.h"
#include "daemon/metrics/metrics.h"
#include "ipc/fdpass.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define TICK (1 * NSEC_PER_SEC)
#define LINGER (10 * NSEC_PER_SEC) /* idle time before it exits */
#define CLIENTS_MAX 1024	   /* each sandbox that uses the vault is one of them */

static void drop_cofferd_client(struct client *c)
{
	struct daemon *d = c->d;
	struct client **p = &d->clients;

	while (*p != c)
		p = &(*p)->next;
	*p = c->next;
	d->n_clients--;
	gate_lease_end(&d->gate, &c->lease);
	loop_unwatch(&d->loop, &c->w);
	fd_close(c->w.fd);
	free(c);
}

static void reap_children(struct daemon *d)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		gate_reaped(&d->gate, pid, status);
}

static void on_cofferd_tick(struct timer *timer)
{
	struct daemon *d = timer->ctx;
	uint64_t now = clock_nsec(CLOCK_MONOTONIC);
	struct template *next;

	reap_children(d);
	gate_tick(&d->gate);
	cofferd_pool_balance(d);
	for (struct template *t = d->templates; t; t = next) {
		next = t->next;
		if (!t->list && pool_want(&t->demand, now) == 0)
			cofferd_pool_drop(d, t);
	}
	if (gate_is_busy(&d->gate))
		d->busy_at = now;
	if (!d->clients && !d->templates && !metrics_is_wanted(d->metrics, now) && now - d->busy_at > LINGER)
		loop_stop(&d->loop);
	else
		loop_timer(&d->loop, timer, now + TICK);
}

static void count_api(void *ctx, struct metrics_web *ret)
{
	const struct daemon *d = ctx;

	if (d->gate.web)
		webd_count(d->gate.web, &ret->stats, &ret->deaths);
}

/* Sends the response, with the error if there is one, and a descriptor unless it is -1; closes the
 * descriptor. */
static void send_reply(struct daemon *d, struct client *c, const struct err *e, int fd)
{
	struct pool_count p;
	struct cofferd_reply reply = { .magic = COFFERD_MAGIC,
				       .has = fd >= 0,
				       .stays = d->gate.stay,
				       .leaves = d->leaving,
				       .pid = (uint32_t)getpid() };

	cofferd_pool_count(d, &p);
	reply.ready = p.ready;
	reply.starting = p.starting;
	reply.templates = p.templates;
	reply.held = p.held;
	reply.vault = vaultd_state(&d->gate.vault);
	reply.counter = d->gate.vault.proc.counter;
	if (e && e->code) {
		reply.error = e->code;
		snprintf(reply.why, sizeof(reply.why), "%.319s", e->msg);
		snprintf(reply.hint, sizeof(reply.hint), "%.159s", e->hint);
	}
	(void)!fdpass_send(c->w.fd, &reply, sizeof(reply), &fd, fd >= 0 ? 1 : 0);
	fd_close(fd);
}

static void send_status(struct daemon *d, struct client *c, bool replaced)
{
	struct pool_count p;
	struct err e = ERR_INIT;
	int fd;

	cofferd_pool_count(d, &p);
	fd = gate_status(&d->gate, &p, replaced);
	if (fd < 0)
		err_set(&e, -ENOMEM, "out of memory");
	send_reply(d, c, &e, fd);
}

static void answer_web_request(struct daemon *d, struct client *c, const struct cofferd_msg *m)
{
	struct err e = ERR_INIT;
	struct webctl ctl;
	int fd = -1;

	if (webctl_parse(m->body, m->len, &ctl) == 0)
		(void)!webd_control(d->gate.web, &ctl, &fd, &e);
	send_reply(d, c, &e, fd);
}

static void stop_daemon(struct daemon *d)
{
	d->leaving = true;
	while (d->templates)
		cofferd_pool_drop(d, d->templates);
	loop_stop(&d->loop);
}

static void obey_request(struct daemon *d, struct client *c, const struct cofferd_msg *m, bool replaced)
{
	struct err e = ERR_INIT;
	bool stayed = d->gate.stay;
	int fd = -1;

	switch (m->head.want) {
	case COFFERD_STATUS:
		send_status(d, c, replaced);
		return;
	case COFFERD_WEB:
		answer_web_request(d, c, m);
		return;
	case COFFERD_KEEP:
		(void)!gate_keep(&d->gate, m->body, &e);
		break;
	case COFFERD_RELOAD:
		if (replaced)
			stop_daemon(d);
		else
			(void)!gate_reload(&d->gate, &e);
		break;
	case COFFERD_STAY:
		d->gate.stay = true;
		if (gate_reload(&d->gate, &e) < 0)
			d->gate.stay = stayed;
		break;
	case COFFERD_STOP:
		stop_daemon(d);
		break;
	case COFFERD_DROP:
		while (d->templates)
			cofferd_pool_drop(d, d->templates);
		if (!gate_is_busy(&d->gate))
			stop_daemon(d);
		break;
	case COFFERD_HOLD:
	case COFFERD_UNLOCK:
	case COFFERD_UNLOCKED:
	case COFFERD_LOCK:
		(void)!gate_vault(&d->gate, &c->lease, m, &fd, &e);
		break;
	default:
		break;
	}
	send_reply(d, c, &e, fd);
}

/* cofferd_client.D3: false if the client is in another container. */
static bool is_same_machine(const struct cofferd_build *a, const struct cofferd_build *b)
{
	return a->root_dev == b->root_dev && a->root_ino == b->root_ino && a->usr_dev == b->usr_dev &&
	       a->usr_ino == b->usr_ino;
}

/* Returns false if the message is malformed. */
static bool answer_request(struct daemon *d, struct client *c, const char *data, size_t len)
{
	struct cofferd_msg m;
	struct err e = ERR_INIT;
	bool same;

	if (cofferd_msg_parse(data, len, &m) < 0)
		return false;
	same = memcmp(&m.head.build, &d->build, sizeof(d->build)) == 0;
	if (!same && !gate_is_busy(&d->gate) && m.head.want != COFFERD_STATUS) {
		stop_daemon(d);
		send_reply(d, c, NULL, -1);
	} else if (m.head.want == COFFERD_TAKE) {
		if (same)
			cofferd_pool_give(d, c, &m);
		else
			cofferd_pool_hand_out(d, c, NULL);
	} else if (!is_same_machine(&m.head.build, &d->build)) {
		err_set(&e, -EXDEV,
			"this cofferd sees other files than you: it was started outside of this container");
		send_reply(d, c, &e, -1);
	} else {
		obey_request(d, c, &m, !same);
	}
	return true;
}

static void on_cofferd_request(struct watch *w, uint32_t events)
{
	static char data[COFFERD_ASK_MAX];
	struct client *c = w->ctx;
	int none[1];
	size_t len;

	(void)events;
	if (fdpass_recv_some(w->fd, data, sizeof(data), &len, none, 0) < 0 ||
	    !answer_request(c->d, c, data, len))
		drop_cofferd_client(c);
}

/* The mode of the state directory already keeps others out; this checks it again. */
static bool peer_is_owner(int fd)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0 && cred.uid == geteuid();
}

static void on_cofferd_connection(struct watch *w, uint32_t events)
{
	struct daemon *d = w->ctx;
	struct client *c;
	int fd = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	(void)events;
	if (fd < 0)
		return;
	c = peer_is_owner(fd) && d->n_clients < CLIENTS_MAX ? calloc(1, sizeof(*c)) : NULL;
	if (!c) {
		fd_close(fd);
		return;
	}
	*c = (struct client){ .next = d->clients,
			      .d = d,
			      .w = { .fd = fd, .fn = on_cofferd_request, .ctx = c } };
	d->clients = c;
	d->n_clients++;
	if (loop_watch(&d->loop, &c->w, EPOLLIN) < 0)
		drop_cofferd_client(c);
}

static void on_cofferd_signal(void *ctx, const struct signalfd_siginfo *si)
{
	struct daemon *d = ctx;

	if (si->ssi_signo == SIGCHLD) {
		reap_children(d);
		cofferd_pool_balance(d);
		return;
	}
	if (si->ssi_signo == SIGHUP && gate_is_busy(&d->gate)) {
		(void)!gate_reload(&d->gate, &(struct err){ 0 });
		return;
	}
	stop_daemon(d);
}

static int open_cofferd_socket(struct daemon *d, int given, struct err *e)
{
	int fd = given >= 0 ? given : cofferd_make_socket(d, e);

	if (fd < 0)
		return fd;
	d->gate.activated = given >= 0;
	d->w_listen = (struct watch){ .fd = fd, .fn = on_cofferd_connection, .ctx = d };
	return loop_watch(&d->loop, &d->w_listen, EPOLLIN);
}

static int watch_signals(struct daemon *d, struct err *e)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGCHLD);
	return loop_signals(&d->loop, &set, on_cofferd_signal, d, e);
}

static int daemon_open(struct daemon *d, const struct cofferd_how *how, struct err *e)
{
	int r = cofferd_take_lock(d, how->listen_fd >= 0, e);

	if (r == 0)
		r = loop_open(&d->loop, e);
	if (r == 0)
		r = open_cofferd_socket(d, how->listen_fd, e);
	if (r == 0)
		r = metrics_open(&d->metrics,
				 &(struct metrics_env){ .st = d->st,
							.loop = &d->loop,
							.pool = cofferd_pool_count,
							.web = count_api,
							.ctx = d },
				 e);
	if (r == 0)
		r = watch_signals(d, e);
	d->gate.metrics = metrics_make_response;
	d->gate.metrics_ctx = d->metrics;
	/* The socket is open before the sandboxes are examined: that may take a while, and clients can wait. */
	return r < 0 ? r : gate_open(&d->gate, e);
}

static void daemon_begin(struct daemon *d, const struct cofferd_how *how)
{
	autobuf struct buf key = BUF_INIT;
	struct template *t = NULL;

	if (how->first->n && cofferd_pack(how->first, &key) == 0)
		t = cofferd_pool_template(d, key.data, key.len);
	if (t)
		pool_note(&t->demand, clock_nsec(CLOCK_MONOTONIC));
	d->refill = (struct timer){ .fn = cofferd_pool_refill, .ctx = d };
	cofferd_pool_balance(d);
	d->tick = (struct timer){ .fn = on_cofferd_tick, .ctx = d };
	loop_timer(&d->loop, &d->tick, clock_nsec(CLOCK_MONOTONIC) + TICK);
}

static void daemon_close(struct daemon *d)
{
	while (d->clients)
		drop_cofferd_client(d->clients);
	while (d->templates)
		cofferd_pool_drop(d, d->templates);
	metrics_close(d->metrics);
	gate_close(&d->gate);
	if (d->w_listen.fd >= 0) {
		/* A service manager's socket stays: the next connection starts the next cofferd. */
		if (!d->gate.activated)
			(void)unlinkat(d->st->fd, SOCKET, 0);
		fd_close(d->w_listen.fd);
	}
	loop_close(&d->loop);
	fd_close(d->lock_fd);
}

int cofferd_serve(struct state *st, const struct cofferd_how *how, struct err *e)
{
	struct daemon d = {
		.st = st, .coffer_fd = how->coffer_fd, .lock_fd = -1, .loop = LOOP_INIT, .err = e
	};
	int r = cofferd_build(how->coffer_fd, &d.build);

	if (r < 0)
		return err_sys(e, r, "cannot look at the coffer program");
	r = state_mark(st, e);
	if (r < 0)
		return r;
	prctl(PR_SET_DUMPABLE, 0);
	d.w_listen = WATCH_INIT;
	d.busy_at = clock_nsec(CLOCK_MONOTONIC);
	d.budget = cofferd_pool_budget();
	d.builders = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
	d.gate = (struct gate){ .st = st, .loop = &d.loop, .coffer_fd = how->coffer_fd, .stay = how->stay };
	r = daemon_open(&d, how, e);
	if (r == 0) {
		how->ready();
		daemon_begin(&d, how);
		r = loop_run(&d.loop, e);
		activate_notify("STOPPING=1");
	}
	daemon_close(&d);
	return r;
}
