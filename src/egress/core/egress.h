/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer-egress: everything that one sandbox's network is answered by, in one process without a socket() of its own.
 *
 * One round of the loop: events are handled; what they decided is gathered in the journal; then egress_settle() writes
 * the journal and lets go what waited for it (requests to coffer-dial, DNS answers, deferred calls).
 *
 * Invariants
 *  E1  Nothing leaves before its line is written: dial requests, DNS answers and whatever was given to egress_defer()
 *      wait for the commit behind them, and fail with it.
 *  E2  No policy (none yet, or one that did not load) denies everything.
 *  E3  Every connection is a struct flow, from accept() to its `close` line; flow.h says who owns it when.
 *  E5  What is let through for the first time has a line of its own, or waits for one (ledger.h).
 *  E4  Time is eg->now, read once a round (CLOCK_MONOTONIC ns), so that a test can have its own.
 */
#ifndef EGRESS_EGRESS_H
#define EGRESS_EGRESS_H

#include "egress/account/egress_limits.h"
#include "egress/account/ledger.h"
#include "egress/account/names.h"
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
TAILQ_HEAD(flow_list, flow);
struct dns_serve;
struct egress;

/* Something that waits until the journal is written; lives in its owner's struct. */
struct defer {
	void (*fn)(struct egress *eg, struct defer *d, int status); /* status < 0: deny */
	struct egress *eg;
	struct defer *next, **link; /* link is NULL while it does not wait */
};

/* Time limits in seconds. */
struct egress_times {
	unsigned first; /* until the first bytes are whole (ClientHello, HTTP head) */
	unsigned idle;	/* without a byte in either direction */
	unsigned half;	/* the same when one side has ended */
	unsigned deny;	/* to take a refusal's text */
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
 * The part that ends TLS and speaks HTTP (inspect.c). The core hands it a flow whose policy wants inspection, and every
 * plain HTTP connection, when the first bytes are there and the name in them was checked against the name that was looked up.
 */
struct egress_inspector {
	/*
	 * Takes the flow over. f->client.fd is armed for nothing; f->first holds what was read from it so far; f->hello the
	 * ClientHello in it, NULL: plain HTTP, and f->first begins with a request head that is whole. The `open` line is in
	 * the journal. Everything ends with one flow_end(), from here or later.
	 */
	void (*take)(struct egress *eg, struct flow *f);
	/* A new policy is in force. May send CTL_CA. What fails is for the guard to mend. */
	int (*policy_loaded)(struct egress *eg, struct err *e);
	/* The same, for each connection; f->verdict is what it says of the connection now, and still allows it. */
	void (*policy_changed)(struct egress *eg, struct flow *f);
	/* Time is up, or the process ends: let go of everything. The core closes f->client.fd and writes the `close` line. */
	void (*drop)(struct egress *eg, struct flow *f);
	/* Between the two nothing of it runs: who goes through the flows sees none end but by his own hand. */
	void (*hold)(struct egress *eg, bool on);
	/* Members of its own for CTL_STATS. May be NULL. */
	void (*add_stats)(struct egress *eg, struct json *j);
	/* Must it be inspected, whatever the policy says? For what a secret is bound to. */
	bool (*wants)(struct egress *eg, const struct host *h, uint16_t port);
	/* A new list of secrets and a new channel to the vault; takes neither. */
	int (*new_vault)(struct egress *eg, int grants_fd, int vault_fd, struct err *e);
	void *ctx;
};

#define EGRESS_SCRATCH (128u << 10)

struct egress {
	struct loop loop;
	uint64_t now;
	struct policy *policy; /* NULL: none, and why_none says why */
	uint32_t generation;
	char why_none[256];

	struct journal journal;
	struct ledger ledger;
	struct dialc dial;
	struct names names;
	struct limits limits;
	struct egress_times times;
	struct egress_stats stats;

	const struct egress_inspector *inspector; /* NULL: what needs it is denied */
	struct dns_serve *dns;

	/* Its own. */
	struct defer *deferred, **deferred_end;
	struct wheel wheel; /* time limits of flows and DNS connections */
	struct timer tick;
	struct flow_list flows; /* all of them */
	unsigned n_flows, max_flows;
	struct flow_list busy, paused;
	struct timer soon, refill; /* for those two */
	struct flow_list young;	   /* without their first bytes, oldest first */
	unsigned n_young;
	uint64_t next_id;
	struct pipes *pipes;
	struct acceptor *acceptors;
	struct fold *fold;
	char *scratch; /* EGRESS_SCRATCH bytes, for whoever reads; nothing in it outlives a callback */
	int spare_fd;  /* given up for a moment when descriptors run out, to turn a connection away */
	struct nflog *nflog;
	struct control *control;
	struct asking *asking; /* what waits for a person */
	unsigned n_asking;
	struct asking_past *answered; /* NULL: none was yet */
	struct access *access;	      /* rules that were asked for, the newest first */
	unsigned n_polls;	      /* connections that wait for an answer to one */
	uint64_t next_ticket;
	bool quitting;
	int exit_code;
};

/* Runs `d` after the journal was written, in this round. */
void egress_defer(struct egress *eg, struct defer *d);
void egress_undefer(struct defer *d);

/* Writes the journal and lets go what waited for it. The loop's owner calls it after each round. */
void egress_settle(struct egress *eg);

/* Ends a line; `first`: of something that is let through for the first time, or that belongs to such. */
void egress_end_line(struct egress *eg, bool first);

/* Why the ledger denies it; the operator hears once that it is full. */
const char *egress_ledger_why(struct egress *eg);

/* An `alert` line: something that a person should know about. Repeated ones of a kind, name and text are counted. */
void egress_alert(struct egress *eg, const char *kind, const char *name, const char *fmt, ...)
	PRINTF_LIKE(4, 5);

/* In parts, for egress_main() and tests: descriptors are borrowed, but for `dial`. */
int egress_init(struct egress *eg, int journal, int dial, struct err *e) MUST_CHECK;
int egress_init_names(struct egress *eg, int fd, struct err *e) MUST_CHECK; /* -1: private memory */
void egress_release(struct egress *eg);
void egress_round(struct egress *eg, struct err *e); /* one round of the loop, settled */

/*
 * Everything from the descriptors of fds.h to the last line; `mask` says which are real. install_inspector() (or NULL)
 * is called before confinement, with the policy loaded: it sets eg->inspector, and may send CTL_CA. Exit code.
 */
int egress_main(uint32_t mask, int (*install_inspector)(struct egress *eg, struct err *e));

#endif
