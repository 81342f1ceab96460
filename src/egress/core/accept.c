/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wall's sockets (intake.h): accepts every TCP connection of the sandbox, whatever address and port it was
 * made to; getsockname() tells both. Judges nothing.
 *
 * Running out of descriptors neither ends the process nor makes it spin: a spare descriptor is closed to
 * accept and reset the connection, and where even that does not help, the listener pauses for a moment.
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "egress/core/dns_serve.h"
#include "egress/core/flow_int.h"
#include "egress/core/intake.h"
#include "egress/wire/fds.h"

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

static void on_listener_rested(struct timer *t)
{
	struct acceptor *a = t->ctx;

	if (loop_watch(&a->eg->loop, &a->w, EPOLLIN) < 0)
		loop_timer(&a->eg->loop, t, a->eg->now + REST_MS * NSEC_PER_MSEC);
}

static void shed_connection(struct acceptor *a)
{
	struct egress *eg = a->eg;
	int fd = -1;

	intake_no_descriptor(eg);
	if (eg->spare_fd >= 0) {
		eg->spare_fd = fd_close(eg->spare_fd);
		fd = accept4(a->w.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd >= 0)
			intake_turn_away(fd);
		eg->spare_fd = dup(a->w.fd);
	}
	if (fd < 0) {
		loop_unwatch(&eg->loop, &a->w);
		loop_timer(&eg->loop, &a->rest, eg->now + REST_MS * NSEC_PER_MSEC);
	}
}

static void accept_connection(struct acceptor *a, int fd)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);
	struct addr asked;
	uint16_t port;

	if (!intake_has_room(a->eg) || getsockname(fd, (struct sockaddr *)&sa, &len) < 0 ||
	    addr_from_sockaddr(&sa, len, &asked, &port) < 0)
		intake_turn_away(fd);
	else
		intake_take(a->eg, fd, &asked, port, false);
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

static void accept_close(struct egress *eg)
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

static int open_given_sockets(struct egress *eg, uint32_t mask, struct err *e)
{
	int r = 0;

	for (int fd = EGRESS_FD_TCP4; r == 0 && fd <= EGRESS_FD_TCP6; fd++)
		r = mask & FDS_BIT(fd) ? accept_open(eg, fd, e) : 0;
	for (int fd = EGRESS_FD_DNS_UDP4; r == 0 && fd <= EGRESS_FD_DNS_UDP6; fd++)
		r = mask & FDS_BIT(fd) ? dns_udp_open(eg->dns, fd, fd == EGRESS_FD_DNS_UDP6, e) : 0;
	for (int fd = EGRESS_FD_DNS_TCP4; r == 0 && fd <= EGRESS_FD_DNS_TCP6; fd++)
		r = mask & FDS_BIT(fd) ? dns_tcp_open(eg->dns, fd, e) : 0;
	return r;
}

static void reply_by_sockets(struct egress *eg, int status)
{
	dns_udp_flush(eg->dns, status);
}

/* The sockets for DNS stay open until eg->dns is freed. */
const struct intake intake_sockets = { open_given_sockets, reply_by_sockets, accept_close };
