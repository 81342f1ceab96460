/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions of the sandbox: from coffer-egress, which holds what is asked about, to the list (askserve.h), and back. What
 * coffer-egress says is hostile: askmsg_unpack() checks its form, asks_put() its sizes, and its tickets are its own
 * affair, for a wrong one harms nobody but itself.
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

static const enum ask_kind kinds[] = {
	[ASKMSG_CONNECT] = ASK_CONNECT, [ASKMSG_REQUEST] = ASK_REQUEST, [ASKMSG_GRAPHQL] = ASK_GRAPHQL,
	[ASKMSG_GIT] = ASK_GIT,		[ASKMSG_SECRET] = ASK_SECRET,	[ASKMSG_WIDEN] = ASK_WIDEN,
};
static_assert(ARRAY_SIZE(kinds) == ASKMSG_KIND_COUNT, "one for each");

static int on_event(void *ctx, const char *type, const struct buf *fields, uint64_t *ret_seq)
{
	struct net_guard *g = ctx;
	/* What it did before it asked stands before the question: that is what a person is shown. */
	int r = str_eq(type, "ask.new") && g->fold ? net_journal_catch_up(g) : 0;

	return r < 0 ? r : audit_append_seq(g->c.audit, type, g->c.spec->id, fields, ret_seq, NULL);
}

static void send_answer(struct net_guard *g, const struct ctl_answer *a)
{
	struct net_proc *p = &g->proc[NET_EGRESS];
	struct {
		struct ctl_head h;
		struct ctl_answer a;
	} m = { .h = { CTL_ANSWER, g->generation }, .a = *a };

	if (p->pid >= 0 && fdpass_send(p->w_ctl.fd, &m, sizeof(m), NULL, 0) == 0)
		return;
	/* What it never heard of it has not used. Nobody may touch the list from here: soon. */
	if (a->allow == CTL_YES && g->n_unread < NET_UNREAD_MAX)
		g->unread[g->n_unread++] = a->ticket;
	loop_timer(&g->loop, &g->t_unread, 0);
}

/* A coffer-egress that does not take an answer is ended, and all that it held with it. */
static void on_unread(struct timer *t)
{
	struct net_guard *g = t->ctx;
	struct net_proc *p = &g->proc[NET_EGRESS];

	for (size_t i = 0; i < g->n_unread; i++)
		askserve_unused(&g->serve, g->unread[i]);
	g->n_unread = 0;
	if (p->pid >= 0 && !p->quitting)
		net_down(g, p, "it does not take a person's answers");
}

static bool is_late(const struct net_guard *g, const char *id)
{
	const struct ask *a = g->serve.asks && id[0] ? asks_find(g->serve.asks, id) : NULL;
	struct ask_view v;

	if (!a)
		return false;
	ask_view(g->serve.asks, a, &v);
	return v.state == ASK_EXPIRED;
}

static void on_tell(void *ctx, uint64_t waiter, bool allow, const char *id, const char *why)
{
	struct net_guard *g = ctx;
	struct ctl_answer a = { .ticket = waiter };
	size_t n = strlen(id), k = strlen(why);

	if (waiter & NET_SIGN_WAITER) {
		net_sign_tell(g, waiter, allow, id, why);
		return;
	}
	a.allow = allow ? CTL_YES : is_late(g, id) ? CTL_LATE : CTL_NO;
	memcpy(a.id, id, n < sizeof(a.id) ? n : sizeof(a.id));
	memcpy(a.why, why, k < sizeof(a.why) ? k : sizeof(a.why));
	/* Without the memory to wait it goes at once: an answer that counts is not lost. */
	if (g->ask_held)
		buf_add(&g->ask_queue, &a, sizeof(a));
	if (!g->ask_held || buf_error(&g->ask_queue))
		send_answer(g, &a);
}

/*
 * What is held is decided by the new policy first: coffer-egress gets that before the answers, for which nobody waits there any more
 * then. Without it a request that was let through and not sent yet would be cut off by the change.
 */
static void on_always(void *ctx, bool before)
{
	struct net_guard *g = ctx;
	struct ctl_answer a;

	g->ask_held = before;
	if (before)
		return;
	net_reload_now(g);
	for (size_t at = 0; at + sizeof(a) <= g->ask_queue.len; at += sizeof(a)) {
		memcpy(&a, g->ask_queue.data + at, sizeof(a));
		send_answer(g, &a);
	}
	buf_release(&g->ask_queue);
}

/* One line for the terminal; the list has the rest. */
static void say_new(struct net_guard *g, const struct ask_view *v)
{
	autobuf struct buf line = BUF_INIT;

	prompt_notice(v, NET_MSG_TEXT - 1, &line);
	if (!buf_error(&line))
		(void)!net_launcher_send(g, NET_ASKED, NET_LEVEL_WARN, buf_cstr(&line), -1);
}

static void on_changed(void *ctx, const struct ask *a)
{
	struct net_guard *g = ctx;
	struct ask_view v;

	ask_view(g->serve.asks, a, &v);
	if (!g->plan_stored)
		g->plan_stored = net_plan_store(g->c.plan, g->dir) == 0;
	if (v.state == ASK_PENDING && v.number > g->ask_said) {
		g->ask_said = v.number;
		say_new(g, &v);
		net_ask_listen(g);
	}
}

static int on_widened(void *ctx, struct err *e)
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
		.event = on_event,
		.tell = on_tell,
		.changed = on_changed,
		.widened = on_widened,
		.check_widen = on_check_widen,
		.always = on_always,
		.ctx = g,
		.st = g->c.st,
	};
	int r;

	g->t_unread = (struct timer){ .fn = on_unread, .ctx = g };
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

	/* One that serves in our place (askhold.h) leaves soon. */
	if (r == -EADDRINUSE)
		askserve_listen_soon(&g->serve);
	/* Nobody can answer then: what is asked expires. */
	else if (r < 0)
		net_say(g, NET_LEVEL_WARN, "questions cannot be answered, so they are denied: %s", e.msg);
}

void net_ask_close(struct net_guard *g)
{
	loop_timer_off(&g->loop, &g->t_unread);
	askserve_close(&g->serve);
	buf_release(&g->ask_queue);
}

void net_ask_egress_gone(struct net_guard *g)
{
	if (g->serve.asks)
		asks_drop_range(g->serve.asks, asks_clock(), 1, NET_SIGN_WAITER - 1);
}

void net_ask_new_policy(struct net_guard *g)
{
	if (g->serve.asks)
		askserve_new_policy(&g->serve, g->c.plan->generation);
}

/* What waits is known by its question's id from the beginning: who asked may look, and find it again later. */
static void tell_id(struct net_guard *g, uint64_t ticket, const char *id, const struct ask_view *v)
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

static int take_question(struct net_guard *g, const char *data, size_t len)
{
	const struct ask *a;
	char id[ASK_ID_MAX];
	struct ask_question q;
	struct ask_view v;
	struct askmsg m;

	if (askmsg_unpack(data, len, &m) < 0)
		return -EPROTO;
	q = (struct ask_question){ .kind = kinds[m.kind],
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
		tell_id(g, m.ticket, id, &v);
	return 0;
}

int net_ask_take(struct net_guard *g, uint32_t type, const char *data, size_t len)
{
	uint64_t ticket;

	if (!g->serve.asks)
		return -EPROTO;
	if (type == CTL_ASK) {
		if (take_question(g, data, len) < 0)
			return -EPROTO;
	} else {
		if (len != sizeof(ticket))
			return -EPROTO;
		memcpy(&ticket, data, sizeof(ticket));
		/* Those of the socket's clients and of the launcher are none of its. */
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
