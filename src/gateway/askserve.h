/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serves a run's questions (asks.h) on its socket (askproto.h), on the loop of whoever holds the run: its guard, or
 * `coffer apply` where there is none any more.
 *
 * Invariants
 *  V1  Only the owner of the state directory and root are listened to; others are closed without a word.
 *  V2  What is acknowledged is in the log and in force: a rule that was granted is in the policy (widened()) before ASKP_DONE.
 *  V3  A client that does not read is let go of when it owes ASKSERVE_OWED_MAX bytes; nothing waits for it.
 *  V4  The file is as the list is: at once after an answer, within STORE_AFTER otherwise.
 */
#ifndef GATEWAY_ASKSERVE_H
#define GATEWAY_ASKSERVE_H

#include "gateway/askproto.h"
#include "ipc/loop.h"

#define ASKSERVE_OWED_MAX (8u << 20)
#define ASKSERVE_WAITER \
	(1ULL << 63) /* waiters with this bit are clients of the socket; others are the owner's */

struct askserve_client;

struct askserve_owner {
	/* As in struct asks_out. */
	int (*event)(void *ctx, const char *type, const struct buf *fields);
	void (*tell)(void *ctx, uint64_t waiter, bool allow, const char *id,
		     const char *why); /* may be NULL */
	/* An ask is new, or has changed: for a prompt, for notifications. May be NULL. */
	void (*changed)(void *ctx, const struct ask *a);
	/* What is granted as a rule (ASK_WIDEN) has changed: put it in force. Negative: the answer is taken back. May be NULL,
	 * and then no rule can be asked for. */
	int (*widened)(void *ctx, struct err *e);
	void *ctx;
};

struct askserve {
	struct asks *asks;
	struct loop *loop;
	int dir; /* the run's directory; borrowed */
	struct askserve_owner owner;
	struct watch w_listen;
	struct timer t_tick, t_store, t_again;
	struct askserve_client *clients;
	unsigned n_clients;
	uint64_t serial;
	bool widen_changed;
};

#define ASKSERVE_INIT ((struct askserve){ .dir = -1, .w_listen = WATCH_INIT })

/* Reads what is in the file, so that ids go on. */
int askserve_open(struct askserve *s, struct loop *l, int dir, const char run_id[RUN_ID_LEN + 1],
		  uint64_t timeout_s, const struct askserve_owner *o, struct err *e) MUST_CHECK;
/* Takes clients from now on. -EADDRINUSE: somebody serves this run already. */
int askserve_listen(struct askserve *s, struct err *e) MUST_CHECK;
/* All that is pending is denied, clients are let go of, the file is written, the socket removed. */
void askserve_close(struct askserve *s);

/* The owner's waiters. */
void askserve_put(struct askserve *s, const struct ask_question *q, uint64_t waiter);
void askserve_drop(struct askserve *s, uint64_t waiter);
void askserve_unused(struct askserve *s, uint64_t waiter);
void askserve_new_policy(struct askserve *s, uint32_t generation);
/* An answer that did not come over the socket. Errors as those of asks_answer(). */
int askserve_answer(struct askserve *s, const char *id, const char *digest, const struct ask_answer *a,
		    struct err *e) MUST_CHECK;

struct asks_now asks_clock(void);

/* One frame of a client, as it comes; for the fuzzer too. What is to be answered is added to *out. */
void askserve_frame(struct askserve *s, struct askserve_client *c, const struct frame *f, struct buf *out);

#endif
