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
 * The launcher says to the guard, over a SOCK_SEQPACKET: who the sandbox is (guard_tell()), then the wall (wall_send()),
 * then what is to be asked before a key signs (net_sign.h), at the end NET_END. The guard answers with struct net_msg, and at most one descriptor.
 */
#ifndef NETD_NET_H
#define NETD_NET_H

#include "audit/audit.h"
#include "base/err.h"
#include "netd/plan/net_plan.h"
#include "netd/wire/net_msg.h"
#include "sandbox/spec/spec.h"
#include "sys/cgroup/cgroup.h"

#include <stdbool.h>
#include <stdint.h>

/* Files in a run's directory: the counters that coffer-egress, and coffer-dial where there are proxies, told last. */
#define NET_STATS_EGRESS "net-egress.json"
#define NET_STATS_DIAL "net-proxies.json"

/* What the network's part of the guard knows of the run; the run outlives it. */
struct net_config {
	struct state *st;
	struct audit *audit;
	struct spec *spec;
	struct net_plan *plan;
	const struct cgroup_host *cgroup_host;
	int sandbox; /* pidfd of the sandbox; -1: none */
};

/* Calls back into the guard: when there was nothing to do for a while, once, and when the sandbox is dead. */
struct net_calls {
	void (*idle)(void *ctx);
	void (*dead)(void *ctx);
	void *ctx;
};

/*
 * The guard's loop for a run with a network, once it knows the sandbox; `launcher` is the socket. Returns when the launcher
 * is gone. True: both programs are ended and all that they did is in the log.
 */
bool net_guard(const struct net_config *c, int launcher, const struct net_calls *calls);

/* Folds what is left in the journals of a run whose guard is gone; idempotent, for what was folded is punched out. */
int net_finish(const struct net_config *c, struct err *e) MUST_CHECK;

#endif
