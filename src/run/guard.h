/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guard: a child of the launcher that waits. A launcher that is done ends it; when the launcher dies first, the
 * guard kills what is left of the sandbox, cleans up and writes the end into the log. Once the sandbox is dead it takes
 * some of the cleaning off the launcher, on another CPU. A killed guard harms nothing: the launcher finishes by itself.
 *
 * It also is the sandbox's way to the network (net.h): then a killed guard means that there is none any more.
 */
#ifndef RUN_GUARD_H
#define RUN_GUARD_H

#include "base/err.h"
#include "netd/serve/net.h"
#include "run/run.h"
#include "sandbox/wall/wall.h"

struct guard {
	pid_t pid;
	int fd;	   /* towards it */
	int agent; /* a channel that came while something else was waited for (NET_AGENT); -1: none */
};

#define GUARD_INIT ((struct guard){ .pid = -1, .fd = -1, .agent = -1 })

/* Call before anything of the run exists; spec->id is chosen already. */
int guard_start(struct guard *g, struct run *r, struct err *e) MUST_CHECK;

/* Hands it the sandbox, so that it can kill what has no control group, and whose ids those are. */
int guard_tell(struct guard *g, pid_t pid, int pidfd, const struct ids *ids, struct err *e) MUST_CHECK;

/* Hands it the wall, and keeps none of it. */
int guard_net(struct guard *g, struct wall *w, struct err *e) MUST_CHECK;

/* The same with the files inside that a CA is appended to which comes later (spec->ca_later). */
int guard_net_room(struct guard *g, int fds[2], struct err *e) MUST_CHECK;

/* Waits for the sandbox's CA: a memory file with its certificate. What is to be said meanwhile is dropped: it is logged. */
int guard_net_ca(struct guard *g, struct err *e) MUST_CHECK;

/* The command has ended: waits until the network is at its end too and all of it is in the log. *ret_report gets members
 * of the report's object. Lines for the terminal go to say(). False: the guard is gone, and has left it as it was. */
bool guard_net_end(struct guard *g, void (*say)(void *ctx, enum net_level level, const char *text), void *ctx,
		   struct buf *ret_report);

/* All is done: ends it and waits for it. */
void guard_stop(struct guard *g);

#endif
