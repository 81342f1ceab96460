/* SPDX-License-Identifier: Apache-2.0 */
#include "approval/server/askhold.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/jsonget.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LOOK_EVERY (500 * NSEC_PER_MSEC) /* whether the run lives */
#define GUARD_WAIT_MS 20000		 /* for a guard that is only starting */
#define PLAIN_WAIT_MS 3000		 /* for one of a run without a network, which may serve nothing */
#define GUARD_STEP_MS 50
#define OWN_WAITER 1

struct hold {
	struct askhold *h;
	const struct ask_question *q;
	struct loop loop;
	struct askserve serve;
	struct askc client;
	struct watch w_client, w_alive;
	struct timer t_look;
	uint64_t deadline; /* CLOCK_MONOTONIC ns */
	bool was_alive;	   /* when it was asked */
	bool is_done, allowed, is_withdrawn, guard_came, run_ended;
	int error; /* of the client's side */
	struct buf *why;
	struct err *e;
};

/* Does the run live, and does its guard serve questions? Who holds one that has ended only works on what is left of it. */
static int look_at_run(const struct askhold *h, bool *ret_alive, bool *ret_guard, struct err *e)
{
	struct run_meta m = { 0 };
	autoclose int fd = -1;
	bool held = false;
	int r;

	*ret_alive = *ret_guard = false;
	if (h->claimed)
		return 0;
	fd = state_run_open(h->st, h->run, &held, e);
	if (fd < 0)
		return fd;
	if (!held)
		return 0;
	r = run_meta_read(fd, &m, e);
	*ret_alive = r == 0 && !m.ended;
	*ret_guard = *ret_alive && m.net && !str_eq(m.net, "none");
	run_meta_release(&m);
	return r;
}

static void finish(struct hold *x, bool allowed, const char *why)
{
	x->is_done = true;
	x->allowed = allowed;
	if (!allowed)
		str_add_safe(x->why, why, strlen(why), false);
	loop_stop(&x->loop);
}

static void on_signal(void *ctx, const struct signalfd_siginfo *si)
{
	struct hold *x = ctx;

	x->is_withdrawn = true;
	err_set(x->e, -EINTR, "the question was withdrawn by %s, and nothing was allowed",
		strsignal((int)si->ssi_signo));
	loop_stop(&x->loop);
}

static void on_alive(struct watch *w, uint32_t events)
{
	struct hold *x = w->ctx;

	(void)events;
	loop_unwatch(&x->loop, w);
	x->is_withdrawn = true;
	err_set(x->e, -EINTR, "the question was withdrawn, and nothing was allowed");
	loop_stop(&x->loop);
}

static void set_id(struct hold *x, const char *id)
{
	bool is_new = id[0] && !str_eq(x->h->id, id);

	snprintf(x->h->id, sizeof(x->h->id), "%s", id);
	if (is_new && x->h->waits)
		x->h->waits(x->h->ctx, x->h->id);
}

/* What is left of the time, in seconds; 0: none. */
static uint64_t left(const struct hold *x)
{
	uint64_t now = clock_nsec(CLOCK_MONOTONIC);

	return now >= x->deadline ? 0 : (x->deadline - now + NSEC_PER_SEC - 1) / NSEC_PER_SEC;
}

/* ---- Where somebody serves. ---- */

static void on_client(struct watch *w, uint32_t events)
{
	struct hold *x = w->ctx;
	int r;

	(void)events;
	r = askc_wait(&x->client, x->why, x->e);
	if (r >= 0) {
		x->is_done = true;
		x->allowed = r == 1;
	} else {
		x->error = r;
	}
	loop_stop(&x->loop);
}

static int ask_there(struct hold *x)
{
	json_t *ask = NULL;
	const char *id, *state;
	int r = askc_submit(&x->client, x->q, left(x), &ask, x->e);

	/* A full list, a tired one: that is an answer. */
	if (r == -EBUSY) {
		x->is_done = true;
		buf_adds(x->why, x->e->msg);
		*x->e = ERR_INIT;
		return 0;
	}
	if (r < 0)
		return r;
	id = jsonget_text_or_null(ask, "id");
	state = jsonget_text_or_null(ask, "state");
	if (id && strlen(id) < ASK_ID_MAX && state && str_eq(state, "pending"))
		set_id(x, id);
	else if (id && strlen(id) < ASK_ID_MAX)
		snprintf(x->h->id, sizeof(x->h->id), "%s", id);
	json_decref(ask);
	x->w_client = (struct watch){ .fd = x->client.fd, .fn = on_client, .ctx = x };
	r = loop_watch(&x->loop, &x->w_client, EPOLLIN);
	if (r < 0)
		return err_set(x->e, r, "cannot wait for the answer");
	/* The verdict may have come with the ask. */
	if (x->client.conn.in.len > x->client.conn.in_off)
		on_client(&x->w_client, EPOLLIN);
	else
		r = loop_run(&x->loop, x->e);
	loop_unwatch(&x->loop, &x->w_client);
	return r < 0 ? r : x->error;
}

/* ---- Where nobody does. ---- */

static int on_event(void *ctx, const char *type, const struct buf *fields, uint64_t *ret_seq)
{
	struct hold *x = ctx;

	return audit_append_seq(x->h->audit, type, x->h->run, fields, ret_seq, NULL);
}

static void on_tell(void *ctx, uint64_t waiter, bool allow, const char *id, const char *why)
{
	struct hold *x = ctx;

	/* By which it was allowed: one that was granted before never waits. */
	if (allow && !x->h->id[0])
		snprintf(x->h->id, sizeof(x->h->id), "%s", id);
	if (allow)
		asks_taken(x->serve.asks, waiter);
	finish(x, allow, why);
}

static void on_changed(void *ctx, const struct ask *a)
{
	struct hold *x = ctx;
	struct ask_view v;

	ask_view(x->serve.asks, a, &v);
	/* Those of others that ask here meanwhile are theirs to speak of. */
	if (v.state == ASK_PENDING && !x->h->id[0])
		set_id(x, v.id);
}

static int on_widened(void *ctx, struct err *e)
{
	struct hold *x = ctx;

	return x->h->widened(x->h->ctx, x->serve.asks, e);
}

static int on_check_widen(void *ctx, const char *rule, struct buf *canon, struct err *e)
{
	struct hold *x = ctx;

	return x->h->check_widen(x->h->ctx, rule, canon, e);
}

static void on_look(struct timer *t)
{
	struct hold *x = t->ctx;
	struct err e = ERR_INIT;
	bool alive, guard;
	int r = look_at_run(x->h, &alive, &guard, &e);

	loop_timer(&x->loop, t, clock_nsec(CLOCK_MONOTONIC) + LOOK_EVERY);
	if (r == 0 && guard)
		x->guard_came = true;
	else if (x->was_alive && !alive)
		x->run_ended = true;
	else
		return;
	loop_stop(&x->loop);
}

static const char *why_leave(const struct hold *x)
{
	return x->is_withdrawn ? "who asked has withdrawn it"
	       : x->run_ended  ? "the sandbox has ended"
	       : x->guard_came ? "it is asked again, at the sandbox's guard"
			       : "whoever served the questions of this sandbox has its answer";
}

static int serve_it(struct hold *x)
{
	const struct askserve_owner o = {
		.event = on_event,
		.tell = on_tell,
		.changed = on_changed,
		.widened = x->h->widened ? on_widened : NULL,
		.ctx = x,
		.check_widen = x->h->check_widen ? on_check_widen : NULL,
		.st = x->h->st,
		.keeps_rules = x->h->widened != NULL,
	};
	int r = askserve_open(&x->serve, &x->loop, x->h->run_fd, x->h->run, left(x), &o, x->e);

	if (r == 0)
		r = askserve_listen(&x->serve, x->e);
	if (r < 0) {
		askserve_leave(&x->serve, "");
		return r;
	}
	x->h->id[0] = '\0';
	x->t_look = (struct timer){ .fn = on_look, .ctx = x };
	loop_timer(&x->loop, &x->t_look, clock_nsec(CLOCK_MONOTONIC) + LOOK_EVERY);
	askserve_put(&x->serve, x->q, OWN_WAITER, NULL);
	/* Who is killed now must not leave its number to the next. */
	askserve_store(&x->serve);
	if (!x->is_done)
		r = loop_run(&x->loop, x->e);
	loop_timer_off(&x->loop, &x->t_look);
	/* Else it would be told now that it was denied. */
	if (!x->is_done)
		askserve_drop(&x->serve, OWN_WAITER);
	askserve_leave(&x->serve, why_leave(x));
	if (x->run_ended && !x->is_done)
		finish(x, false, "the sandbox has ended");
	return r;
}

/* ---- Both. ---- */

static bool is_still_alive(const struct askhold *h)
{
	struct err e = ERR_INIT;
	bool alive, guard;

	return look_at_run(h, &alive, &guard, &e) == 0 && alive;
}

static void on_pass(struct timer *t)
{
	loop_stop(t->ctx);
}

/* Lets so much time pass, but for a signal. */
static int pass(struct hold *x, unsigned ms)
{
	struct timer t = { .fn = on_pass, .ctx = &x->loop };
	int r;

	loop_timer(&x->loop, &t, clock_nsec(CLOCK_MONOTONIC) + ms * NSEC_PER_MSEC);
	r = loop_run(&x->loop, x->e);
	loop_timer_off(&x->loop, &t);
	return r;
}

static bool is_nobody(int r)
{
	return r == -ENOENT || r == -ECONNREFUSED;
}

/* -EAGAIN: whoever was there has gone, or came; from the beginning. */
static int ask_once(struct hold *x)
{
	bool guard;
	int r = look_at_run(x->h, &x->was_alive, &guard, x->e), limit;

	if (r < 0)
		return r;
	limit = guard ? GUARD_WAIT_MS : x->was_alive ? PLAIN_WAIT_MS : 0;
	r = askc_open(&x->client, x->h->run_fd, x->e);
	for (int ms = 0; is_nobody(r) && ms < limit; ms += GUARD_STEP_MS) {
		if (pass(x, GUARD_STEP_MS) < 0 || x->is_withdrawn)
			return -EINTR;
		r = askc_open(&x->client, x->h->run_fd, x->e);
	}
	if (r < 0 && !is_nobody(r))
		return r;
	/* H2 */
	if (r < 0 && guard)
		return err_wrap(x->e, r, "cannot ask about %s", x->h->run);
	*x->e = ERR_INIT;
	if (r < 0) {
		r = serve_it(x);
		return r == -EADDRINUSE || (r == 0 && x->guard_came && !x->is_done) ? -EAGAIN : r;
	}
	r = ask_there(x);
	askc_close(&x->client);
	if (r != -EPIPE)
		return r;
	/* H4: but for one that only served in the guard's place, and is told apart by the run that lives on. */
	if (!x->was_alive || is_still_alive(x->h))
		return -EAGAIN;
	finish(x, false, "the sandbox has ended");
	return 0;
}

static int ask_until(struct hold *x)
{
	int r = -EAGAIN;

	while (r == -EAGAIN) {
		*x->e = ERR_INIT;
		x->error = 0;
		x->guard_came = false;
		x->loop.stopped = false;
		if (!left(x)) {
			finish(x, false, "nobody answered in time");
			return 0;
		}
		r = ask_once(x);
		if (x->is_withdrawn)
			return -EINTR;
	}
	return r;
}

int askhold(struct askhold *h, const struct ask_question *q, struct buf *ret_why, struct err *e)
{
	struct err own = ERR_INIT;
	struct hold x = { .h = h,
			  .q = q,
			  .loop = LOOP_INIT,
			  .serve = ASKSERVE_INIT,
			  .client = ASKC_INIT,
			  .w_alive = WATCH_INIT,
			  .why = ret_why,
			  .e = e ? e : &own };
	char why[ASK_WHY_MAX];
	sigset_t set;
	int r;

	h->id[0] = '\0';
	if (ask_question_check(q, why) < 0) {
		buf_adds(ret_why, why);
		return 0;
	}
	x.deadline = clock_nsec(CLOCK_MONOTONIC) +
		     (h->timeout_s ? h->timeout_s : ASKS_TIMEOUT_DEFAULT) * NSEC_PER_SEC;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	r = loop_open(&x.loop, x.e);
	if (r == 0)
		r = loop_signals(&x.loop, &set, on_signal, &x, x.e);
	if (r == 0 && h->alive) {
		x.w_alive = (struct watch){ .fd = *h->alive, .fn = on_alive, .ctx = &x };
		r = loop_watch(&x.loop, &x.w_alive, EPOLLIN);
	}
	if (r == 0)
		r = ask_until(&x);
	if (h->alive)
		loop_unwatch(&x.loop, &x.w_alive);
	askc_close(&x.client);
	loop_close(&x.loop);
	return r < 0 ? r : x.is_done && x.allowed; /* H1 */
}
