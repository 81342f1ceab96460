/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An event loop over epoll: descriptors, timers, signals. Single-threaded; each callback runs to its end.
 *
 * Watches and timers are members of their owners' structs and cost nothing while they are not armed. A callback may disarm
 * or free any watch, even one whose event is still to be delivered in the same round. Descriptors that epoll
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
	uint32_t events;    /* armed for these; set by loop_watch() only */
	bool always;	    /* epoll refuses this kind of file */
	struct watch *next; /* in the list of such watches */
};

/* For a watch that wants hang-ups and errors only, which epoll reports for every armed descriptor: an event
 * that never occurs. Not EPOLLPRI: a peer can raise that (MSG_OOB), and no callback here would clear it. */
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
	struct timer *timers; /* sorted by time */
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
/* Delivers the signals of `set` by callback from now on; loop_close() restores the mask. */
int loop_signals(struct loop *l, const sigset_t *set,
		 void (*fn)(void *ctx, const struct signalfd_siginfo *si), void *ctx,
		 struct err *e) MUST_CHECK;
void loop_close(struct loop *l);

/* Arms for these events; 0 disarms. The owner sets w->fd, fn and ctx and does not change them while the watch
 * is armed. */
int loop_watch(struct loop *l, struct watch *w, uint32_t events) MUST_CHECK;

/* Disarms; cannot fail. */
void loop_unwatch(struct loop *l, struct watch *w);

/* Disarms a watch whose descriptor is closed right afterwards and has no copy: closing it removes it from
 * epoll. A descriptor that came over a socket may have a copy in the sender, and a copy keeps its watch in
 * epoll. */
void loop_forget(struct loop *l, struct watch *w);

void loop_timer(struct loop *l, struct timer *t, uint64_t at); /* arms, or moves an armed one */
void loop_timer_off(struct loop *l, struct timer *t);

/* Waits for one round of events and delivers them; does not wait while a descriptor is always ready. */
int loop_round(struct loop *l, struct err *e) MUST_CHECK;

/* Runs rounds until loop_stop(). */
int loop_run(struct loop *l, struct err *e) MUST_CHECK;
void loop_stop(struct loop *l);

#endif
