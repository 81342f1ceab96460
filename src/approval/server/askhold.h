/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks a person about something of a run, and waits for the answer: for `coffer apply`, tool calls, questions. Where the
 * run's guard serves its questions it is asked there; where nobody does (the run has ended, or is not begun) the caller
 * serves them itself until it knows, on the same socket, so that whoever answers sees no difference.
 *
 * Invariants
 *  H1  1 is returned only when a person's "allow" reached the waiter of this very call (A1 of asks.h). All else, a signal
 *      and every error included, is not allowed.
 *  H2  Whose run is alive and has a network is asked at its guard or not at all: the guard has the grants and the denials. One
 *      without a network is asked there too, but for a call's, which has no guard that serves.
 *  H3  Who serves in the guard's place leaves when the guard lives, and asks there; who was its client serves, or asks the
 *      next one, when it has gone. The time limit goes on over all that.
 *  H4  A question does not outlive its sandbox: one that was asked of a live run is denied when that run ends.
 *  H5  SIGINT, SIGTERM and SIGHUP, and the end of `alive`, withdraw the question: the socket is gone and the log says so before this returns.
 */
#ifndef APPROVAL_ASKHOLD_H
#define APPROVAL_ASKHOLD_H

#include "approval/server/askserve.h"
#include "audit/audit.h"
#include "sandbox/state/state.h"

struct askhold {
	struct state *st;
	int run_fd; /* the run's directory */
	const char *run;
	bool claimed; /* the caller holds the run (state_run_claim): it has ended, and stays so */
	struct audit *audit;
	uint64_t timeout_s; /* 0: ASKS_TIMEOUT_DEFAULT */
	const int *
		alive; /* end of file, or a byte, there: nobody wants to know any more, as with a signal; may be NULL */
	/* Told once for each entry that waits; may be NULL. */
	void (*waits)(void *ctx, const char *id);
	void *ctx;
	/* For ASK_WIDEN where nobody serves: as struct askserve_owner has them, with `ctx`. NULL: no rule can be asked for then. */
	int (*widened)(void *ctx, const struct asks *l, struct err *e);
	int (*check_widen)(void *ctx, const char *rule, struct buf *canon, struct err *e);
	char id[ASK_ID_MAX]; /* out: the entry, "" when there was none */
};

/* 1: allowed, once. 0: not, and *ret_why says why in words that are safe to show. -EINTR: withdrawn by a signal, which
 * is in e's message too. Other errors: it could not be asked. */
int askhold(struct askhold *h, const struct ask_question *q, struct buf *ret_why, struct err *e) MUST_CHECK;

#endif
