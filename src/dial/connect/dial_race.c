/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Races TCP connections to judged addresses, and tells whether an address is this host's own. Resolves and
 * judges nothing.
 */
#include "dial/connect/dial_race.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include <errno.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

/* Resets the socket's source address: a connected one would keep it for the next destination. */
static int probe_socket(int *fd, int family)
{
	const struct sockaddr none = { .sa_family = AF_UNSPEC };

	if (*fd >= 0 && connect(*fd, &none, sizeof(none)) == 0)
		return 0;
	fd_close(*fd);
	*fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	return *fd < 0 ? -errno : 0;
}

int own_probe_open(struct own_probe *p, struct err *e)
{
	return route_query_open(&p->routes, e);
}

/* Is `a` the source of a packet to it? */
static int is_own_source(struct own_probe *p, const struct addr *a)
{
	int *fd = addr_is_v4(a) ? &p->fd4 : &p->fd6;
	uint8_t to[ADDR_SOCKADDR_LEN];
	struct sockaddr_storage from = { 0 };
	socklen_t from_len = sizeof(from);
	size_t to_len = addr_to_sockaddr(a, 9, to);
	struct addr source;
	uint16_t port;
	int r;

	r = probe_socket(fd, addr_is_v4(a) ? AF_INET : AF_INET6);
	if (r < 0)
		return r;
	if (connect(*fd, (const struct sockaddr *)to, (socklen_t)to_len) < 0)
		return -errno;
	if (getsockname(*fd, (struct sockaddr *)&from, &from_len) < 0)
		return -errno;
	r = addr_from_sockaddr(&from, from_len, &source, &port);
	if (r < 0)
		return r;
	return addr_eq(&source, a);
}

/* Also true of broadcast, anycast and multicast: this host may be one of the receivers. */
static int is_own_route(struct own_probe *p, const struct addr *a)
{
	int type = addr_is_v4(a) ? route_query_type(&p->routes, AF_INET, a->b + 12)
				 : route_query_type(&p->routes, AF_INET6, a->b);

	return type < 0 ? type : type != RTN_UNICAST;
}

int dial_is_own(struct own_probe *p, const struct addr *a)
{
	int r;

	if (p->has_other && addr_eq(&p->other, a))
		return 0;
	r = is_own_route(p, a);
	if (r == 0)
		r = is_own_source(p, a);
	if (r != 0)
		return r;
	p->other = *a;
	p->has_other = true;
	return 0;
}

void own_probe_release(struct own_probe *p)
{
	route_query_close(&p->routes);
	fd_close(p->fd4);
	fd_close(p->fd6);
	*p = OWN_PROBE_INIT;
}

static void race_close_leg(struct race_leg *l)
{
	loop_unwatch(l->race->loop, &l->w);
	l->w.fd = fd_close(l->w.fd);
}

void race_cancel(struct race *r)
{
	if (!r->loop)
		return;
	loop_timer_off(r->loop, &r->step);
	for (size_t i = 0; i < RACE_LEGS_MAX; i++) {
		if (r->leg[i].race)
			race_close_leg(&r->leg[i]);
	}
	r->loop = NULL;
}

static struct race_leg *race_free_leg(struct race *r)
{
	for (size_t i = 0; i < RACE_LEGS_MAX; i++) {
		if (r->leg[i].w.fd < 0)
			return &r->leg[i];
	}
	return NULL;
}

static bool race_is_running(const struct race *r)
{
	for (size_t i = 0; i < RACE_LEGS_MAX; i++) {
		if (r->leg[i].w.fd >= 0)
			return true;
	}
	return false;
}

static int race_begin_leg(struct race_leg *l, const struct addr *a, uint16_t port)
{
	uint8_t to[ADDR_SOCKADDR_LEN];
	size_t len = addr_to_sockaddr(a, port, to);
	const int one = 1;
	int r;

	l->addr = *a;
	l->w.fd = socket(addr_is_v4(a) ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (l->w.fd < 0)
		return -errno;
	/* Requests and responses are small; egress writes whole ones. */
	if (setsockopt(l->w.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) < 0)
		goto fail;
	if (connect(l->w.fd, (const struct sockaddr *)to, (socklen_t)len) < 0 && errno != EINPROGRESS)
		goto fail;
	r = loop_watch(l->race->loop, &l->w, EPOLLOUT);
	if (r == 0)
		return 0;
	errno = -r;
fail:
	r = -errno;
	l->w.fd = fd_close(l->w.fd);
	return r;
}

/* Starts the next address that can be tried. True when an attempt is running. */
static bool race_begin_next(struct race *r)
{
	struct race_leg *l = race_free_leg(r);

	while (l && r->next < r->n) {
		int error = race_begin_leg(l, &r->addrs[r->next++], r->port);

		if (error == 0) {
			if (r->next < r->n)
				loop_timer(r->loop, &r->step,
					   clock_nsec(CLOCK_MONOTONIC) + RACE_STEP_MS * NSEC_PER_MSEC);
			return true;
		}
		r->error = r->error ? r->error : error;
	}
	return false;
}

static void on_race_step(struct timer *t)
{
	(void)race_begin_next(t->ctx);
}

static void race_end(struct race *r, int status, int fd, const struct addr *a)
{
	race_cancel(r);
	r->done(r, status, fd, a);
}

static void on_race_leg(struct watch *w, uint32_t events)
{
	struct race_leg *l = w->ctx;
	struct race *r = l->race;
	int error = 0;
	socklen_t len = sizeof(error);

	/* A socket with an error never reports EPOLLOUT alone. */
	if ((events & (EPOLLERR | EPOLLHUP)) && getsockopt(w->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
		error = errno;
	if (error == 0) {
		struct addr a = l->addr;
		int fd;

		loop_unwatch(r->loop, w);
		fd = TAKE_FD(w->fd);
		race_end(r, 0, fd, &a);
		return;
	}
	race_close_leg(l);
	r->error = r->error ? r->error : -error;
	loop_timer_off(r->loop, &r->step);
	if (!race_begin_next(r) && !race_is_running(r))
		race_end(r, r->error, -1, NULL);
}

int race_start(struct race *r, struct loop *loop, const struct addr *addrs, size_t n, uint16_t port)
{
	r->loop = loop;
	r->port = port;
	r->n = n < RACE_ADDRS_MAX ? n : RACE_ADDRS_MAX;
	r->next = 0;
	r->error = 0;
	for (size_t i = 0; i < r->n; i++)
		r->addrs[i] = addrs[i];
	for (size_t i = 0; i < RACE_LEGS_MAX; i++)
		r->leg[i] = (struct race_leg){ .w = { .fd = -1, .fn = on_race_leg, .ctx = &r->leg[i] },
					       .race = r };
	r->step = (struct timer){ .fn = on_race_step, .ctx = r };
	if (race_begin_next(r))
		return 0;
	race_cancel(r);
	return r->error ? r->error : -EADDRNOTAVAIL;
}
