/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Client of coffer-dial (dialproto.h): queues requests for connections and hands each its result.
 *
 * Invariants
 *  C1  Requests are gathered and sent by dialc_flush(), after the journal's commit (egress.E1: nothing passes
 *      before its line is written).
 *  C2  Each dialc_request gets done() exactly once, unless it was cancelled: then never, and never from
 *      within dialc_dial().
 *  C3  The descriptor of the reply to a cancelled request is closed. A reply that breaks the protocol closes
 *      the link; so does one to an id that is not with coffer-dial, such as a second reply to one request.
 *  C4  At most DIAL_IN_FLIGHT_MAX requests are with coffer-dial; the others are queued here, in order.
 */
#ifndef EGRESS_DIALC_H
#define EGRESS_DIALC_H

#include "base/buf.h"
#include "codec/net/host.h"
#include "egress/wire/dialproto.h"
#include "ipc/loop.h"

struct dialc_request {
	/*
	 * Set by the owner. On success the owner gets fd (-1 with DIAL_RESOLVE_ONLY). rep->why is for people.
	 */
	void (*done)(struct dialc_request *a, const struct dial_rep *rep, int fd);
	void *ctx;

	/* Private. */
	struct dial_req *req; /* until it is sent */
	uint32_t id;	      /* 0: not with coffer-dial */
	bool resolve_only, is_ready;
	struct dialc_request *next,
		**link; /* of the list that it is queued in; link is NULL when it is in none */
};

struct dial_list {
	struct dialc_request *first, **end;
	unsigned n;
};

struct dialc {
	struct loop *loop;
	struct watch w;		      /* w.fd -1: no connection to coffer-dial, and every request fails */
	struct dial_list fresh;	      /* queued since the last flush: the journal is not written yet */
	struct dial_list ready;	      /* may be sent */
	struct dialc_request **slots; /* by id - 1; NULL: not with coffer-dial */
	uint16_t *free_slots;	      /* a stack */
	unsigned n_free;
	struct buf more; /* cancels and faults: DIAL messages, concatenated */
	void (*on_down)(struct dialc *d, const char *why);
	void *ctx;
};

#define DIALC_WAIT_MAX 32768 /* queued at once */

int dialc_init(struct dialc *d, struct loop *loop, int fd, struct err *e) MUST_CHECK;
void dialc_release(struct dialc *d);
int dialc_replace(struct dialc *d, int fd,
		  struct err *e) MUST_CHECK; /* connects to a new coffer-dial; takes fd */

/*
 * Queues a request. `generation` is of the policy that allowed it; proxy_set and sticky may be NULL. With
 * DIAL_RESOLVE_ONLY port may be 0. -EBUSY when too many are queued already, -ENOMEM.
 */
int dialc_dial(struct dialc *d, struct dialc_request *a, const struct host *h, uint16_t port, unsigned flags,
	       uint32_t generation, const char *proxy_set, const char *sticky) MUST_CHECK;
void dialc_cancel(struct dialc *d, struct dialc_request *a); /* no effect when it is not queued */
void dialc_fault(struct dialc *d, const char *proxy_set, const char *proxy); /* DIAL_FAULT */

/*
 * Releases the queued requests for sending; with `status` < 0 (the journal could not be written) fails them
 * instead.
 */
void dialc_flush(struct dialc *d, int status);

static inline bool dialc_is_waiting(const struct dialc_request *a)
{
	return a->id != 0 || a->link != NULL;
}

#endif
