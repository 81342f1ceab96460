/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guard's network part: it holds the wall's sockets, starts coffer-egress and coffer-dial on them,
 * watches both, folds their journals into the audit log, and gives them a new policy when the file has
 * changed.
 *
 * Invariants (cited elsewhere as net.G1 …)
 * G1  Only the guard and coffer-egress hold the wall's sockets. While coffer-egress is down they stay open
 *     and unanswered: connections wait in the backlog, and nothing opens.
 * G2  Neither program outlives the guard (parent-death signal, end of file on the control socket), and the
 *     guard ends both before it reports the end of the run's network.
 * G3  Journals are hostile until checked line by line (net_fold.h); a run's traffic cannot push other events
 *     out of the log.
 * G4  A policy file that is broken after a change grants nothing: the policy in force stays, and that is
 *     reported. So is one that the process which compiles it (net_compile.h) does not bring to an end. A program that
 *     does not take a new bundle is ended and restarted with it.
 * G5  If the programs cannot be started at all the sandbox is ended (cause "network"); there is no way around
 *     them.
 *
 * The launcher sends the guard, over a SOCK_SEQPACKET pair: the sandbox (guard_tell()), then the wall
 * (wall_send()), then requests to sign (net_sign.h), at the end NET_END. The guard replies with struct
 * net_msg and at most one descriptor.
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

/* Files in a run's directory: the latest counters of coffer-egress, and of coffer-dial if there are proxies. */
#define NET_STATS_EGRESS "net-egress.json"
#define NET_STATS_DIAL "net-proxies.json"

/* The run, as far as the network part of the guard needs it; the run outlives it. */
struct net_config {
	struct state *st;
	struct audit *audit;
	struct spec *spec;
	struct net_plan *plan;
	const struct cgroup_host *cgroup_host;
	int sandbox; /* pidfd of the sandbox; -1: none */
};

/* Callbacks into the guard: once after the first idle moment, and when the sandbox is dead. */
struct net_calls {
	void (*idle)(void *ctx);
	void (*dead)(void *ctx);
	void *ctx;
};

/*
 * The guard's loop for a run with a network, once the sandbox is known; `launcher` is the socket. Returns
 * when the launcher is gone. True: both programs are ended and everything they did is in the log.
 */
bool net_guard(const struct net_config *c, int launcher, const struct net_calls *calls);

/* Folds the rest of the journals of a run whose guard is gone; idempotent, since folded bytes are punched
 * out. */
int net_finish(const struct net_config *c, struct err *e) MUST_CHECK;

#endif
