/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer-egress: serves the whole network of one sandbox, in one process that cannot create a socket.
 *
 * One round of the loop: events are handled, and their decisions are gathered in the journal; then
 * egress_settle() writes the journal and releases everything that waited for it (requests to coffer-dial, DNS
 * replies, deferred calls).
 *
 * Invariants
 *  E1  Nothing leaves before its journal line is written: dial requests, DNS replies and everything given to
 *      egress_defer() wait for the commit of their line, and fail when it fails.
 *  E2  Without a policy (none yet, or one that did not load) everything is denied.
 *  E3  Every connection is a struct flow, from accept() to its `close` line; flow.h tells its owner in each
 *      state.
 *  E4  Time is eg->now, read once per round (CLOCK_MONOTONIC ns), so that a test can set its own.
 *  E5  Everything that passes for the first time has a line of its own, or waits for one (ledger.h).
 */
#ifndef EGRESS_EGRESS_H
#define EGRESS_EGRESS_H

#include "egress/account/egress_limits.h"
#include "egress/account/egress_names.h"
#include "egress/account/ledger.h"
#include "egress/wire/dialc.h"
#include "egress/wire/journal.h"
#include "ipc/loop.h"
#include "ipc/wheel.h"
#include "policy/policy.h"

#include <sys/queue.h>

struct access;
struct asking;
struct asking_past;
struct flow;
struct intake;
TAILQ_HEAD(flow_list, flow);
struct dns_serve;
struct egress;

/* A call that waits until the journal is written; embedded in its owner's struct. */
struct defer {
	void (*fn)(struct egress *eg, struct defer *d, int status); /* status < 0: deny */
	struct egress *eg;
	struct defer *next, **link; /* link is NULL while it does not wait */
};

/* Timeouts in seconds. */
struct egress_times {
	unsigned first; /* until the first bytes are complete (ClientHello, HTTP head) */
	unsigned idle;	/* without a byte in either direction */
	unsigned half;	/* the same when one direction has ended */
	unsigned deny;	/* for the client to read a refusal */
};

#define EGRESS_TIMES ((struct egress_times){ .first = 15, .idle = 3600, .half = 120, .deny = 5 })

/* Totals since this process started, for CTL_STATS. */
struct egress_stats {
	uint64_t opened, allowed, denied, mismatched, limited, failed, shed;
	uint64_t by_depth[3]; /* enum policy_depth */
	uint64_t up, down;
	uint64_t dns_queries, dns_allowed, dns_denied, dns_failed, dns_bad, dns_dropped;
	uint64_t refused; /* packets that the wall refused */
};

/*
 * The part that terminates TLS and speaks HTTP (inspect.c). The core hands it a flow whose policy requires
 * inspection, and every plain HTTP connection, when the first bytes are complete and the name in them has
 * been checked against the name that was looked up.
 */
struct egress_inspector {
	/*
	 * Takes the flow over. f->client.fd is armed for no event; f->first holds the bytes read from it so
	 * far; f->hello is the ClientHello in them, NULL: plain HTTP, and f->first begins with a complete
	 * request head. The `open` line is in the journal. The inspector ends the flow with one flow_end(),
	 * from here or later.
	 */
	void (*take)(struct egress *eg, struct flow *f);
	/*
	 * A new policy is in force. May send CTL_CA. An error is reported to the guard, which must repair it.
	 */
	int (*policy_loaded)(struct egress *eg, struct err *e);
	/* The same, for each connection that the new policy still allows. */
	void (*policy_changed)(struct egress *eg, struct flow *f);
	/*
	 * A timeout, or the process ends: release everything. The core closes f->client.fd and writes the
	 * `close` line.
	 */
	void (*drop)(struct egress *eg, struct flow *f);
	/*
	 * While on, the inspector runs nothing: code that iterates over the flows sees none end except by its
	 * own calls.
	 */
	void (*hold)(struct egress *eg, bool on);
	/* Adds members to CTL_STATS. May be NULL. */
	void (*add_stats)(struct egress *eg, struct json *j);
	/* Must this host be inspected, whatever the policy says? True where a secret is bound to it. */
	bool (*wants)(struct egress *eg, const struct host *h, uint16_t port);
	/* A new list of secrets and a new channel to the vault; takes neither descriptor. */
	int (*new_vault)(struct egress *eg, int grants_fd, int vault_fd, struct err *e);
	void *ctx;
};

#define EGRESS_SCRATCH (128u << 10)

struct egress {
	struct loop loop;
	uint64_t now;
	struct policy *policy; /* NULL: none, and why_none has the reason */
	uint32_t generation;
	char why_none[256];

	struct journal journal;
	struct ledger ledger;
	struct dialc dial;
	struct egress_names names;
	struct limits limits;
	struct egress_times times;
	struct egress_stats stats;

	const struct egress_inspector *inspector; /* NULL: connections that need it are denied */
	struct dns_serve *dns;
	const struct intake *intake; /* the kind of wall; NULL: none yet */
	struct forwarder *forwarder; /* intake_messages only */

	/* Private. */
	struct defer *deferred, **deferred_end;
	struct wheel wheel; /* timeouts of flows and DNS connections */
	struct timer tick;
	struct flow_list flows; /* all of them */
	unsigned n_flows, max_flows;
	struct flow_list busy, paused;
	struct timer soon, refill; /* timers of those two lists */
	struct flow_list young;	   /* still without their first bytes, oldest first */
	unsigned n_young;
	uint64_t next_id;
	struct pipes *pipes;
	struct acceptor *acceptors;
	struct fold *fold;
	char *scratch; /* EGRESS_SCRATCH bytes for any reader; nothing in it outlives a callback */
	int spare_fd;  /* closed for a moment when descriptors run out, to accept and reset a connection */
	struct nflog *nflog;
	struct control *control;
	struct asking *asking; /* asks that await a person's answer */
	unsigned n_asking;
	struct asking_past *answered; /* NULL: none so far */
	struct access *access;	      /* requested rules, newest first */
	unsigned n_polls;	      /* connections that wait for an answer about one */
	uint64_t next_ticket;
	bool quitting;
	int exit_code;
};

/* Runs `d` after the journal is written, in this round. */
void egress_defer(struct egress *eg, struct defer *d);
void egress_undefer(struct defer *d);

/*
 * Writes the journal and releases everything that waited for it. The owner of the loop calls it after each
 * round.
 */
void egress_settle(struct egress *eg);

/* Ends a line; `first`: of something that passes for the first time, or that belongs to such. */
void egress_end_line(struct egress *eg, bool first);

/* Why the ledger denies; sends the alert that it is full, once. */
const char *egress_ledger_why(struct egress *eg);

/*
 * An `alert` line: something that a person should know. Repetitions of one kind, name and text are counted.
 */
void egress_alert(struct egress *eg, const char *kind, const char *name, const char *fmt, ...)
	PRINTF_LIKE(4, 5);

/* In parts, for egress_main() and tests: descriptors are borrowed, except `dial`. */
int egress_init(struct egress *eg, int journal, int dial, struct err *e) MUST_CHECK;
int egress_init_names(struct egress *eg, int fd, struct err *e) MUST_CHECK; /* -1: private memory */
void egress_release(struct egress *eg);
void egress_round(struct egress *eg, struct err *e); /* one round of the loop, settled */

/*
 * Runs coffer-egress from the descriptors of fds.h to the last line; `mask` tells which of them are real.
 * install_inspector() (or NULL) is called before confinement, with the policy loaded: it sets eg->inspector,
 * and may send CTL_CA. Returns the exit code.
 */
int egress_main(uint32_t mask, int (*install_inspector)(struct egress *eg, struct err *e));

#endif
