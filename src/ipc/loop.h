/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An event loop over epoll: descriptors, timers, signals. One thread; callbacks run to their end.
 *
 * Watches and timers live in their owners' structs and cost nothing while they are not armed. A callback may disarm
 * or free any watch, also one whose event is still to be delivered in the same round. Descriptors that epoll
 * refuses (regular files, /dev/null) count as always ready.
 */
#ifndef IPC_LOOP_H
#define IPC_LOOP_H

#include "base/err.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>

struct watch {
	int fd;
	void (*fn)(struct watch *w, uint32_t events); /* EPOLLIN, EPOLLOUT, EPOLLHUP, EPOLLERR */
	void *ctx;
	uint32_t events;    /* armed for; set by loop_watch() only */
	bool always;	    /* epoll does not take it */
	struct watch *next; /* of those */
};

/* For who wants to hear of nothing but hang-ups and errors, which epoll tells whoever is armed at all: an event that no
 * descriptor has. Not EPOLLPRI, which a peer can raise (MSG_OOB) and nobody here would take away. */
#define LOOP_HANG_UP ((uint32_t)EPOLLMSG)

#define WATCH_INIT ((struct watch){ .fd = -1 })

struct timer {
	void (*fn)(struct timer *t);
	void *ctx;
	uint64_t at; /* CLOCK_MONOTONIC ns */
	bool armed;
	struct timer *next;
};

#define LOOP_BATCH 64

struct loop {
	int ep;
	struct watch *always;
	struct timer *timers; /* by time */
	struct epoll_event batch[LOOP_BATCH];
	int n_batch, i_batch;
	bool stopped;
	uint64_t *clock; /* unless NULL, set to CLOCK_MONOTONIC when a round begins, before its callbacks */

	struct watch sig;
	sigset_t old_mask;
	bool has_signals;
	void (*on_signal)(void *ctx, const struct signalfd_siginfo *si);
	void *signal_ctx;
};

#define LOOP_INIT ((struct loop){ .ep = -1, .sig = { .fd = -1 } })

int loop_open(struct loop *l, struct err *e) MUST_CHECK;
/* Takes the signals of `set` by callback from now on; loop_close() puts the mask back. */
int loop_signals(struct loop *l, const sigset_t *set,
		 void (*fn)(void *ctx, const struct signalfd_siginfo *si), void *ctx,
		 struct err *e) MUST_CHECK;
void loop_close(struct loop *l);

/* Arms for these events, 0 disarms. w->fd, fn and ctx are set by the owner and fixed while it is armed. */
int loop_watch(struct loop *l, struct watch *w, uint32_t events) MUST_CHECK;

/* For what cannot fail: disarming. */
void loop_unwatch(struct loop *l, struct watch *w);

/* The same for a descriptor that is closed right afterwards, and has no copy: closing it takes it out of epoll. One that
 * came over a socket has a copy for as long as whoever sent it likes, and a copy keeps its watch in epoll. */
void loop_forget(struct loop *l, struct watch *w);

void loop_timer(struct loop *l, struct timer *t, uint64_t at); /* arms, or moves */
void loop_timer_off(struct loop *l, struct timer *t);

/* Waits for one round of events and delivers it; returns at once when something is always ready. */
int loop_round(struct loop *l, struct err *e) MUST_CHECK;

/* Rounds until loop_stop(). */
int loop_run(struct loop *l, struct err *e) MUST_CHECK;
void loop_stop(struct loop *l);

#endif
