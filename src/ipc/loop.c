/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event loop (loop.h). A callback may free any watch or timer, so no pointer is used after a callback
 * unless it was looked up again.
 */

#include "ipc/loop.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include <errno.h>

int loop_open(struct loop *l, struct err *e)
{
	*l = LOOP_INIT;
	l->ep = epoll_create1(EPOLL_CLOEXEC);
	return l->ep < 0 ? err_sys(e, -errno, "cannot make an event loop") : 0;
}

void loop_close(struct loop *l)
{
	/* Signals that arrive late were meant for the loop, too; drop them, or they would be delivered when
	 * the mask is restored. */
	if (l->sig.fd >= 0) {
		struct signalfd_siginfo si;

		while (read(l->sig.fd, &si, sizeof(si)) == (ssize_t)sizeof(si))
			;
	}
	if (l->has_signals)
		sigprocmask(SIG_SETMASK, &l->old_mask, NULL);
	fd_close(l->sig.fd);
	fd_close(l->ep);
	*l = LOOP_INIT;
}

/* Delivers all pending signals of the signalfd. */
static void read_signals(struct watch *w, uint32_t events)
{
	struct loop *l = w->ctx;
	struct signalfd_siginfo si;

	(void)events;
	while (l->sig.fd >= 0 && read(l->sig.fd, &si, sizeof(si)) == (ssize_t)sizeof(si))
		l->on_signal(l->signal_ctx, &si);
}

int loop_signals(struct loop *l, const sigset_t *set, void (*fn)(void *, const struct signalfd_siginfo *),
		 void *ctx, struct err *e)
{
	int r;

	BUG_ON(l->has_signals);
	if (sigprocmask(SIG_BLOCK, set, &l->old_mask) < 0)
		return err_sys(e, -errno, "cannot take signals");
	l->has_signals = true;
	l->on_signal = fn;
	l->signal_ctx = ctx;
	l->sig = (struct watch){ .fn = read_signals, .ctx = l };
	l->sig.fd = signalfd(-1, set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (l->sig.fd < 0)
		return err_sys(e, -errno, "cannot take signals");
	r = loop_watch(l, &l->sig, EPOLLIN);
	return r < 0 ? err_sys(e, r, "cannot take signals") : 0;
}

static void always_remove(struct loop *l, const struct watch *w)
{
	for (struct watch **p = &l->always; *p; p = &(*p)->next) {
		if (*p == w) {
			*p = w->next;
			return;
		}
	}
}

/* Undelivered events of this round refer to a watch that may be freed before their turn. */
static void drop_pending_events(struct loop *l, const struct watch *w)
{
	for (int i = l->i_batch; i < l->n_batch; i++) {
		if (l->batch[i].data.ptr == w)
			l->batch[i].data.ptr = NULL;
	}
}

/* Puts a descriptor that epoll refuses into the list of those that are always ready. */
static int watch_always(struct loop *l, struct watch *w, uint32_t events)
{
	if (!w->always) {
		w->always = true;
		w->next = l->always;
		l->always = w;
	}
	w->events = events;
	return 0;
}

int loop_watch(struct loop *l, struct watch *w, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.ptr = w };
	int op = !w->events ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;

	if (!events) {
		loop_unwatch(l, w);
		return 0;
	}
	if (events == w->events)
		return 0;
	if (w->always)
		return watch_always(l, w, events);
	if (epoll_ctl(l->ep, op, w->fd, &ev) < 0) {
		/* EPERM: epoll refuses this kind of file. Two descriptors may refer to the same file, but one
		 * descriptor is never added twice. */
		if (errno == EPERM)
			return watch_always(l, w, events);
		return -errno;
	}
	w->events = events;
	return 0;
}

void loop_unwatch(struct loop *l, struct watch *w)
{
	if (!w->events)
		return;
	if (w->always)
		always_remove(l, w);
	else
		epoll_ctl(l->ep, EPOLL_CTL_DEL, w->fd, NULL);
	drop_pending_events(l, w);
	w->events = 0;
	w->always = false;
}

void loop_forget(struct loop *l, struct watch *w)
{
	if (w->always) {
		loop_unwatch(l, w);
		return;
	}
	if (w->events)
		drop_pending_events(l, w);
	w->events = 0;
}

void loop_timer_off(struct loop *l, struct timer *t)
{
	if (!t->armed)
		return;
	for (struct timer **p = &l->timers; *p; p = &(*p)->next) {
		if (*p == t) {
			*p = t->next;
			break;
		}
	}
	t->armed = false;
}

void loop_timer(struct loop *l, struct timer *t, uint64_t at)
{
	struct timer **p = &l->timers;

	loop_timer_off(l, t);
	for (; *p && (*p)->at <= at; p = &(*p)->next)
		BUG_ON(*p == t); /* armed twice: the list would become circular */
	t->at = at;
	t->next = *p;
	t->armed = true;
	*p = t;
}

/* Milliseconds until the next timer, rounded up so that the timer is due when epoll_wait() returns. */
static int next_timeout_ms(const struct loop *l)
{
	uint64_t now, ms;

	if (l->always)
		return 0;
	if (!l->timers)
		return -1;
	now = clock_nsec(CLOCK_MONOTONIC);
	if (l->timers->at <= now)
		return 0;
	ms = (l->timers->at - now + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC;
	return ms > 3600000 ? 3600000 : (int)ms;
}

/* Runs the timers that are due now. A timer that its callback arms again for now waits until the next round,
 * after the events. */
static void run_timers(struct loop *l)
{
	unsigned due = 0;
	uint64_t now;

	if (!l->timers)
		return;
	now = clock_nsec(CLOCK_MONOTONIC);
	for (const struct timer *t = l->timers; t && t->at <= now; t = t->next)
		due++;
	for (; due && l->timers && l->timers->at <= now && !l->stopped; due--) {
		struct timer *t = l->timers;

		loop_timer_off(l, t);
		t->fn(t);
	}
}

/* Calls every watch of that list once. */
static void run_always(struct loop *l)
{
	/* A callback may disarm any of these watches: check after each callback that the next one is still in
	 * the list. */
	struct watch *w = l->always;

	while (w && !l->stopped) {
		struct watch *next = w->next;
		bool still = false;

		w->fn(w, w->events & (EPOLLIN | EPOLLOUT));
		for (struct watch *p = l->always; p; p = p->next)
			still = still || p == next;
		w = still ? next : NULL;
	}
}

int loop_round(struct loop *l, struct err *e)
{
	int n = epoll_wait(l->ep, l->batch, LOOP_BATCH, next_timeout_ms(l));

	if (n < 0)
		return errno == EINTR ? 0 : err_sys(e, -errno, "cannot wait for events");
	l->n_batch = n;
	if (l->clock)
		*l->clock = clock_nsec(CLOCK_MONOTONIC);
	for (l->i_batch = 0; l->i_batch < l->n_batch && !l->stopped;) {
		const struct epoll_event *ev = &l->batch[l->i_batch++];
		struct watch *w = ev->data.ptr;

		if (w)
			w->fn(w, ev->events);
	}
	l->n_batch = l->i_batch = 0;
	run_always(l);
	run_timers(l);
	return 0;
}

int loop_run(struct loop *l, struct err *e)
{
	int r = 0;

	l->stopped = false;
	while (r == 0 && !l->stopped)
		r = loop_round(l, e);
	return r;
}

void loop_stop(struct loop *l)
{
	l->stopped = true;
}
