/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ask server of a run: serves its list of approvals (asks.h) on its socket (askproto.h), on the event
 * loop of the owning process. That is the run's guard, or, where no guard serves, the asker itself
 * (askhold.h) or the process that revokes a grant (askback.h).
 *
 * Invariants (cited elsewhere as askserve.V1 …)
 * V1  Only the owner of the state directory and root are served; connections of others are closed without a
 *     response.
 * V2  An acknowledged answer is in the log and in force: a granted rule is in the policy (widened()) before
 *     ASKP_DONE.
 * V3  A client that does not read is disconnected when ASKSERVE_OWED_MAX bytes are queued for it; nothing
 *     blocks on it.
 * V4  The file follows the list: at once after an answer, within STORE_AFTER after a new ask or an end,
 *     within STORE_LATER after a change of only how often an ask was asked.
 * V5  A run has one ask server at a time: a starting server holds asks.lock while it checks for another, and
 *     reads the file again under the lock.
 * V6  No id is given twice, whatever happens to the files, and even if two processes keep a list for a while
 *     (asknumber.c).
 * V7  The ask server has the grants of the run's session (granted.h) from its start and leaves them to the
 *     next server.
 * V8  Each new pending ask is announced to people, if the operator wants that (asknotify.h), whichever
 *     process serves.
 */
#ifndef APPROVAL_ASKSERVE_H
#define APPROVAL_ASKSERVE_H

#include "approval/list/askcount.h"
#include "approval/server/asknotify.h"
#include "approval/wire/askproto.h"
#include "base/clock.h"
#include "ipc/loop.h"

#define ASKSERVE_OWED_MAX (8u << 20)
#define ASKSERVE_WAITER \
	(1ULL << 63) /* set in the ids of waiters that are clients of the socket; other ids are the owner's */

struct askserve_client;

struct askserve_owner {
	/* As in struct asks_out. */
	int (*event)(void *ctx, const char *type, const struct buf *fields, uint64_t *ret_seq);
	void (*tell)(void *ctx, uint64_t waiter, bool allow, const char *id,
		     const char *why); /* may be NULL */
	/* An ask is new or has changed; for a prompt. May be NULL. */
	void (*changed)(void *ctx, const struct ask *a);
	/* The granted rules (ASK_WIDEN) have changed: exactly the rules that the list has as granted are in
	 * force when this returns 0. Negative: the rule was not granted. NULL: rules cannot be asked for. */
	int (*widened)(void *ctx, struct err *e);
	/* Called before and after an "always" answer is taken. The approver may have edited the policy file
	 * for it; waiters must be decided by the new policy, so that none is let through by the answer and
	 * then cut off by the policy change. May be NULL. */
	void (*always)(void *ctx, bool before);
	void *ctx;
	/* May this rule be asked for? *canon gets its canonical spelling, which people see. Negative, with
	 * the reason: it is denied without asking. Required with widened(). */
	int (*check_widen)(void *ctx, const char *rule, struct buf *canon, struct err *e);
	/* For notifications (V8); borrowed. NULL: none are sent. */
	const struct state *st;
	/* Granted rules belong to the session, if there is one, as grants of tools always do. */
	bool keeps_rules;
};

struct askserve {
	struct asks *asks;
	struct loop *loop;
	int dir; /* the run's directory; borrowed */
	struct askserve_owner owner;
	struct watch w_listen;
	struct timer t_tick, t_store, t_again, t_listen;
	struct askserve_client *clients;
	unsigned n_clients;
	uint64_t serial;
	bool widen_changed;
	bool had_list; /* there was a list before: numbers have been used */
	bool keeps;    /* the run has a live session whose grants are kept */
	struct askcount count;
	struct asknotify notify;
	uint64_t told;	 /* number of the newest ask that was announced */
	uint64_t newest; /* number of the newest ask that the file has, or soon will */
};

#define ASKSERVE_INIT ((struct askserve){ .dir = -1, .w_listen = WATCH_INIT, .notify = ASKNOTIFY_INIT })

/* Makes the list and reads the history from the file, so that ids continue. Does not listen yet. */
int askserve_open(struct askserve *s, struct loop *l, int dir, const char run_id[RUN_ID_LEN + 1],
		  uint64_t timeout_s, const struct askserve_owner *o, struct err *e) MUST_CHECK;
/* Listens and accepts clients from now on. -EADDRINUSE: the run has another ask server. */
int askserve_listen(struct askserve *s, struct err *e) MUST_CHECK;
/* The same for the guard, which has precedence: an asker that serves in its place exits when it sees the
 * guard alive (askhold.h); until then the guard retries. */
void askserve_listen_soon(struct askserve *s);
/* Denies all pending asks, disconnects clients, writes the file and removes the socket. */
void askserve_close(struct askserve *s);
/* The same for a server that is not the guard. The sandbox has not ended, so waiting clients are not told
 * that it has: they see the connection close and may ask the next server. `why` is for the log. */
void askserve_leave(struct askserve *s, const char *why);

/* For waiters of the owner. ret_id (may be NULL) gets the id of the ask, "" if there is none. */
void askserve_put(struct askserve *s, const struct ask_question *q, uint64_t waiter, char ret_id[ASK_ID_MAX]);
void askserve_drop(struct askserve *s, uint64_t waiter);
void askserve_unused(struct askserve *s, uint64_t waiter);
/* Writes the file now (V4). */
void askserve_store(struct askserve *s);
void askserve_new_policy(struct askserve *s, uint32_t generation);
/* Takes an answer that did not come over the socket. Errors are those of asks_answer(). */
int askserve_answer(struct askserve *s, const char *id, const char *digest, const struct ask_answer *a,
		    struct err *e) MUST_CHECK;

struct asks_now asks_clock(void);
/* The time to check deadlines next (CLOCK_MONOTONIC) for a deadline at `next` (CLOCK_BOOTTIME). The former
 * stops while the host is suspended and the latter does not, so deadlines are checked every ASKSERVE_LOOK at
 * least. */
#define ASKSERVE_LOOK (30 * NSEC_PER_SEC)
uint64_t askserve_tick_at(uint64_t next, uint64_t boot, uint64_t mono);

/*
 * runs/ID/asks.next: no number up to the one in it may be used again. It is written before a number is used,
 * so that a killed server reuses none. If it cannot be read, or is missing although there was a list, numbers
 * continue at the microseconds since 1970, which cannot have been used. Call it after the list was read;
 * `had_list`: there was a list, or a file that cannot be read.
 */
#define ASKNUMBER_FILE "asks.next"
/* Takes asks.lock (V5) until the returned descriptor is closed; negative if it cannot be taken. */
int askserve_lock(const struct askserve *s) MUST_CHECK;
void asknumber_open(struct askserve *s, bool had_list);
void asknumber_close(struct askserve *s);

/* Handles one frame of a client; also the fuzzer's entry. Responses are added to *out. */
void askserve_frame(struct askserve *s, struct askserve_client *c, const struct frame *f, struct buf *out);

#endif
