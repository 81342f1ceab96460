/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A TCP connection to the first of some addresses that answers (after RFC 8305): one attempt is given RACE_STEP_MS
 * before the next one joins it, a failed one is followed at once, the first to connect wins.
 *
 * The addresses were judged by the caller. Only here is connect() called for TCP.
 */
#ifndef DIAL_DIAL_RACE_H
#define DIAL_DIAL_RACE_H

#include "codec/net/addr.h"
#include "ipc/loop.h"

#define RACE_ADDRS_MAX 16
#define RACE_LEGS_MAX 4
#define RACE_STEP_MS 250

struct race;

struct race_leg {
	struct watch w; /* fd is -1 while it is not used */
	struct addr addr;
	struct race *race;
};

struct race {
	struct loop *loop;
	/* fd is the caller's; or -1 and a status. The race has ended and may be freed. */
	void (*done)(struct race *r, int status, int fd, const struct addr *a);
	void *ctx;
	struct addr addrs[RACE_ADDRS_MAX];
	size_t n, next;
	uint16_t port;
	int error; /* the first that failed: usually the one that a person would have tried */
	struct race_leg leg[RACE_LEGS_MAX];
	struct timer step;
};

/* done() is never called from here: when nothing could be begun, a negative errno is returned instead. */
int race_start(struct race *r, struct loop *loop, const struct addr *addrs, size_t n,
	       uint16_t port) MUST_CHECK;
void race_cancel(struct race *r); /* also one that never began or has ended */

/* A UDP socket for each family over which nothing is ever sent, for dial_is_own(): asking costs less than making one. */
struct own_probe {
	int fd4, fd6;	   /* -1 until it is needed */
	struct addr other; /* the last that was not ours */
	bool has_other;
};

#define OWN_PROBE_INIT ((struct own_probe){ .fd4 = -1, .fd6 = -1 })

/*
 * Is it this host itself? Asked of the kernel's routing without a packet: a UDP socket connected to an address of the
 * host's own gets that address as its source. 1: it is; 0: it is not; -ENETUNREACH and the like: there is no way
 * there. Another failure counts as no. Asked again at once for one that was not, it does not ask the kernel again until
 * own_probe_forget(): whoever calls this does so in each round, before it waits.
 */
int dial_is_own(struct own_probe *p, const struct addr *a) MUST_CHECK;
static inline void own_probe_forget(struct own_probe *p)
{
	p->has_other = false;
}
void own_probe_release(struct own_probe *p);

#endif
