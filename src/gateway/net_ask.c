/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions of the sandbox: from coffer-egress, which holds what is asked about, to the list (askserve.h), and back. What
 * coffer-egress says is hostile: askmsg_unpack() checks its form, asks_put() its sizes, and its tickets are its own
 * affair, for a wrong one harms nobody but itself.
 */
#include "base/clock.h"
#include "egress/askmsg.h"
#include "gateway/net_int.h"
#include "ipc/fdpass.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const enum ask_kind kinds[] = {
	[ASKMSG_CONNECT] = ASK_CONNECT, [ASKMSG_REQUEST] = ASK_REQUEST, [ASKMSG_GRAPHQL] = ASK_GRAPHQL,
	[ASKMSG_GIT] = ASK_GIT,		[ASKMSG_SECRET] = ASK_SECRET,	[ASKMSG_WIDEN] = ASK_WIDEN,
};
static_assert(ARRAY_SIZE(kinds) == ASKMSG_KIND_COUNT, "one for each");

static int on_event(void *ctx, const char *type, const struct buf *fields)
{
	struct net_guard *g = ctx;

	return audit_append(g->r->audit, type, g->r->spec->id, fields, NULL);
}

static void on_tell(void *ctx, uint64_t waiter, bool allow, const char *id, const char *why)
{
	struct net_guard *g = ctx;
	struct net_proc *p = &g->proc[NET_EGRESS];
	struct {
		struct ctl_head h;
		struct ctl_answer a;
	} m = { .h = { CTL_ANSWER, g->generation }, .a = { .ticket = waiter, .allow = allow } };
	size_t n = strlen(id), k = strlen(why);

	memcpy(m.a.id, id, n < sizeof(m.a.id) ? n : sizeof(m.a.id));
	memcpy(m.a.why, why, k < sizeof(m.a.why) ? k : sizeof(m.a.why));
	/* One that reads nothing is ended, and all that it held with it. */
	if (p->pid < 0 || fdpass_send(p->w_ctl.fd, &m, sizeof(m), NULL, 0) < 0)
		g->ask_unread = true;
}

/* One line for the terminal; the list has the rest. */
static void say_new(struct net_guard *g, const struct ask_view *v)
{
	char port[8] = "";

	if (v->q.port && v->q.port != (v->q.tls ? 443 : 80))
		snprintf(port, sizeof(port), ":%u", v->q.port);
	net_say(g, NET_LEVEL_WARN,
		"waiting for an answer: %s%s%.100s%s%.120s%s%.120s  (coffer ask show %s, coffer approve %s)",
		v->q.method, v->q.method[0] ? " " : "", v->q.host, port, v->q.path, v->q.what[0] ? "  " : "",
		v->q.what, v->id, v->id);
}

static void on_changed(void *ctx, const struct ask *a)
{
	struct net_guard *g = ctx;
	struct ask_view v;

	ask_view(g->serve.asks, a, &v);
	if (v.state == ASK_PENDING && v.number > g->ask_said) {
		g->ask_said = v.number;
		say_new(g, &v);
	}
}

int net_ask_open(struct net_guard *g, struct err *e)
{
	const struct askserve_owner o = {
		.event = on_event, .tell = on_tell, .changed = on_changed, .ctx = g
	};
	int r = askserve_open(&g->serve, &g->loop, g->dir, g->r->spec->id, g->r->net->ask_timeout, &o, e);

	if (r == 0)
		askserve_new_policy(&g->serve, g->r->net->generation);
	return r;
}

void net_ask_listen(struct net_guard *g)
{
	struct err e = ERR_INIT;

	/* Nobody can answer then: what is asked expires. */
	if (g->serve.asks && askserve_listen(&g->serve, &e) < 0)
		net_say(g, NET_LEVEL_WARN, "questions cannot be answered, so they are denied: %s", e.msg);
}

void net_ask_close(struct net_guard *g)
{
	askserve_close(&g->serve);
}

void net_ask_egress_gone(struct net_guard *g)
{
	if (g->serve.asks)
		asks_drop_range(g->serve.asks, asks_clock(), 1, ASKSERVE_WAITER - 1);
}

void net_ask_new_policy(struct net_guard *g)
{
	if (g->serve.asks)
		askserve_new_policy(&g->serve, g->r->net->generation);
}

static int take_question(struct net_guard *g, const char *data, size_t len)
{
	struct ask_question q;
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
				   .preview_len = m.preview_len };
	memcpy(q.body, m.body, sizeof(q.body));
	net_ask_listen(g);
	askserve_put(&g->serve, &q, m.ticket);
	return 0;
}

int net_ask_take(struct net_guard *g, uint32_t type, const char *data, size_t len)
{
	uint64_t ticket;

	g->ask_unread = false;
	if (!g->serve.asks)
		return -EPROTO;
	if (type == CTL_ASK) {
		if (take_question(g, data, len) < 0)
			return -EPROTO;
	} else {
		if (len != sizeof(ticket))
			return -EPROTO;
		memcpy(&ticket, data, sizeof(ticket));
		/* Those of the socket's clients are none of its. */
		if (ticket & ASKSERVE_WAITER)
			return -EPROTO;
		if (type == CTL_ASK_DROP)
			askserve_drop(&g->serve, ticket);
		else if (type == CTL_ASK_TAKEN)
			asks_taken(g->serve.asks, ticket);
		else
			askserve_unused(&g->serve, ticket);
	}
	return g->ask_unread ? -EIO : 0;
}
