/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guard: a child of the launcher that waits. A launcher that is done ends it; when the launcher dies first, the
 * guard kills what is left of the sandbox, cleans up and writes the end into the log. Once the sandbox is dead it takes
 * some of the cleaning off the launcher, on another CPU. A killed guard harms nothing: the launcher finishes by itself.
 */
#ifndef GATEWAY_GUARD_H
#define GATEWAY_GUARD_H

#include "base/err.h"
#include "gateway/run.h"

struct guard {
	pid_t pid;
	int fd; /* towards it */
};

#define GUARD_INIT ((struct guard){ .pid = -1, .fd = -1 })

/* Call before anything of the run exists; spec->id is chosen already. */
int guard_start(struct guard *g, struct run *r, struct err *e) MUST_CHECK;

/* Hands it the sandbox, so that it can kill what has no control group. */
int guard_tell(struct guard *g, pid_t pid, int pidfd, struct err *e) MUST_CHECK;

/* All is done: ends it and waits for it. */
void guard_stop(struct guard *g);

#endif
