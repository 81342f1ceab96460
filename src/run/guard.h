/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guard: a child of the launcher that waits for the launcher's end. A launcher that is done kills it. When the launcher
 * dies first, the guard kills the sandbox, cleans up and logs run.end. Once the sandbox is dead it removes the overlay's work
 * directories, on another CPU than the launcher. A guard that is killed harms nothing: the launcher finishes by itself.
 *
 * For a run with a network it also starts and watches coffer-egress and coffer-dial (net.h); then a killed guard means no network.
 */
#ifndef RUN_GUARD_H
#define RUN_GUARD_H

#include "base/err.h"
#include "netd/serve/net.h"
#include "run/run.h"
#include "sandbox/wall/wall.h"

struct guard {
	pid_t pid;
	int fd; /* SOCK_SEQPACKET to it */
	int agent; /* a channel to the vault (NET_AGENT) that came while another message was waited for; -1: none */
};

#define GUARD_INIT ((struct guard){ .pid = -1, .fd = -1, .agent = -1 })

/* Forks it. Nothing of the run may exist yet but spec->id (run.U1). */
int guard_start(struct guard *g, struct run *r, struct err *e) MUST_CHECK;

/* Hands it the sandbox's first process, so that it can kill a sandbox without a control group, and the run's ids. */
int guard_tell(struct guard *g, pid_t pid, int pidfd, const struct ids *ids, struct err *e) MUST_CHECK;

/* Hands it the wall, and closes the launcher's descriptors of it. */
int guard_net(struct guard *g, struct wall *w, struct err *e) MUST_CHECK;

/* Hands it, and closes, the two files inside that a later certificate is appended to (spec->ca_later). */
int guard_net_ca_files(struct guard *g, int fds[2], struct err *e) MUST_CHECK;

/* Waits for the certificate of the sandbox's CA and returns it as a memory file. Messages for the terminal that come meanwhile
 * are dropped: they are in the log. */
int guard_net_ca(struct guard *g, struct err *e) MUST_CHECK;

/* Once the command has ended: waits until the network has ended too and all of it is in the log. *ret_report gets members
 * of the report's object; messages for the terminal go to say(). False: the guard is dead, and run_finish() must do it. */
bool guard_net_end(struct guard *g, void (*say)(void *ctx, enum net_level level, const char *text), void *ctx,
		   struct buf *ret_report);

/* Kills and reaps it, when all is done. */
void guard_stop(struct guard *g);

#endif
