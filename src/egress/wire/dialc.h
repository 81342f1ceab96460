/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking coffer-dial: the client's side of dialproto.h.
 *
 * Invariants
 *  C1  Requests are gathered and leave with dialc_flush(), behind the journal's commit (egress.h, E1).
 *  C2  Each dial_ask gets done() exactly once, unless it was cancelled: never afterwards, and never from within dialc_ask().
 *  C3  The response to a cancelled request has its descriptor closed. A response that breaks the protocol ends the link; so does
 *      one to an id that is not with coffer-dial, such as a second response to one request.
 *  C4  At most DIAL_IN_FLIGHT_MAX are with coffer-dial; the others wait here, in order.
 */
#ifndef EGRESS_DIALC_H
#define EGRESS_DIALC_H

#include "base/buf.h"
#include "codec/net/host.h"
#include "egress/wire/dialproto.h"
#include "ipc/loop.h"

struct dial_ask {
	/* Set by the owner. On success fd is the owner's (-1 with DIAL_RESOLVE_ONLY). rep->why is for people. */
	void (*done)(struct dial_ask *a, const struct dial_rep *rep, int fd);
	void *ctx;

	/* Its own. */
	struct dial_req *req; /* until it was sent */
	uint32_t id;	      /* 0: not with coffer-dial */
	bool resolve_only, is_ready;
	struct dial_ask *next, **link; /* of the list it waits in; link is NULL when it does not */
};

struct dial_list {
	struct dial_ask *first, **end;
	unsigned n;
};

struct dialc {
	struct loop *loop;
	struct watch w;		 /* w.fd -1: coffer-dial is not there, and every request fails */
	struct dial_list fresh;	 /* asked since the last flush: the journal is not written yet */
	struct dial_list ready;	 /* may go */
	struct dial_ask **slots; /* id - 1; NULL: not with coffer-dial */
	uint16_t *free_slots;	 /* a stack */
	unsigned n_free;
	struct buf more; /* cancels and faults, DIAL messages one behind the other */
	void (*on_down)(struct dialc *d, const char *why);
	void *ctx;
};

#define DIALC_WAIT_MAX 32768 /* asked and not yet answered */

int dialc_init(struct dialc *d, struct loop *loop, int fd, struct err *e) MUST_CHECK;
void dialc_release(struct dialc *d);
int dialc_replace(struct dialc *d, int fd, struct err *e) MUST_CHECK; /* a new coffer-dial; takes fd */

/*
 * Asks. `generation` of the policy that allowed it; pool and sticky may be NULL. With DIAL_RESOLVE_ONLY port may be 0.
 * -EBUSY when too much waits already, -ENOMEM.
 */
int dialc_ask(struct dialc *d, struct dial_ask *a, const struct host *h, uint16_t port, unsigned flags,
	      uint32_t generation, const char *pool, const char *sticky) MUST_CHECK;
void dialc_cancel(struct dialc *d, struct dial_ask *a);			/* nothing when it is not asked */
void dialc_fault(struct dialc *d, const char *pool, const char *proxy); /* DIAL_FAULT */

/* Lets go what was asked; with `status` < 0 (the journal could not be written) it fails with that instead. */
void dialc_flush(struct dialc *d, int status);

static inline bool dialc_is_waiting(const struct dial_ask *a)
{
	return a->id != 0 || a->link != NULL;
}

#endif
