/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who holds a run's questions has people told of them, if the operator wants that (config/notify_file.h): by a process of its own
 * that follows the run's socket like any other client (doc/adr/0021). Nothing here waits for it, and an ask is the same
 * with it, without it, and when it dies.
 *
 *	on a new question:	asknotify_question(&n, loop, st, run_id, number);
 */
#ifndef APPROVAL_ASKNOTIFY_H
#define APPROVAL_ASKNOTIFY_H

#include "ipc/loop.h"
#include "sandbox/state/state.h"

#include <sys/types.h>

struct asknotify {
	struct loop *loop;
	struct watch w; /* the pidfd; -1: it does not run */
	pid_t pid;
	uint64_t since; /* CLOCK_MONOTONIC ns: when it was started last; 0: never */
};

#define ASKNOTIFY_INIT ((struct asknotify){ .w = WATCH_INIT, .pid = -1 })

/* Starts it if it is wanted and not there. `number` is the question's: those before it were told already. */
void asknotify_question(struct asknotify *n, struct loop *l, const struct state *st,
			const char run_id[RUN_ID_LEN + 1], uint64_t number);
/* Lets go of it: it ends by itself when nobody serves the socket any more. */
void asknotify_close(struct asknotify *n);

#endif
