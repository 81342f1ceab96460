/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sandboxes with a restart policy, in cofferd: notices their end, starts them again, remembers (doc/adr/0012, whose
 * invariants are cited here by number).
 *
 * A sandbox that runs is watched by a connection to its control socket, over which nothing is said; its end is the event.
 * What follows, the clearing up by its launcher or guard, is over when nobody holds the run: that is asked for with growing
 * pauses. Starting one is executing `coffer run --again ID`.
 */
#ifndef DAEMON_KEEPER_H
#define DAEMON_KEEPER_H

#include "audit/audit.h"
#include "base/json.h"
#include "ipc/loop.h"
#include "sandbox/state/state.h"

#include <sys/types.h>

struct keeper;

struct keeper_with {
	struct state *st;
	struct loop *loop;
	struct audit *audit;
	int coffer_fd;		      /* the program that starts them */
	bool (*is_locked)(void *ctx); /* is the vault? */
	void *ctx;
};

/* What `coffer run --again` exits with when the sandbox wants secrets, and the vault is locked: no try of the sandbox's. */
#define KEEPER_EXIT_LOCKED 75

/* Opens the database and finds all again. Everything in *w must live as long. */
int keeper_open(struct keeper **ret, const struct keeper_with *w, struct err *e) MUST_CHECK;
/* Says in the database that this end was meant. The sandboxes go on. */
void keeper_close(struct keeper *k);

/* A run with a restart policy that has just been started; it is in the database when this returns 0. */
int keeper_keep(struct keeper *k, const char *id, struct err *e) MUST_CHECK;
/* Looks at all of them, and for those that nobody told us of. */
int keeper_look(struct keeper *k, struct err *e) MUST_CHECK;

/* The vault is open: those that waited for it are started. */
void keeper_unlocked(struct keeper *k);

/* Is there one that may have to be started again? */
bool keeper_is_busy(const struct keeper *k);
/* A child of ours has ended; false when it is not one of the keeper's. */
bool keeper_reaped(struct keeper *k, pid_t pid, int status);

/* Members "database" and "sandboxes" of the status object. */
void keeper_json(struct keeper *k, struct json *j);

#endif
