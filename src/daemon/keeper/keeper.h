/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keeper: the part of cofferd that owns sandboxes with a restart policy. It notices their end, restarts
 * them, and records that (doc/adr/0012, whose invariants are cited as adr/0012 G1 …).
 *
 * A running sandbox is watched by a connection to its control socket, over which nothing is sent; its end is
 * the event. Then its launcher or guard cleans up, which is complete when nobody holds the run's lock: that
 * is polled with growing pauses. A sandbox is restarted by executing `coffer run --again ID`.
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
	bool (*is_locked)(void *ctx); /* is the vault locked? */
	void *ctx;
};

/* Exit code of `coffer run --again` if the sandbox needs secrets and the vault is locked: not counted as an
 * attempt. */
#define KEEPER_EXIT_LOCKED 75

/* Opens the database and examines all its sandboxes. Everything in *w must outlive the keeper. */
int keeper_open(struct keeper **ret, const struct keeper_with *w, struct err *e) MUST_CHECK;
/* Records in the database that this end was intended. The sandboxes continue. */
void keeper_close(struct keeper *k);

/* Registers a run with a restart policy that was just started; it is in the database when this returns 0. */
int keeper_keep(struct keeper *k, const char *id, struct err *e) MUST_CHECK;
/* Examines all of them, and finds runs that were never registered. */
int keeper_look_at_all(struct keeper *k, struct err *e) MUST_CHECK;

/* The vault is open: starts sandboxes that waited for it. */
void keeper_unlocked(struct keeper *k);

/* Is there one that may have to be restarted? */
bool keeper_is_busy(const struct keeper *k);
/* A child of cofferd has ended; false if it is none of the keeper's. */
bool keeper_reaped(struct keeper *k, pid_t pid, int status);

/* Members "database" and "sandboxes" of the status object. */
void keeper_json(struct keeper *k, struct json *j);

#endif
