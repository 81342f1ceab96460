/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection of the sandbox, from accept() to its `close` line.
 *
 * Invariants
 *  F1  A flow is dialled only after policy_connect() (and a person, where that says ask) allowed it and its
 *      `open` line was written; at POLICY_PEEK depth or deeper also only if the name inside (SNI, Host) is the
 *      name that was looked up.
 *  F2  The target is `name` and `port`, or `addr` and `port` when an address was dialled that belongs to no
 *      name. Nothing that the client sends changes that.
 *  F3  flow_end() writes `close`, closes the descriptors and frees the flow. The caller must not touch it
 *      again.
 */
#ifndef EGRESS_FLOW_H
#define EGRESS_FLOW_H

#include "base/buf.h"
#include "codec/http/http1.h"
#include "codec/net/tls_hello.h"
#include "egress/core/egress.h"

enum flow_state {
	FLOW_FIRST,   /* waits for its first bytes */
	FLOW_ASK,     /* waits for a person's answer (asking.h) */
	FLOW_LEDGER,  /* is allowed, and waits for room in the log (ledger.h) */
	FLOW_DIAL,    /* waits for coffer-dial */
	FLOW_RELAY,   /* bytes are relayed both ways */
	FLOW_INSPECT, /* belongs to the inspector */
	FLOW_PAGE,    /* waits at coffer.internal for the answer to an ask */
	FLOW_DENY,    /* the client reads a refusal, then the flow ends */
};

struct pipe_pair;

struct flow_side {
	struct watch w;	 /* w.fd is the socket, -1 when there is none */
	struct buf held; /* read from this side, not yet accepted by the other; empty most of the time */
	struct pipe_pair *pipe; /* the same for much data; NULL most of the time */
	uint64_t bytes;		/* read from this side and passed on */
	uint32_t in_pipe;
	uint8_t full_reads;		/* in a row: a bulk transfer */
	bool readable : 1, blocked : 1; /* blocked: it accepts nothing now */
	bool ending : 1;		/* its end, or an error, follows the readable bytes */
	bool eof : 1;			/* nothing more comes from this side */
	bool shut : 1;			/* the end of the other side was passed on to this one */
};

struct flow {
	struct egress *eg;
	uint64_t id;			/* `c` in the journal */
	const struct egress_name *name; /* NULL: an address was dialled */
	struct addr addr;		/* what the client connected to: synthetic when there is a name */
	uint16_t port;
	uint8_t state; /* enum flow_state */
	uint8_t depth; /* enum policy_depth */
	bool is_open;  /* the `open` line says allow, so a `close` line follows; counted by limits */
	bool is_refused; /* the `open` line says deny; waits for the first bytes, to refuse in the client's protocol */
	bool is_half;		  /* one direction has ended */
	bool is_young;		  /* in eg->young */
	bool is_busy;		  /* in eg->busy: more bytes can be moved at once */
	bool is_limited;	  /* bytes are counted against limits */
	bool is_first;		  /* its lines belong to a new key (ledger.h) */
	bool is_paused;		  /* in eg->paused: waits for bandwidth */
	bool is_handed;		  /* the client's socket came in a message, and its sender may have a copy */
	bool may_be_opaque;	  /* bytes that are neither TLS nor HTTP are relayed as a tunnel */
	uint32_t generation;	  /* of the policy that allowed it */
	struct limit *limit;	  /* of its rule; NULL: the rule has none */
	uint64_t started, active; /* eg->now */

	struct flow_side client, server;
	struct buf first;	 /* read before it was dialled */
	struct tls_hello *hello; /* while it is read, and for the inspector */
	struct http1_head *http; /* likewise; its slices point into `first` */
	struct dialc_request dial;
	struct wheel_entry timeout;
	void (*wake)(struct flow *f); /* bandwidth is available again; set by the caller of flow_grant() */

	struct ledger_wait turn;     /* in FLOW_LEDGER */
	struct asking *asking;	     /* in FLOW_ASK */
	const struct access *access; /* in FLOW_PAGE */
	bool wants_id;		     /* in FLOW_PAGE: wants only the id */
	bool goes_on;		     /* 100 Continue was sent */
	uint64_t ticket;	     /* allowed by a person, and nothing was sent yet; else 0 */
	bool approved;		     /* a person allowed it */
	char ask_id[28];	     /* of the answered ask, for the journal */
	void *inspect;		     /* the inspector's */
	TAILQ_ENTRY(flow) in_all, in_young, in_busy, in_paused;
};

/* The target, for policy_connect() and policy_request(). `host` is filled in when there is a name. */
void flow_target(const struct flow *f, struct host *host, struct policy_target *ret);

/* "example.com" or "203.0.113.7"; out holds HOST_MAX + 1. */
const char *flow_host(const struct flow *f, char *out);

/* Notes activity: the idle timeout starts anew. */
static inline void flow_touch(struct flow *f)
{
	f->active = f->eg->now;
}

/* Ends the flow; `how` is for the journal: client server reset timeout denied limit policy "error: …". */
void flow_end(struct flow *f, const char *how);

/* The same with a reset instead of an orderly end. */
void flow_reset(struct flow *f, const char *how);

/* Resets every flow, whoever owns it. */
void flow_reset_all(struct egress *eg, const char *how);

/* A new policy is in force: ends the flows that it no longer allows. */
void flow_rejudge_all(struct egress *eg);

/*
 * How many of `want` bytes may pass up (LIMIT_UP) or down now: 0 when bandwidth is short; wake() is then
 * called when there is more. -EDQUOT when bytes_up is used up: end the flow with "limit". Granted bytes that
 * were not sent must be returned. Without limits this counts nothing and grants everything; the sender adds
 * sent bytes to client.bytes (up) and server.bytes (down).
 */
long flow_grant(struct flow *f, enum limit_way way, size_t want) MUST_CHECK;
void flow_return(struct flow *f, enum limit_way way, size_t unused);

#endif
