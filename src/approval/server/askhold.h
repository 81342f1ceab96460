/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks a person about an act on a run and blocks until the answer: for `coffer apply`, tool calls and `coffer
 * ask new`. If the run has an ask server, the question is submitted there. If it has none (the run has ended,
 * or has not begun), the caller becomes the ask server until it has its answer, on the same socket, so that
 * approvers see no difference.
 *
 * Invariants (cited elsewhere as askhold.H1 …)
 * H1  1 is returned only if a person's "allow" reached the waiter of this very call (asks.A1). Everything
 *     else, a signal and every error included, is a denial.
 * H2  For a live run with a network only its guard is asked, because the guard has the grants and denials.
 *     For a live run without a network the guard is asked too, if it serves. It does not serve before half a
 *     second has passed, nor for a sandbox of the warm pool that still waited for its command then
 *     (guard_wait.h): the asker serves in its place.
 * H3  An asker that serves in the guard's place stops when it sees the guard alive, and asks there. An asker
 *     whose server exits becomes the server itself, or asks the next one. One deadline covers all of that.
 * H4  A question does not outlive its sandbox: a question about a live run is denied when that run ends.
 * H5  SIGINT, SIGTERM, SIGHUP and the end of `alive` withdraw the question: before this returns, the socket
 *     is removed and the log has the withdrawal.
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
	bool claimed; /* the caller holds the run's lock (state_run_claim), so the run cannot start */
	struct audit *audit;
	uint64_t timeout_s; /* 0: ASKS_TIMEOUT_DEFAULT */
	const int *alive;   /* readable: the asker's client has gone; treated like a signal; may be NULL */
	/* Called once for each ask that becomes pending; may be NULL. */
	void (*waits)(void *ctx, const char *id);
	void *ctx;
	/* For ASK_WIDEN where the caller is the ask server: as in struct askserve_owner, with `ctx`. NULL: no
	 * rule can be asked for. */
	int (*widened)(void *ctx, const struct asks *l, struct err *e);
	int (*check_widen)(void *ctx, const char *rule, struct buf *canon, struct err *e);
	char id[ASK_ID_MAX]; /* out: id of the ask; "" if there was none */
};

/* 1: allowed, once. 0: denied, with the reason in *ret_why, safe to display. -EINTR: withdrawn by a signal,
 * which the message in e names. Other errors: it could not be asked. */
int askhold(struct askhold *h, const struct ask_question *q, struct buf *ret_why, struct err *e) MUST_CHECK;

#endif
