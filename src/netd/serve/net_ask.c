/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ask server of a run with a network: takes questions from coffer-egress, which holds the requests, into
 * the list (askserve.h) and sends the answers back. coffer-egress is hostile: askmsg_unpack() checks the form
 * and asks_put() the sizes of a question; a wrong ticket harms only coffer-egress itself.
 */
#include "approval/prompt.h"
#include "base/clock.h"
#include "base/str.h"
#include "egress/wire/askmsg.h"
#include "ipc/fdpass.h"
#include "netd/serve/net_int.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define HELD_MOST (10 * NSEC_PER_SEC)

static const enum ask_kind kind_of_message[] = {
	[ASKMSG_CONNECT] = ASK_CONNECT, [ASKMSG_REQUEST] = ASK_REQUEST, [ASKMSG_GRAPHQL] = ASK_GRAPHQL,
	[ASKMSG_GIT] = ASK_GIT,		[ASKMSG_SECRET] = ASK_SECRET,	[ASKMSG_WIDEN] = ASK_WIDEN,
};
static_assert(ARRAY_SIZE(kind_of_message) == ASKMSG_KIND_COUNT, "one for each");

static int on_ask_event(void *ctx, const char *type, const struct buf *fields, uint64_t *ret_seq)
{
	struct net_guard *g = ctx;
	/* Events before the question are logged before it: people are shown them as context. */
	int r = str_eq(type, "ask.new") ? net_reader_catch_up(g) : 0;

	return r < 0 ? r : audit_append_seq(g->c.audit, type, g->c.spec->id, fields, ret_seq, NULL);
}

static void send_egress_answer(struct net_guard *g, const struct ctl_answer *a)
{
	struct net_proc *p = &g->proc[NET_EGRESS];
	struct {
		struct ctl_head h;
		struct ctl_answer a;
	} m = { .h = { CTL_ANSWER, g->generation }, .a = *a };

	if (p->pid >= 0 && fdpass_send(p->w_ctl.fd, &m, sizeof(m), NULL, 0) == 0)
		return;
	/* An answer that it never received was not used. The list must not be changed from within its
	 * callback, hence the timer. */
	if (a->allow == CTL_YES && g->n_unread < NET_UNREAD_MAX)
		g->unread[g->n_unread++] = a->ticket;
	loop_timer(&g->loop, &g->t_unread, 0);
}

/* A coffer-egress that does not read an answer is killed, together with everything it held. */
static void on_unread_answers(struct timer *t)
{
	struct net_guard *g = t->ctx;
	struct net_proc *p = &g->proc[NET_EGRESS];

	for (size_t i = 0; i < g->n_unread; i++)
		askserve_unused(&g->serve, g->unread[i]);
	g->n_unread = 0;
	if (p->pid >= 0 && !p->quitting)
		net_down(g, p, "it does not take a person's answers");
}

static bool ask_has_expired(const struct net_guard *g, const char *id)
{
	const struct ask *a = g->serve.asks && id[0] ? asks_find(g->serve.asks, id) : NULL;
	struct ask_view v;

	if (!a)
		return false;
	ask_view(g->serve.asks, a, &v);
	return v.state == ASK_EXPIRED;
}

static void on_waiter_answer(void *ctx, uint64_t waiter, bool allow, const char *id, const char *why)
{
	struct net_guard *g = ctx;
	struct ctl_answer a = { .ticket = waiter };
	size_t n = strlen(id), k = strlen(why);

	if (waiter & NET_SIGN_WAITER) {
		net_sign_tell(g, waiter, allow, id, why);
		return;
	}
	a.allow = allow ? CTL_YES : ask_has_expired(g, id) ? CTL_LATE : CTL_NO;
	memcpy(a.id, id, n < sizeof(a.id) ? n : sizeof(a.id));
	memcpy(a.why, why, k < sizeof(a.why) ? k : sizeof(a.why));
	/* Without memory to hold it back it is sent at once: an answer in force must not be lost. */
	if (g->ask_held)
		buf_add(&g->ask_queue, &a, sizeof(a));
	if (!g->ask_held || buf_error(&g->ask_queue))
		send_egress_answer(g, &a);
}

void net_ask_release(struct net_guard *g)
{
	struct ctl_answer a;

	loop_timer_off(&g->loop, &g->t_held);
	g->ask_held = false;
	for (size_t at = 0; at + sizeof(a) <= g->ask_queue.len; at += sizeof(a)) {
		memcpy(&a, g->ask_queue.data + at, sizeof(a));
		send_egress_answer(g, &a);
	}
	buf_release(&g->ask_queue);
}

static void on_held_timer(struct timer *t)
{
	net_ask_release(t->ctx);
}

/*
 * Held requests are decided by the new policy first: coffer-egress gets the policy before the answers, for
 * which nobody waits there any more then. Otherwise a request that was let through and not sent yet would be
 * cut off by the change. The policy is compiled meanwhile, but people do not wait for that without end.
 */
static void on_always_answer(void *ctx, bool before)
{
	struct net_guard *g = ctx;

	if (before) {
		g->ask_held = true;
		return;
	}
	if (!g->t_held.armed) {
		g->t_held = (struct timer){ .fn = on_held_timer, .ctx = g };
		loop_timer(&g->loop, &g->t_held, clock_nsec(CLOCK_MONOTONIC) + HELD_MOST);
	}
	if (!net_reload_now(g))
		net_ask_release(g);
}

/* A coffer-egress that is gone was told none of the held answers, and the next one has tickets of its own. */
static void take_back_held_answers(struct net_guard *g)
{
	struct ctl_answer a;

	for (size_t at = 0; at + sizeof(a) <= g->ask_queue.len; at += sizeof(a)) {
		memcpy(&a, g->ask_queue.data + at, sizeof(a));
		if (a.allow == CTL_YES)
			(void)!asks_unused(g->serve.asks, asks_clock(), a.ticket);
	}
	buf_release(&g->ask_queue);
}

/* Sends one line for the terminal; the list has the rest. */
static void notify_launcher(struct net_guard *g, const struct ask_view *v)
{
	autobuf struct buf line = BUF_INIT;

	prompt_notice(v, NET_MSG_TEXT - 1, &line);
	if (!buf_error(&line))
		(void)!net_launcher_send(g, NET_ASKED, NET_LEVEL_WARN, buf_cstr(&line), -1);
}

static void on_ask_changed(void *ctx, const struct ask *a)
{
	struct net_guard *g = ctx;
	struct ask_view v;

	ask_view(g->serve.asks, a, &v);
	if (!g->plan_stored)
		g->plan_stored = net_plan_store(g->c.plan, g->dir) == 0;
	if (v.state == ASK_PENDING && v.number > g->ask_said) {
		g->ask_said = v.number;
		notify_launcher(g, &v);
		net_ask_listen(g);
	}
}

static int on_rules_widened(void *ctx, struct err *e)
{
	return net_widen_apply(ctx, e);
}

static int on_check_widen(void *ctx, const char *rule, struct buf *canon, struct err *e)
{
	return net_widen_check(ctx, rule, canon, e);
}

int net_ask_open(struct net_guard *g, struct err *e)
{
	const struct askserve_owner o = {
		.event = on_ask_event,
		.tell = on_waiter_answer,
		.changed = on_ask_changed,
		.widened = on_rules_widened,
		.check_widen = on_check_widen,
		.always = on_always_answer,
		.ctx = g,
		.st = g->c.st,
	};
	int r;

	g->t_unread = (struct timer){ .fn = on_unread_answers, .ctx = g };
	r = askserve_open(&g->serve, &g->loop, g->dir, g->c.spec->id, g->c.plan->ask_timeout, &o, e);

	if (r == 0) {
		askserve_new_policy(&g->serve, g->c.plan->generation);
		r = net_widen_begin(g, e);
	}
	return r;
}

void net_ask_listen(struct net_guard *g)
{
	struct err e = ERR_INIT;
	int r = g->serve.asks ? askserve_listen(&g->serve, &e) : 0;

	/* An asker that serves in our place (askhold.h) exits soon. */
	if (r == -EADDRINUSE)
		askserve_listen_soon(&g->serve);
	/* Nobody can answer then, so questions expire. */
	else if (r < 0)
		net_say(g, NET_LEVEL_WARN, "questions cannot be answered, so they are denied: %s", e.msg);
}

void net_ask_close(struct net_guard *g)
{
	loop_timer_off(&g->loop, &g->t_unread);
	loop_timer_off(&g->loop, &g->t_held);
	askserve_close(&g->serve);
	buf_release(&g->ask_queue);
}

void net_ask_egress_gone(struct net_guard *g)
{
	if (!g->serve.asks)
		return;
	take_back_held_answers(g);
	asks_drop_range(g->serve.asks, asks_clock(), 1, NET_SIGN_WAITER - 1);
}

void net_ask_new_policy(struct net_guard *g)
{
	if (g->serve.asks)
		askserve_new_policy(&g->serve, g->c.plan->generation);
}

/* Tells coffer-egress the id of a pending ask, so that the asker can look it up and find it again later. */
static void send_ask_id(struct net_guard *g, uint64_t ticket, const char *id, const struct ask_view *v)
{
	uint64_t now = asks_clock().real;
	struct {
		struct ctl_head h;
		struct ctl_answer a;
	} m = { .h = { CTL_ASKED, g->generation }, .a = { .ticket = ticket } };
	struct net_proc *p = &g->proc[NET_EGRESS];
	size_t n = strlen(id);

	memcpy(m.a.id, id, n < sizeof(m.a.id) ? n : sizeof(m.a.id));
	if (v->expires > now)
		m.a.left = (uint32_t)((v->expires - now + NSEC_PER_SEC - 1) / NSEC_PER_SEC);
	if (p->pid < 0 || fdpass_send(p->w_ctl.fd, &m, sizeof(m), NULL, 0) < 0)
		loop_timer(&g->loop, &g->t_unread, 0);
}

static int take_egress_question(struct net_guard *g, const char *data, size_t len)
{
	const struct ask *a;
	char id[ASK_ID_MAX];
	struct ask_question q;
	struct ask_view v;
	struct askmsg m;

	if (askmsg_unpack(data, len, &m) < 0)
		return -EPROTO;
	q = (struct ask_question){ .kind = kind_of_message[m.kind],
				   .generation = m.generation,
				   .port = m.port,
				   .tls = m.tls,
				   .has_body = m.has_body,
				   .body_len = m.body_len,
				   .host = m.host,
				   .method = m.method,
				   .path = m.path,
				   .what = m.what,
				   .type = m.type,
				   .rule = m.rule,
				   .reason = m.reason,
				   .preview = m.preview,
				   .preview_len = m.preview_len,
				   .preview_bytes = m.preview_bytes };
	memcpy(q.body, m.body, sizeof(q.body));
	net_ask_listen(g);
	askserve_put(&g->serve, &q, m.ticket, id);
	a = id[0] ? asks_find(g->serve.asks, id) : NULL;
	if (!a)
		return 0;
	ask_view(g->serve.asks, a, &v);
	if (v.state == ASK_PENDING)
		send_ask_id(g, m.ticket, id, &v);
	return 0;
}

int net_ask_take(struct net_guard *g, uint32_t type, const char *data, size_t len)
{
	uint64_t ticket;

	if (!g->serve.asks)
		return -EPROTO;
	if (type == CTL_ASK) {
		if (take_egress_question(g, data, len) < 0)
			return -EPROTO;
	} else {
		if (len != sizeof(ticket))
			return -EPROTO;
		memcpy(&ticket, data, sizeof(ticket));
		/* Tickets of the socket's clients and of the launcher do not belong to coffer-egress. */
		if (ticket & (ASKSERVE_WAITER | NET_SIGN_WAITER))
			return -EPROTO;
		if (type == CTL_ASK_DROP)
			askserve_drop(&g->serve, ticket);
		else if (type == CTL_ASK_TAKEN)
			asks_taken(g->serve.asks, ticket);
		else
			askserve_unused(&g->serve, ticket);
	}
	return 0;
}
