/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Announces new questions to people, if the operator wants that (config/notify_file.h): the ask server starts
 * a process of its own, `coffer notify-asks`, which follows the run's socket like any other client
 * (doc/adr/0021). Nothing here waits for it: approvals work the same with it, without it, and when it dies.
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
	struct watch w; /* the pidfd; -1: not running */
	pid_t pid;
	uint64_t since; /* CLOCK_MONOTONIC ns of the last start; 0: never */
};

#define ASKNOTIFY_INIT ((struct asknotify){ .w = WATCH_INIT, .pid = -1 })

/* Starts the process if it is wanted and not running. `number` is the question's; earlier ones were announced
 * already. */
void asknotify_question(struct asknotify *n, struct loop *l, const struct state *st,
			const char run_id[RUN_ID_LEN + 1], uint64_t number);
/* Stops watching the process: it exits by itself when no process serves the socket any more. */
void asknotify_close(struct asknotify *n);

#endif
