/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks a person and waits (askhold.h), as a client of the run's ask server or as that server. Returns "allow"
 * only from a person's answer to this very question; it never decides anything itself.
 */
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

#define LOOK_EVERY (500 * NSEC_PER_MSEC) /* interval of checking whether the run lives */
#define GUARD_WAIT_MS 20000		 /* for a guard that is still starting */
#define PLAIN_WAIT_MS 3000 /* for the guard of a run without a network, which may serve no questions */
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
	bool was_alive;	   /* the run was alive when it was asked */
	bool is_done, allowed, is_withdrawn, guard_came, run_ended;
	int error; /* of the client connection */
	struct buf *why;
	struct err *e;
};

/* Is the run alive, and does its guard serve questions (it does if the run has a network)? A caller that
 * holds the lock of an ended run knows that it is not. */
static int check_run_alive(const struct askhold *h, bool *ret_alive, bool *ret_guard, struct err *e)
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
	r = state_meta_read(fd, &m, e);
	*ret_alive = r == 0 && !m.ended;
	*ret_guard = *ret_alive && m.net && !str_eq(m.net, "none");
	state_meta_release(&m);
	return r;
}

static void hold_finish(struct hold *x, bool allowed, const char *why)
{
	x->is_done = true;
	x->allowed = allowed;
	if (!allowed)
		str_add_safe(x->why, why, strlen(why), false);
	loop_stop(&x->loop);
}

static void on_withdraw_signal(void *ctx, const struct signalfd_siginfo *si)
{
	struct hold *x = ctx;

	x->is_withdrawn = true;
	err_set(x->e, -EINTR, "the question was withdrawn by %s, and nothing was allowed",
		strsignal((int)si->ssi_signo));
	loop_stop(&x->loop);
}

static void on_asker_gone(struct watch *w, uint32_t events)
{
	struct hold *x = w->ctx;

	(void)events;
	loop_unwatch(&x->loop, w);
	x->is_withdrawn = true;
	err_set(x->e, -EINTR, "the question was withdrawn, and nothing was allowed");
	loop_stop(&x->loop);
}

static void set_ask_id(struct hold *x, const char *id)
{
	bool is_new = id[0] && !str_eq(x->h->id, id);

	snprintf(x->h->id, sizeof(x->h->id), "%s", id);
	if (is_new && x->h->waits)
		x->h->waits(x->h->ctx, x->h->id);
}

/* Seconds until the deadline, rounded up; 0: it has passed. */
static uint64_t seconds_left(const struct hold *x)
{
	uint64_t now = clock_nsec(CLOCK_MONOTONIC);

	return now >= x->deadline ? 0 : (x->deadline - now + NSEC_PER_SEC - 1) / NSEC_PER_SEC;
}

/* ---- As a client of the ask server. ---- */

static void on_verdict(struct watch *w, uint32_t events)
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

static int submit_and_wait(struct hold *x)
{
	json_t *ask = NULL;
	const char *id, *state;
	int r = askc_submit(&x->client, x->q, seconds_left(x), &ask, x->e);

	/* The list is full, or denies without asking (asks.A7): that is a denial, not an error. */
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
		set_ask_id(x, id);
	else if (id && strlen(id) < ASK_ID_MAX)
		snprintf(x->h->id, sizeof(x->h->id), "%s", id);
	json_decref(ask);
	x->w_client = (struct watch){ .fd = x->client.fd, .fn = on_verdict, .ctx = x };
	r = loop_watch(&x->loop, &x->w_client, EPOLLIN);
	if (r < 0)
		return err_set(x->e, r, "cannot wait for the answer");
	/* The verdict may have arrived together with the ask. */
	if (x->client.conn.in.len > x->client.conn.in_off)
		on_verdict(&x->w_client, EPOLLIN);
	else
		r = loop_run(&x->loop, x->e);
	loop_unwatch(&x->loop, &x->w_client);
	return r < 0 ? r : x->error;
}

/* ---- As the ask server. ---- */

static int on_held_event(void *ctx, const char *type, const struct buf *fields, uint64_t *ret_seq)
{
	struct hold *x = ctx;

	return audit_append_seq(x->h->audit, type, x->h->run, fields, ret_seq, NULL);
}

static void on_own_answer(void *ctx, uint64_t waiter, bool allow, const char *id, const char *why)
{
	struct hold *x = ctx;

	/* The id of the grant that allowed it: such a question never becomes pending. */
	if (allow && !x->h->id[0])
		snprintf(x->h->id, sizeof(x->h->id), "%s", id);
	if (allow)
		asks_taken(x->serve.asks, waiter);
	hold_finish(x, allow, why);
}

static void on_held_changed(void *ctx, const struct ask *a)
{
	struct hold *x = ctx;
	struct ask_view v;

	ask_view(x->serve.asks, a, &v);
	/* Only the first pending ask is ours; clients of this server may submit others. */
	if (v.state == ASK_PENDING && !x->h->id[0])
		set_ask_id(x, v.id);
}

static int on_held_widened(void *ctx, struct err *e)
{
	struct hold *x = ctx;

	return x->h->widened(x->h->ctx, x->serve.asks, e);
}

static int on_check_widen(void *ctx, const char *rule, struct buf *canon, struct err *e)
{
	struct hold *x = ctx;

	return x->h->check_widen(x->h->ctx, rule, canon, e);
}

static void on_check_run(struct timer *t)
{
	struct hold *x = t->ctx;
	struct err e = ERR_INIT;
	bool alive, guard;
	int r = check_run_alive(x->h, &alive, &guard, &e);

	loop_timer(&x->loop, t, clock_nsec(CLOCK_MONOTONIC) + LOOK_EVERY);
	if (r == 0 && guard)
		x->guard_came = true;
	else if (x->was_alive && !alive)
		x->run_ended = true;
	else
		return;
	loop_stop(&x->loop);
}

static const char *leave_reason(const struct hold *x)
{
	return x->is_withdrawn ? "the asker has withdrawn it"
	       : x->run_ended  ? "the sandbox has ended"
	       : x->guard_came ? "it is asked again, at the sandbox's guard"
			       : "the process that served this sandbox's questions has its answer";
}

static int serve_and_wait(struct hold *x)
{
	const struct askserve_owner o = {
		.event = on_held_event,
		.tell = on_own_answer,
		.changed = on_held_changed,
		.widened = x->h->widened ? on_held_widened : NULL,
		.ctx = x,
		.check_widen = x->h->check_widen ? on_check_widen : NULL,
		.st = x->h->st,
		.keeps_rules = x->h->widened != NULL,
	};
	int r = askserve_open(&x->serve, &x->loop, x->h->run_fd, x->h->run, seconds_left(x), &o, x->e);

	if (r == 0)
		r = askserve_listen(&x->serve, x->e);
	if (r < 0) {
		askserve_leave(&x->serve, "");
		return r;
	}
	x->h->id[0] = '\0';
	x->t_look = (struct timer){ .fn = on_check_run, .ctx = x };
	loop_timer(&x->loop, &x->t_look, clock_nsec(CLOCK_MONOTONIC) + LOOK_EVERY);
	askserve_put(&x->serve, x->q, OWN_WAITER, NULL);
	/* If this process is killed now, the next server must not reuse the number. */
	askserve_store(&x->serve);
	if (!x->is_done)
		r = loop_run(&x->loop, x->e);
	loop_timer_off(&x->loop, &x->t_look);
	/* Withdraw our own waiter first: otherwise askserve_leave() would deny it. */
	if (!x->is_done)
		askserve_drop(&x->serve, OWN_WAITER);
	askserve_leave(&x->serve, leave_reason(x));
	if (x->run_ended && !x->is_done)
		hold_finish(x, false, "the sandbox has ended");
	return r;
}

/* ---- Choosing between both. ---- */

static bool is_still_alive(const struct askhold *h)
{
	struct err e = ERR_INIT;
	bool alive, guard;

	return check_run_alive(h, &alive, &guard, &e) == 0 && alive;
}

static void on_wait_over(struct timer *t)
{
	loop_stop(t->ctx);
}

/* Waits, but returns early after a signal. */
static int wait_ms(struct hold *x, unsigned ms)
{
	struct timer t = { .fn = on_wait_over, .ctx = &x->loop };
	int r;

	loop_timer(&x->loop, &t, clock_nsec(CLOCK_MONOTONIC) + ms * NSEC_PER_MSEC);
	r = loop_run(&x->loop, x->e);
	loop_timer_off(&x->loop, &t);
	return r;
}

static bool is_no_server(int r)
{
	return r == -ENOENT || r == -ECONNREFUSED;
}

/* Asks one server. -EAGAIN: the ask server exited or the guard appeared; start again. */
static int ask_one_server(struct hold *x)
{
	bool guard;
	int r = check_run_alive(x->h, &x->was_alive, &guard, x->e), limit;

	if (r < 0)
		return r;
	limit = guard ? GUARD_WAIT_MS : x->was_alive ? PLAIN_WAIT_MS : 0;
	r = askc_open(&x->client, x->h->run_fd, x->e);
	for (int ms = 0; is_no_server(r) && ms < limit; ms += GUARD_STEP_MS) {
		if (wait_ms(x, GUARD_STEP_MS) < 0 || x->is_withdrawn)
			return -EINTR;
		r = askc_open(&x->client, x->h->run_fd, x->e);
	}
	if (r < 0 && !is_no_server(r))
		return r;
	/* askhold.H2: with a live guard that does not answer, the question must not be asked elsewhere. */
	if (r < 0 && guard)
		return err_wrap(x->e, r, "cannot ask about %s", x->h->run);
	*x->e = ERR_INIT;
	if (r < 0) {
		r = serve_and_wait(x);
		return r == -EADDRINUSE || (r == 0 && x->guard_came && !x->is_done) ? -EAGAIN : r;
	}
	r = submit_and_wait(x);
	askc_close(&x->client);
	if (r != -EPIPE)
		return r;
	/* askhold.H4. If the run is still alive, the server was only another asker in the guard's place. */
	if (!x->was_alive || is_still_alive(x->h))
		return -EAGAIN;
	hold_finish(x, false, "the sandbox has ended");
	return 0;
}

static int ask_until_decided(struct hold *x)
{
	int r = -EAGAIN;

	while (r == -EAGAIN) {
		*x->e = ERR_INIT;
		x->error = 0;
		x->guard_came = false;
		x->loop.stopped = false;
		if (!seconds_left(x)) {
			hold_finish(x, false, "nobody answered in time");
			return 0;
		}
		r = ask_one_server(x);
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
		r = loop_signals(&x.loop, &set, on_withdraw_signal, &x, x.e);
	if (r == 0 && h->alive) {
		x.w_alive = (struct watch){ .fd = *h->alive, .fn = on_asker_gone, .ctx = &x };
		r = loop_watch(&x.loop, &x.w_alive, EPOLLIN);
	}
	if (r == 0)
		r = ask_until_decided(&x);
	if (h->alive)
		loop_unwatch(&x.loop, &x.w_alive);
	askc_close(&x.client);
	loop_close(&x.loop);
	return r < 0 ? r : x.is_done && x.allowed; /* askhold.H1: nothing but a delivered "allow" is 1 */
}
