/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connects to the first of several addresses that responds (after RFC 8305): one attempt gets RACE_STEP_MS
 * before the next joins it, a failed one is followed at once, the first to connect wins.
 *
 * The caller has judged the addresses. connect() for TCP is called only here.
 */
#ifndef DIAL_DIAL_RACE_H
#define DIAL_DIAL_RACE_H

#include "codec/net/addr.h"
#include "ipc/loop.h"
#include "sys/netlink/route_query.h"

#define RACE_ADDRS_MAX 16
#define RACE_LEGS_MAX 4
#define RACE_STEP_MS 250

struct race;

struct race_leg {
	struct watch w; /* fd is -1 while it is unused */
	struct addr addr;
	struct race *race;
};

struct race {
	struct loop *loop;
	/* The caller gets fd; or -1 and a status. The race has ended and may be freed. */
	void (*done)(struct race *r, int status, int fd, const struct addr *a);
	void *ctx;
	struct addr addrs[RACE_ADDRS_MAX];
	size_t n, next;
	uint16_t port;
	int error; /* the first failure: usually of the address that a person would have tried */
	struct race_leg leg[RACE_LEGS_MAX];
	struct timer step;
};

/* Never calls done() itself: when no attempt could be started, it returns a negative errno. */
int race_start(struct race *r, struct loop *loop, const struct addr *addrs, size_t n,
	       uint16_t port) MUST_CHECK;
void race_cancel(struct race *r); /* also for a race that never began or has ended */

/*
 * For dial_is_own(): the kernel's routing, and a UDP socket for each family that never sends anything. Reusing
 * one is cheaper than creating it.
 */
struct own_probe {
	struct route_query routes;
	int fd4, fd6;	   /* -1 until it is needed */
	struct addr other; /* the last address that was not ours */
	bool has_other;
};

#define OWN_PROBE_INIT ((struct own_probe){ .routes = { .fd = -1 }, .fd4 = -1, .fd6 = -1 })

/* Call before the fence is up: it forbids netlink sockets. */
int own_probe_open(struct own_probe *p, struct err *e) MUST_CHECK;

/*
 * Is this the host itself? Queries the kernel's routing without a packet: only a destination with a unicast
 * route is another host. As a second check, a UDP socket connected to one of the host's own addresses gets that
 * address as its source (except a secondary address, and a local route with `src`). 1: yes; 0: no;
 * -ENETUNREACH and the like: there is no route. After any failure the address must not be dialled. The last
 * negative answer is cached until own_probe_forget(), which the caller calls in each round, before it waits.
 */
int dial_is_own(struct own_probe *p, const struct addr *a) MUST_CHECK;
static inline void own_probe_forget(struct own_probe *p)
{
	p->has_other = false;
}
void own_probe_release(struct own_probe *p);

#endif
