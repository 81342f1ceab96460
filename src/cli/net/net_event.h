/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the log says about the network, event by event: for net log, learn, drift, metrics and why.
 *
 * An event's fields were folded in from a journal of a process that talks to strangers: each is looked at for its type,
 * and what does not fit is left empty. Names and texts still have to be made harmless before a person sees them.
 */
#ifndef CLI_NET_EVENT_H
#define CLI_NET_EVENT_H

#include "audit/query.h"
#include "base/err.h"
#include "sandbox/state/state.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum net_kind {
	NETEV_DNS,
	NETEV_OPEN,
	NETEV_CLOSE,
	NETEV_REQUEST,
	NETEV_RESPONSE,
	NETEV_DIAL,
	NETEV_REFUSED,
	NETEV_ALERT,
	NETEV_POLICY,
	NETEV_FOLDED,
	NETEV_DOWN,
	NETEV_UP,
	NETEV_ASK, /* ask.new: held until a person has answered */
	NETEV_OTHER,
	NETEV_KIND_COUNT
};

struct net_event {
	enum net_kind kind;
	char sandbox[RUN_ID_LEN + 1];
	uint64_t t;	       /* CLOCK_REALTIME ns: when it was seen, else when it was logged */
	const char *time_text; /* the log's, LINE_TIME_LEN bytes */
	json_t *obj;	       /* owns all texts below */
	const char *name, *addr, *depth, *decision, *rule, *why, *method, *path, *act, *seen, *secret, *proxy,
		*how, *qtype, *proto, *text, *said, *folded, /* folded: which kind of event was counted */
		*ask, *what,				     /* of a question: its id, and what it is about */
		*top; /* of a number: the most frequent that it stands for (base/top.h) */
	uint64_t port, conn, up, down, ms, count, again, status, first;
	int error; /* a status below 0: of a dial */
	bool denied;
};

void net_event_release(struct net_event *ev);

/* False when it is not about the network. */
bool net_event_parse(struct net_event *ret, const struct audit_record *rec);
/* A question about a connection or a request, with "ask" as its decision. False: it is none. */
bool net_event_parse_ask(struct net_event *ret, const struct audit_record *rec);
/* By its type alone: one of the two may be true. */
bool net_event_may_be(const struct audit_record *rec);

const char *net_kind_name(enum net_kind k); /* "net.open" */

/* Does it only tell how a lookup failed that has a line of its own (egress/wire/journal.h)? Who counts lookups leaves it out. */
bool net_event_is_outcome(const struct net_event *ev);

/* Does it stand for many, of which only the number is known? */
bool net_event_is_sum(const struct net_event *ev);

/* The name, or the address where there is none; never NULL. */
const char *net_event_host(const struct net_event *ev);

/* Which part of the log. */
struct net_range {
	uint64_t since;
	const char *ref; /* id, prefix, name or @last of a sandbox; NULL: all */
};

/* Calls fn for every event of the range that there is now; a negative answer of fn ends it. */
int net_events(struct state *st, const struct net_range *range, int (*fn)(void *ctx, struct net_event *ev),
	       void *ctx, struct err *e) MUST_CHECK;

/* As above, and goes on with new ones as they come, calling idle() whenever there is none just now. */
int net_events_follow(struct state *st, const struct net_range *range,
		      int (*fn)(void *ctx, struct net_event *ev), int (*idle)(void *ctx), void *ctx,
		      struct err *e) MUST_CHECK;

#endif
