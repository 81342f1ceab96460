/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serves a run's questions (asks.h) on its socket (askproto.h), on the loop of whoever holds the run: its guard, or
 * `coffer apply` where there is none any more.
 *
 * Invariants
 *  V1  Only the owner of the state directory and root are listened to; others are closed without a word.
 *  V2  What is acknowledged is in the log and in force: a rule that was granted is in the policy (widened()) before ASKP_DONE.
 *  V3  A client that does not read is let go of when it owes ASKSERVE_OWED_MAX bytes; nothing waits for it.
 *  V4  The file is as the list is: at once after an answer, within STORE_AFTER after a new question or an end, within STORE_LATER but for
 *      that: how often one was asked.
 *  V5  One serves a run at a time: who begins holds asks.lock while it looks whether somebody does, and reads the file once
 *      more then.
 *  V6  No id is given twice, whatever became of the files meanwhile, and if two keep a list for a while (asknumber.c).
 *  V7  Of a session (granted.h) who serves has what was granted to it, from the moment that it begins, and
 *      leaves it to the next.
 *  V8  Each question that comes to wait is told of, where the operator wants that (asknotify.h), whoever
 *      serves.
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
	(1ULL << 63) /* waiters with this bit are clients of the socket; others are the owner's */

struct askserve_client;

struct askserve_owner {
	/* As in struct asks_out. */
	int (*event)(void *ctx, const char *type, const struct buf *fields, uint64_t *ret_seq);
	void (*tell)(void *ctx, uint64_t waiter, bool allow, const char *id,
		     const char *why); /* may be NULL */
	/* An ask is new, or has changed: for a prompt. May be NULL. */
	void (*changed)(void *ctx, const struct ask *a);
	/* What is granted as a rule (ASK_WIDEN) has changed: what stands as granted in the list is in force when this returns, and
	 * nothing else. Negative: it was not granted. May be NULL, and then no rule can be asked for. */
	int (*widened)(void *ctx, struct err *e);
	/* An answer for good is about to be taken, and then was (or was not): the policy may have been edited for it, and waiters
	 * are to be decided by that, so that none is let through by an answer and then cut off by the change. May be NULL. */
	void (*always)(void *ctx, bool before);
	void *ctx;
	/* May this rule be asked for at all? *canon gets its one spelling, which is what people see. Negative, and why: it is denied
	 * without asking. Goes with widened(). */
	int (*check_widen)(void *ctx, const char *rule, struct buf *canon, struct err *e);
	/* For notifications (V8); borrowed. NULL: nobody is told. */
	const struct state *st;
	/* Rules that are granted are the session's, where there is one, as tools always are. */
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
	bool had_list; /* a list was there before: numbers have been used */
	bool keeps;    /* a session's grants, as long as it lives */
	struct askcount count;
	struct asknotify notify;
	uint64_t told;	 /* the newest question that was */
	uint64_t newest; /* question that the file has, or soon will */
};

#define ASKSERVE_INIT ((struct askserve){ .dir = -1, .w_listen = WATCH_INIT, .notify = ASKNOTIFY_INIT })

/* Reads what is in the file, so that ids go on. */
int askserve_open(struct askserve *s, struct loop *l, int dir, const char run_id[RUN_ID_LEN + 1],
		  uint64_t timeout_s, const struct askserve_owner *o, struct err *e) MUST_CHECK;
/* Takes clients from now on. -EADDRINUSE: somebody serves this run already. */
int askserve_listen(struct askserve *s, struct err *e) MUST_CHECK;
/* The same for the guard, whose right it is: who serves there leaves when it sees it live (askhold.h), and it goes on trying. */
void askserve_listen_soon(struct askserve *s);
/* All that is pending is denied, clients are let go of, the file is written, the socket removed. */
void askserve_close(struct askserve *s);
/* The same of one that is not the guard: the sandbox has not ended, and clients that wait are not told so. They see the
 * connection close, and may ask whoever comes next. `why` is for the log. */
void askserve_leave(struct askserve *s, const char *why);

/* The owner's waiters. ret_id (may be NULL) is the entry's, "" where there is none. */
void askserve_put(struct askserve *s, const struct ask_question *q, uint64_t waiter, char ret_id[ASK_ID_MAX]);
void askserve_drop(struct askserve *s, uint64_t waiter);
void askserve_unused(struct askserve *s, uint64_t waiter);
/* The file, now (V4). */
void askserve_store(struct askserve *s);
void askserve_new_policy(struct askserve *s, uint32_t generation);
/* An answer that did not come over the socket. Errors as those of asks_answer(). */
int askserve_answer(struct askserve *s, const char *id, const char *digest, const struct ask_answer *a,
		    struct err *e) MUST_CHECK;

struct asks_now asks_clock(void);
/* When to look next (CLOCK_MONOTONIC) for an end at `next` (CLOCK_BOOTTIME): the one stands still while the host sleeps, the other does
 * not, so it is looked every ASKSERVE_LOOK at least. */
#define ASKSERVE_LOOK (30 * NSEC_PER_SEC)
uint64_t askserve_tick_at(uint64_t next, uint64_t boot, uint64_t mono);

/*
 * runs/ID/asks.next: no number up to the one in it is to be used again. Written before one is, so that also one who is killed uses
 * none twice. Where it cannot be read, or is gone while the list is there, numbers go on where none can have been: at the
 * microseconds since 1970. Called once the list was read; `had_list`: there was one, or something that cannot be read.
 */
#define ASKNUMBER_FILE "asks.next"
/* V5: holds the lock until it is closed; negative where that cannot be. */
int askserve_lock(const struct askserve *s) MUST_CHECK;
void asknumber_open(struct askserve *s, bool had_list);
void asknumber_close(struct askserve *s);

/* One frame of a client, as it comes; for the fuzzer too. What is to be answered is added to *out. */
void askserve_frame(struct askserve *s, struct askserve_client *c, const struct frame *f, struct buf *out);

#endif
