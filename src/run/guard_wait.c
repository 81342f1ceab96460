/* SPDX-License-Identifier: Apache-2.0 */
#include "run/guard_wait.h"

#include "approval/server/askserve.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>

#define IDLE (500 * NSEC_PER_MSEC)

struct waiting {
	struct run *r;
	struct loop loop;
	struct watch w_launcher, w_sandbox;
	struct timer t_idle;
	struct askserve serve;
	uint64_t stored; /* the last number that the file has for certain */
	int dir;
	struct net_calls calls;
};

static int on_event(void *ctx, const char *type, const struct buf *fields, uint64_t *ret_seq)
{
	struct waiting *w = ctx;

	return audit_append_seq(w->r->audit, type, w->r->spec->id, fields, ret_seq, NULL);
}

/* Our launcher ends us without a word: a number that was told must be in the file by then. */
static void on_changed(void *ctx, const struct ask *a)
{
	struct waiting *w = ctx;
	struct ask_view v;

	ask_view(w->serve.asks, a, &v);
	if (v.number <= w->stored)
		return;
	w->stored = v.number;
	askserve_store(&w->serve);
}

/* Only of a run that lasts: most end before anybody could ask. One that stands ready for a command has nothing to ask. */
static void serve_asks(struct waiting *w)
{
	const struct askserve_owner o = {
		.event = on_event, .changed = on_changed, .ctx = w, .st = w->r->st
	};
	struct err e = ERR_INIT;

	w->dir = openat(w->r->st->runs_fd, w->r->spec->id, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (w->dir < 0 || !state_run_has_begun(w->dir))
		return;
	if (askserve_open(&w->serve, &w->loop, w->dir, w->r->spec->id, 0, &o, &e) == 0)
		askserve_listen_soon(&w->serve);
}

static void on_idle(struct timer *t)
{
	struct waiting *w = t->ctx;

	serve_asks(w);
	w->calls.idle(w->calls.ctx);
}

static void on_launcher(struct watch *x, uint32_t events)
{
	(void)events;
	loop_stop(&((struct waiting *)x->ctx)->loop);
}

static void on_sandbox(struct watch *x, uint32_t events)
{
	struct waiting *w = x->ctx;

	(void)events;
	loop_unwatch(&w->loop, x);
	/* Whoever waits is told now: what is left to do may take the launcher a while. */
	askserve_close(&w->serve);
	w->calls.dead(w->calls.ctx);
}

int guard_wait(struct run *r, int launcher, const struct net_calls *calls)
{
	static struct waiting w;
	struct err e = ERR_INIT;
	int ret;

	w = (struct waiting){ .r = r, .loop = LOOP_INIT, .serve = ASKSERVE_INIT, .dir = -1, .calls = *calls };
	w.w_launcher = (struct watch){ .fd = launcher, .fn = on_launcher, .ctx = &w };
	w.w_sandbox = (struct watch){ .fd = r->er.pidfd, .fn = on_sandbox, .ctx = &w };
	w.t_idle = (struct timer){ .fn = on_idle, .ctx = &w };
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
