/* SPDX-License-Identifier: Apache-2.0 */
/* The event loop of the guard of a run without a network. See guard_wait.h. */
#include "run/guard_wait.h"

#include "approval/server/askserve.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>

#define IDLE (500 * NSEC_PER_MSEC)

struct guard_loop {
	struct run *r;
	struct loop loop;
	struct watch w_launcher, w_sandbox;
	struct timer t_idle;
	struct askserve serve;
	uint64_t stored; /* the highest number of an ask that is in the file for certain */
	int dir;
	struct net_calls calls;
};

static int log_ask_event(void *ctx, const char *type, const struct buf *fields, uint64_t *ret_seq)
{
	struct guard_loop *w = ctx;

	return audit_append_seq(w->r->audit, type, w->r->spec->id, fields, ret_seq, NULL);
}

/* The launcher kills the guard without warning: a number that a client has seen must be in the file by then. */
static void store_ask_number(void *ctx, const struct ask *a)
{
	struct guard_loop *w = ctx;
	struct ask_view v;

	ask_view(w->serve.asks, a, &v);
	if (v.number <= w->stored)
		return;
	w->stored = v.number;
	askserve_store(&w->serve);
}

/* Opens the ask server, for a run that lasts: most end before anybody could ask. A sandbox of the warm pool that waits for its
 * command has nothing to ask, and is not looked at again. */
static void serve_asks(struct guard_loop *w)
{
	const struct askserve_owner o = {
		.event = log_ask_event, .changed = store_ask_number, .ctx = w, .st = w->r->st
	};
	struct err e = ERR_INIT;

	w->dir = openat(w->r->st->runs_fd, w->r->spec->id, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (w->dir < 0 || !state_run_has_begun(w->dir))
		return;
	if (askserve_open(&w->serve, &w->loop, w->dir, w->r->spec->id, 0, &o, &e) == 0)
		askserve_listen_soon(&w->serve);
}

static void on_run_lasts(struct timer *t)
{
	struct guard_loop *w = t->ctx;

	serve_asks(w);
	w->calls.idle(w->calls.ctx);
}

static void on_launcher_gone(struct watch *x, uint32_t events)
{
	(void)events;
	loop_stop(&((struct guard_loop *)x->ctx)->loop);
}

static void on_sandbox_dead(struct watch *x, uint32_t events)
{
	struct guard_loop *w = x->ctx;

	(void)events;
	loop_unwatch(&w->loop, x);
	/* Askers get their answer now: the launcher's cleanup may take a while. */
	askserve_close(&w->serve);
	w->calls.dead(w->calls.ctx);
}

int guard_wait(struct run *r, int launcher, const struct net_calls *calls)
{
	static struct guard_loop w;
	struct err e = ERR_INIT;
	int ret;

	w = (struct guard_loop){
		.r = r, .loop = LOOP_INIT, .serve = ASKSERVE_INIT, .dir = -1, .calls = *calls
	};
	w.w_launcher = (struct watch){ .fd = launcher, .fn = on_launcher_gone, .ctx = &w };
	w.w_sandbox = (struct watch){ .fd = r->er.pidfd, .fn = on_sandbox_dead, .ctx = &w };
	w.t_idle = (struct timer){ .fn = on_run_lasts, .ctx = &w };
	ret = loop_open(&w.loop, &e);
	if (ret == 0)
		ret = loop_watch(&w.loop, &w.w_launcher, EPOLLIN);
	if (ret == 0)
		ret = loop_watch(&w.loop, &w.w_sandbox, EPOLLIN);
	if (ret == 0) {
		loop_timer(&w.loop, &w.t_idle, clock_nsec(CLOCK_MONOTONIC) + IDLE);
		ret = loop_run(&w.loop, &e);
	}
	askserve_close(&w.serve);
	loop_close(&w.loop);
	fd_close(w.dir);
	return ret;
}
