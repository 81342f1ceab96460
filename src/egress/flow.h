/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection of the sandbox, from accept() to its `close` line.
 *
 * Invariants
 *  F1  A flow is dialled only after policy_connect() said yes, its `open` line was written, and at FLOW_PEEK depth or
 *      deeper the name inside (SNI, Host) was the name that was looked up.
 *  F2  What was asked for is `name` and `port`, or `addr` and `port` when an address was dialled that no name stands for.
 *      Nothing that the client sends changes that.
 *  F3  flow_end() writes `close`, closes the descriptors and frees the flow. Whoever called it must not touch it again.
 */
#ifndef EGRESS_FLOW_H
#define EGRESS_FLOW_H

#include "base/buf.h"
#include "codec/tls_hello.h"
#include "egress/egress.h"

enum flow_state {
	FLOW_FIRST,   /* waits for its first bytes */
	FLOW_DIAL,    /* waits for coffer-dial */
	FLOW_RELAY,   /* bytes go both ways */
	FLOW_INSPECT, /* belongs to the inspector */
	FLOW_DENY,    /* takes a refusal's text, then ends */
};

struct flow_side {
	struct watch w;	 /* w.fd is the socket, -1 when there is none */
	struct buf held; /* read from here, not yet taken by the other side; empty most of the time */
	bool readable, writable;
	bool eof;	/* nothing more comes from here */
	bool shut;	/* the other side's end was passed on to here */
	uint64_t bytes; /* read from here and passed on */
	struct pipe_pair *pipe;
	size_t in_pipe;
};

struct flow {
	struct egress *eg;
	uint64_t id; /* `c` in the journal */
	enum flow_state state;
	const struct name *name; /* NULL: an address was dialled */
	struct addr addr;	 /* what was connected to: synthetic when there is a name */
	uint16_t port;
	uint8_t depth;			/* enum policy_depth */
	bool opened_line;		/* the `open` line was written, so `close` will be */
	bool young;			/* in eg->young_* */
	uint32_t generation;		/* of the policy that allowed it */
	const struct policy_rule *rule; /* of eg->policy; NULL: the default */
	struct limit *limit;		/* that of its rule, NULL: none of its own */
	uint64_t started, active;	/* eg->now */

	struct flow_side client, server;
	struct buf first;	 /* read before it was dialled */
	struct tls_hello *hello; /* of TLS, whole; freed with the flow or by the inspector */
	struct dial_ask ask;
	struct wheel_entry timeout;
	bool paused; /* waits for bandwidth */
	struct flow *next_paused;

	void *inspect; /* the inspector's */
	struct flow *next, **link;
	struct flow *young_next, *young_prev;
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

/*
 * Bytes that may go up now: at most `want`, less where bandwidth is short (0: the flow is paused and will be woken
 * with `wake`), -EDQUOT when bytes_up is used up. What was granted and not sent is given back by flow_return_up().
 */
long flow_grant_up(struct flow *f, size_t want);
void flow_return_up(struct flow *f, size_t unused);

/* The same for bytes that come down: bandwidth only. */
size_t flow_grant_down(struct flow *f, size_t want);
void flow_return_down(struct flow *f, size_t unused);

#endif
