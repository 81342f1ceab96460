/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accepts every TCP connection of the sandbox, whatever address and port it was made to; getsockname() tells
 * both.
 *
 *  1. A connection that cannot be kept is reset at once, never left in the backlog to time out.
 *  2. Running out of descriptors neither ends the process nor makes it spin: a spare descriptor is closed to
 *  accept and reset the connection, and where even that does not help, the listener pauses for a moment.
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "egress/core/flow_int.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define BATCH 64
#define REST_MS 100

struct acceptor {
	struct egress *eg;
	struct watch w;
	struct timer rest;
	struct acceptor *next;
};

static void reset_and_close(int fd)
{
	const struct linger now = { .l_onoff = 1 };

	(void)!setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	fd_close(fd);
}

static void on_listener_rested(struct timer *t)
{
	struct acceptor *a = t->ctx;

	if (loop_watch(&a->eg->loop, &a->w, EPOLLIN) < 0)
		loop_timer(&a->eg->loop, t, a->eg->now + REST_MS * NSEC_PER_MSEC);
}

/* Rule 2: no descriptor is free. */
static void shed_connection(struct acceptor *a)
{
	struct egress *eg = a->eg;
	int fd = -1;

	eg->stats.shed++;
	egress_alert(eg, "descriptors", NULL, "no descriptor is free: connections are turned away");
	if (eg->spare_fd >= 0) {
		eg->spare_fd = fd_close(eg->spare_fd);
		fd = accept4(a->w.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd >= 0)
			reset_and_close(fd);
		eg->spare_fd = dup(a->w.fd);
	}
	if (fd < 0) {
		loop_unwatch(&eg->loop, &a->w);
		loop_timer(&eg->loop, &a->rest, eg->now + REST_MS * NSEC_PER_MSEC);
	}
}

/* A client on these ports would understand more than a reset. */
static bool is_http_port(uint16_t port)
{
	return port == 80 || port == 443;
}

static void judge_new_flow(struct flow *f)
{
	struct addr own = egress_names_own(&f->eg->names);
	struct policy_verdict v;

	if (addr_eq(&f->addr, &own) && f->port == 80) {
		page_begin(f);
		return;
	}
	flow_judge(f, &v);
	if (!policy_may_allow(&v)) {
		if (is_http_port(f->port))
			peek_refused(f, &v);
		else
			flow_refuse(f, &v, FLOW_REFUSE_RESET, 0, v.why, NULL);
		return;
	}
	if (v.depth != POLICY_TUNNEL) {
		peek_begin(f, &v);
		return;
	}
	f->depth = POLICY_TUNNEL;
	flow_open(f, &v);
}

static void accept_connection(struct acceptor *a, int fd)
{
	struct egress *eg = a->eg;
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);
	struct addr asked;
	uint16_t port;
	struct flow *f;

	eg->stats.opened++;
	if (eg->n_flows >= eg->max_flows) {
		eg->stats.shed++;
		egress_alert(eg, "connections", NULL, "%u connections are open: more are turned away",
			     eg->n_flows);
		reset_and_close(fd);
		return;
	}
	if (getsockname(fd, (struct sockaddr *)&sa, &len) < 0 ||
	    addr_from_sockaddr(&sa, len, &asked, &port) < 0) {
		reset_and_close(fd);
		return;
	}
	f = flow_new(eg, fd, &asked, port);
	if (f)
		judge_new_flow(f);
}

static void on_tcp_listener(struct watch *w, uint32_t events)
{
	struct acceptor *a = w->ctx;

	(void)events;
	for (int i = 0; i < BATCH; i++) {
		int fd = accept4(w->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			accept_connection(a, fd);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
			shed_connection(a);
		if (errno != ECONNABORTED && errno != EINTR)
			return;
	}
}

int accept_open(struct egress *eg, int fd, struct err *e)
{
	struct acceptor *a = calloc(1, sizeof(*a));
	const int on = 1;
	int r;

	if (!a)
		return err_sys(e, -ENOMEM, "cannot accept connections");
	a->eg = eg;
	a->next = eg->acceptors;
	eg->acceptors = a;
	a->w = (struct watch){ .fd = fd, .fn = on_tcp_listener, .ctx = a };
	a->rest = (struct timer){ .fn = on_listener_rested, .ctx = a };
	if (eg->spare_fd < 0)
		eg->spare_fd = dup(fd);
	/* Accepted sockets inherit it: one call less for each connection. */
	(void)!setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	r = fd_set_nonblock(fd, true);
	if (r == 0)
		r = loop_watch(&eg->loop, &a->w, EPOLLIN);
	return r < 0 ? err_sys(e, r, "cannot accept connections") : 0;
}

void accept_close(struct egress *eg)
{
	while (eg->acceptors) {
		struct acceptor *next = eg->acceptors->next;

		loop_unwatch(&eg->loop, &eg->acceptors->w);
		loop_timer_off(&eg->loop, &eg->acceptors->rest);
		fd_close(eg->acceptors->w.fd);
		free(eg->acceptors);
		eg->acceptors = next;
	}
	eg->spare_fd = fd_close(eg->spare_fd);
}
