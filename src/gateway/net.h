/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guard's network part: holds the sockets of the wall, starts coffer-egress and coffer-dial on them, watches both,
 * folds their journals into the audit log, and gives them a new policy when the file has changed.
 *
 * Invariants
 *  G1  Nothing but the guard and coffer-egress holds the wall's sockets. While coffer-egress is down they stay open and
 *      unanswered: connections wait in the backlog, and nothing opens.
 *  G2  Neither program lives longer than the guard (parent-death signal, end of file on the control socket), and the
 *      guard ends both before it says that the run's network is over.
 *  G3  What a journal says is hostile until it was checked line by line (net_fold.h); a run's traffic cannot push other
 *      events out of the log.
 *  G4  A policy file that is broken after a change grants nothing: the policy that was in force stays in force, said
 *      aloud. A bundle that one of the two does not take ends that one, and it comes back with the bundle.
 *  G5  What cannot be started at all ends the sandbox (cause "network"); there is no way around the two.
 *
 * Between launcher and guard: one message each way at a time over a SOCK_SEQPACKET, struct net_msg and at most
 * NET_MSG_FDS descriptors.
 */
#ifndef GATEWAY_NET_H
#define GATEWAY_NET_H

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct run;
struct policy;
struct wall;

/*
 * The network as it was asked for: filled in by the command line before the guard is forked, and owned by its caller.
 * The mode itself is in the spec (spec->net), for the engines. A run without one has no network.
 */
struct net_plan {
	struct policy *policy; /* compiled, generation 1; NULL with mode none */
	char digest[72];       /* of the compiled policy: "sha256:…" */
	bool needs_ca;
	char *file; /* --policy, its real path: watched for changes; NULL: none */
	/* Compiles anew from the same file and options. */
	int (*compile)(void *ctx, uint32_t generation, struct policy **ret, struct err *e);
	void *ctx;
	char *const *summary; /* for the log: what --allow and --policy said, NULL-terminated; may be NULL */
};

#define NET_MSG_TEXT 1024
#define NET_MSG_FDS 8

enum net_msg_type {
	/* launcher → guard */
	NET_SANDBOX = 1, /* pid; pidfd */
	NET_WALL,	 /* present: bit n is the n-th member of struct wall; those descriptors in that order */
	NET_STATS,	 /* asks coffer-egress (which: 0) or coffer-dial (1) how it is; answered by NET_ANSWER */
	NET_END,	 /* the command has ended: end both, fold all, answer NET_ENDED */

	/* guard → launcher */
	NET_CA,	    /* the sandbox's CA: a memfd with the certificate (PEM), sealed */
	NET_SAY,    /* a line for the terminal of `coffer run`: text; which: enum net_say */
	NET_FAILED, /* text: why there is no network: the sandbox is to be ended */
	NET_ANSWER, /* to NET_STATS: a memfd with JSON; none and a text: it did not answer */
	NET_ENDED,  /* a memfd: the "network" object of the report, JSON */
	NET_MSG_COUNT
};

enum net_say { NET_SAY_NOTE, NET_SAY_WARN };

struct net_msg {
	uint32_t type;
	uint32_t which;
	int32_t pid;
	uint32_t present;
	char text[NET_MSG_TEXT]; /* ends with NUL; nothing from inside that a terminal would act on */
};

/* The guard's main loop for a run with a network, until the launcher is gone or has said NET_END; `launcher` is the
 * socket. Never fails: what goes wrong is said and logged. */
struct net_guard;
void net_guard_run(struct run *r, int launcher);

/*
 * Folds what is left in the journals of a run that nobody holds any more; called by run_finish() whoever that is.
 * Idempotent: what was folded is punched out.
 */
int net_finish(struct run *r, struct err *e) MUST_CHECK;

#endif
