/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network events of the audit log, one by one: for net log, learn, drift, metrics and why.
 *
 * The fields were folded in from the journal of a process that talks to strangers: each is checked for its
 * type, and one that does not fit is left empty. The caller must make names and texts harmless before a
 * person sees them.
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
	NETEV_ASK,  /* ask.new: held until a person has answered */
	NETEV_OTHER /* "net." and a word that is not in this list */
};

struct net_event {
	enum net_kind kind;
	char sandbox[RUN_ID_LEN + 1];
	uint64_t t;	       /* CLOCK_REALTIME ns: when it happened, or when it was logged */
	const char *time_text; /* the log's timestamp, LINE_TIME_LEN bytes */
	char type[65];	       /* "net.open"; the real one also of NETEV_OTHER */
	json_t *obj;	       /* owns all texts below */
	const char *name, *addr, *depth, *decision, *rule, *why, *method, *path, *act, *seen, *secret, *proxy,
		*how, *qtype, *proto, *text, *said,
		*folded,     /* folded: the kind of the events that were counted */
		*ask, *what, /* of a question: its id, and its subject */
		*top;	     /* of a sum: the most frequent destinations in it (base/top.h) */
	uint64_t port, conn, up, down, ms, count, again, status, first;
	int error; /* negative errno of a dial; 0: none */
	bool denied;
};

void cli_net_event_release(struct net_event *ev);

/* False: the record is no network event. */
bool cli_net_event_parse(struct net_event *ret, const struct audit_record *rec);
/*
 * Parses a question about a connection or a request; its decision is "ask". False: the record is no such
 * question.
 */
bool cli_net_event_parse_ask(struct net_event *ret, const struct audit_record *rec);
/* A quick test by type: false means that neither of the two above would accept the record. */
bool cli_net_event_may_be(const struct audit_record *rec);

/*
 * Does the event only report how a lookup failed that has a line of its own (egress/wire/journal.h)?
 * Callers that count lookups skip it. A result that the policy forbids is no such event: it is a denial of its own, counted
 * beside the line with allow that was written before the lookup, because a counter must not go back.
 */
bool cli_net_event_is_outcome(const struct net_event *ev);

/* Does the event stand for several of which only the number is known? */
bool cli_net_event_is_sum(const struct net_event *ev);

/* How many events the line stands for: itself and those counted on it, or only those (egress/wire/journal.h). */
uint64_t cli_net_event_times(const struct net_event *ev);

/* The name, or the address if there is no name; never NULL. */
const char *cli_net_event_host(const struct net_event *ev);

/* The part of the log to read. */
struct net_range {
	uint64_t since;
	const char *ref; /* a sandbox by id, prefix, name or @last; NULL: all */
};

/* Calls fn for every event that is now in the range. A negative return of fn ends the reading. */
int cli_net_events(struct state *st, const struct net_range *range,
		   int (*fn)(void *ctx, struct net_event *ev), void *ctx, struct err *e) MUST_CHECK;

/*
 * The same, then continues with new events as they are logged. Calls idle() whenever none is left for now.
 */
int cli_net_events_follow(struct state *st, const struct net_range *range,
			  int (*fn)(void *ctx, struct net_event *ev), int (*idle)(void *ctx), void *ctx,
			  struct err *e) MUST_CHECK;

#endif
