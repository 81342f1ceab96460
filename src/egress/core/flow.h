/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection of the sandbox, from accept() to its `close` line.
 *
 * Invariants
 *  F1  A flow is dialled only after policy_connect() (and a person, where that says ask) said yes, its `open` line was written, and at FLOW_PEEK depth or
 *      deeper the name inside (SNI, Host) was the name that was looked up.
 *  F2  What was asked for is `name` and `port`, or `addr` and `port` when an address was dialled that no name stands for.
 *      Nothing that the client sends changes that.
 *  F3  flow_end() writes `close`, closes the descriptors and frees the flow. Whoever called it must not touch it again.
 */
#ifndef EGRESS_FLOW_H
#define EGRESS_FLOW_H

#include "base/buf.h"
#include "codec/http/http1.h"
#include "codec/net/tls_hello.h"
#include "egress/core/egress.h"

enum flow_state {
	FLOW_FIRST,   /* waits for its first bytes */
	FLOW_ASK,     /* waits for a person (asking.h) */
	FLOW_LEDGER,  /* is allowed, and waits for room in the log (ledger.h) */
	FLOW_DIAL,    /* waits for coffer-dial */
	FLOW_RELAY,   /* bytes go both ways */
	FLOW_INSPECT, /* belongs to the inspector */
	FLOW_PAGE,    /* waits at coffer.internal for what was asked there */
	FLOW_DENY,    /* takes a refusal's text, then ends */
};

struct pipe_pair;

struct flow_side {
	struct watch w;		/* w.fd is the socket, -1 when there is none */
	struct buf held;	/* read from here, not yet taken by the other side; empty most of the time */
	struct pipe_pair *pipe; /* the same for much data; NULL most of the time */
	uint64_t bytes;		/* read from here and passed on */
	uint32_t in_pipe;
	uint8_t full_reads;		/* in a row: much data is coming */
	bool readable : 1, blocked : 1; /* blocked: it takes nothing now */
	bool ending : 1;		/* its end, or an error, is behind what can be read */
	bool eof : 1;			/* nothing more comes from here */
	bool shut : 1;			/* the other side's end was passed on to here */
};

struct flow {
	struct egress *eg;
	uint64_t id;		 /* `c` in the journal */
	const struct name *name; /* NULL: an address was dialled */
	struct addr addr;	 /* what was connected to: synthetic when there is a name */
	uint16_t port;
	uint8_t state;	    /* enum flow_state */
	uint8_t depth;	    /* enum policy_depth */
	bool is_open;	    /* the `open` line said allow, so a `close` line follows; counted by limits */
	bool is_refused;    /* the `open` line said deny; waits for first bytes to say so in their language */
	bool is_half;	    /* one direction has ended */
	bool is_young;	    /* in eg->young */
	bool is_busy;	    /* in eg->busy: more can be moved at once */
	bool is_limited;    /* bytes are counted against limits */
	bool is_first;	    /* its lines are those of a new key (ledger.h) */
	bool is_paused;	    /* in eg->paused: waits for bandwidth */
	bool may_be_opaque; /* what is neither TLS nor HTTP goes on as a tunnel */
	uint32_t generation;	  /* of the policy that allowed it */
	struct limit *limit;	  /* of its rule, NULL: none of its own */
	uint64_t started, active; /* eg->now */

	struct flow_side client, server;
	struct buf first;	 /* read before it was dialled */
	struct tls_hello *hello; /* while it is read, and for the inspector */
	struct http1_head *http; /* likewise; its slices point into `first` */
	struct dialc_request ask;
	struct wheel_entry timeout;
	void (*wake)(struct flow *f); /* bandwidth is there again; set by whoever calls flow_grant() */

	struct ledger_wait turn;     /* in FLOW_LEDGER */
	struct asking *asking;	     /* in FLOW_ASK */
	const struct access *access; /* in FLOW_PAGE */
	bool wants_id;		     /* there: and no more than its id */
	bool goes_on;		     /* a body was told to come */
	uint64_t ticket;	     /* allowed by a person, and nothing was sent yet; 0: not so */
	bool approved;		     /* it was */
	char ask_id[28];	     /* of the question that was answered, for the journal */
	void *inspect;		     /* the inspector's */
	TAILQ_ENTRY(flow) in_all, in_young, in_busy, in_paused;
};

/* What it was asked for, for policy_connect() and policy_request(). `host` is filled when there is a name. */
void flow_target(const struct flow *f, struct host *host, struct policy_target *ret);

/* "example.com" or "203.0.113.7"; out holds HOST_MAX + 1. */
const char *flow_host(const struct flow *f, char *out);

/* Something happened: the idle limit begins anew. */
static inline void flow_touch(struct flow *f)
{
	f->active = f->eg->now;
}

/* The end; `how` is of the journal: client server reset timeout denied limit policy "error: …". */
void flow_end(struct flow *f, const char *how);

/* The same with a reset instead of an orderly end. */
void flow_reset(struct flow *f, const char *how);

/* A new policy is in force: ends what it no longer allows. */
void flow_rejudge_all(struct egress *eg);

/*
 * Of `want` bytes that are to go up (LIMIT_UP) or down so many may, now: 0 when bandwidth is short; then the flow is told
 * by its wake() when there is more. -EDQUOT when bytes_up is used up: end it with "limit". What was granted and not sent
 * is given back. Without limits this counts nothing and grants everything; bytes that went are added to
 * client.bytes (up) and server.bytes (down) by whoever sent them.
 */
long flow_grant(struct flow *f, enum limit_way way, size_t want) MUST_CHECK;
void flow_return(struct flow *f, enum limit_way way, size_t unused);

#endif
