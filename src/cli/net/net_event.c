/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the network events of the audit log. Their fields came from a process that reads hostile bytes:
 * each is checked for its type, and one that does not fit is left empty. Texts stay as they are; the caller
 * makes them harmless before a person sees them.
 */
#include "cli/net/net_event.h"

#include "base/clock.h"
#include "base/jsonget.h"
#include "base/str.h"
#include "cli/core/ref.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const kinds[] = {
	[NETEV_DNS] = "net.dns",	 [NETEV_OPEN] = "net.open",	    [NETEV_CLOSE] = "net.close",
	[NETEV_REQUEST] = "net.request", [NETEV_RESPONSE] = "net.response", [NETEV_DIAL] = "net.dial",
	[NETEV_REFUSED] = "net.refused", [NETEV_ALERT] = "net.alert",	    [NETEV_POLICY] = "net.policy",
	[NETEV_FOLDED] = "net.folded",	 [NETEV_DOWN] = "net.down",	    [NETEV_UP] = "net.up",
	[NETEV_ASK] = "ask.new",
};
static_assert(ARRAY_SIZE(kinds) == NETEV_OTHER, "a name for each kind");

static enum net_kind kind_of_line(const struct line *l)
{
	int k = 0;

	while (k < NETEV_OTHER &&
	       (strlen(kinds[k]) != l->type_len || memcmp(kinds[k], l->type, l->type_len) != 0))
		k++;
	return (enum net_kind)k;
}

void cli_net_event_release(struct net_event *ev)
{
	json_decref(ev->obj);
	ev->obj = NULL;
}

static void take_event_texts(struct net_event *ev)
{
	const struct {
		const char *key, **to;
	} texts[] = {
		{ "name", &ev->name },	       { "addr", &ev->addr },	{ "depth", &ev->depth },
		{ "decision", &ev->decision }, { "rule", &ev->rule },	{ "why", &ev->why },
		{ "method", &ev->method },     { "path", &ev->path },	{ "how", &ev->how },
		{ "act", &ev->act },	       { "seen", &ev->seen },	{ "secret", &ev->secret },
		{ "proxy", &ev->proxy },       { "qtype", &ev->qtype }, { "proto", &ev->proto },
		{ "text", &ev->text },	       { "ev", &ev->folded },	{ "said", &ev->said },
		{ "ask", &ev->ask },	       { "what", &ev->what },	{ "top", &ev->top },
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		*texts[i].to = jsonget_text_or_null(ev->obj, texts[i].key);
	/* A request has its name in "host". */
	if (!ev->name)
		ev->name = jsonget_text_or_null(ev->obj, "host");
}

static void take_event_numbers(struct net_event *ev)
{
	const struct {
		const char *key;
		uint64_t *to;
	} numbers[] = {
		{ "port", &ev->port },	 { "c", &ev->conn },	    { "up", &ev->up },
		{ "down", &ev->down },	 { "ms", &ev->ms },	    { "t", &ev->t },
		{ "count", &ev->count }, { "status", &ev->status }, { "again", &ev->again },
		{ "first", &ev->first },
	};

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		json_int_t v = json_integer_value(json_object_get(ev->obj, numbers[i].key));

		*numbers[i].to = v > 0 ? (uint64_t)v : 0;
		if (numbers[i].to == &ev->status && v < 0 && v >= INT_MIN)
			ev->error = (int)v;
	}
}

static bool is_net_record(const struct audit_record *rec)
{
	return rec->is_event && rec->line.type_len >= 4 && memcmp(rec->line.type, "net.", 4) == 0;
}

static bool is_ask_record(const struct audit_record *rec)
{
	return rec->is_event && line_is_type(&rec->line, kinds[NETEV_ASK]);
}

bool cli_net_event_may_be(const struct audit_record *rec)
{
	return is_net_record(rec) || is_ask_record(rec);
}

static bool parse_net_record(struct net_event *ret, const struct audit_record *rec)
{
	autobuf struct buf text = BUF_INIT;
	struct net_event ev = { 0 };

	buf_addc(&text, '{');
	buf_add(&text, rec->line.fields, rec->line.fields_len);
	buf_addc(&text, '}');
	ev.obj = buf_error(&text) ? NULL : json_loadb(buf_cstr(&text), text.len, 0, NULL);
	if (!ev.obj)
		return false;
	ev.kind = kind_of_line(&rec->line);
	ev.time_text = rec->line.time;
	snprintf(ev.type, sizeof(ev.type), "%.*s", (int)rec->line.type_len, rec->line.type);
	if (rec->line.sandbox)
		snprintf(ev.sandbox, sizeof(ev.sandbox), "%.*s", (int)rec->line.sandbox_len,
			 rec->line.sandbox);
	take_event_texts(&ev);
	take_event_numbers(&ev);
	ev.denied = ev.decision && str_eq(ev.decision, "deny");
	*ret = ev;
	return true;
}

bool cli_net_event_parse(struct net_event *ret, const struct audit_record *rec)
{
	return is_net_record(rec) && parse_net_record(ret, rec);
}

bool cli_net_event_parse_ask(struct net_event *ret, const struct audit_record *rec)
{
	static const char *const egress[] = { "connect", "request", "graphql", "git" };
	const char *kind;

	if (!is_ask_record(rec) || !parse_net_record(ret, rec))
		return false;
	kind = jsonget_text_or_null(ret->obj, "kind");
	for (size_t i = 0; kind && i < ARRAY_SIZE(egress); i++) {
		if (str_eq(kind, egress[i])) {
			ret->decision = "ask";
			return true;
		}
	}
	cli_net_event_release(ret);
	return false;
}

bool cli_net_event_is_outcome(const struct net_event *ev)
{
	return ev->kind == NETEV_DNS && ev->first && ev->decision && str_eq(ev->decision, "error");
}

bool cli_net_event_is_sum(const struct net_event *ev)
{
	return ev->kind == NETEV_FOLDED || str_eq(cli_net_event_host(ev), "*") ||
	       (ev->kind == NETEV_ALERT && ev->count && !ev->name && ev->top);
}

uint64_t cli_net_event_times(const struct net_event *ev)
{
	return ev->kind == NETEV_FOLDED || str_eq(cli_net_event_host(ev), "*") ? ev->count : ev->count + 1;
}

const char *cli_net_event_host(const struct net_event *ev)
{
	return ev->name && *ev->name ? ev->name : ev->addr ? ev->addr : "-";
}

static int drain_query(struct audit_query *q, int (*fn)(void *ctx, struct net_event *ev), void *ctx,
		       struct err *e)
{
	struct audit_record rec;
	int r;

	while ((r = audit_query_next(q, &rec, e)) > 0) {
		struct net_event ev;

		if (!cli_net_event_parse(&ev, &rec))
			continue;
		r = fn(ctx, &ev);
		cli_net_event_release(&ev);
		if (r < 0)
			return r;
	}
	return r;
}

static int open_log_range(struct audit_query **q, struct state *st, const struct net_range *range,
			  struct audit_filter *f, char id[RUN_ID_LEN + 1], struct err *e)
{
	int r = range->ref ? ref_resolve_logged(st, range->ref, id, e) : 0;

	if (r < 0)
		return r;
	*f = (struct audit_filter){ .since = range->since, .type = "net", .sandbox = range->ref ? id : NULL };
	return audit_query_open(q, st->fd, f, e);
}

int cli_net_events(struct state *st, const struct net_range *range,
		   int (*fn)(void *ctx, struct net_event *ev), void *ctx, struct err *e)
{
	CLEANUP(audit_query_freep) struct audit_query *q = NULL;
	struct audit_filter f;
	char id[RUN_ID_LEN + 1];
	int r = open_log_range(&q, st, range, &f, id, e);

	return r < 0 ? r : drain_query(q, fn, ctx, e);
}

int cli_net_events_follow(struct state *st, const struct net_range *range,
			  int (*fn)(void *ctx, struct net_event *ev), int (*idle)(void *ctx), void *ctx,
			  struct err *e)
{
	CLEANUP(audit_query_freep) struct audit_query *q = NULL;
	struct audit_filter f;
	char id[RUN_ID_LEN + 1];
	int r = open_log_range(&q, st, range, &f, id, e);

	while (r >= 0) {
		r = drain_query(q, fn, ctx, e);
		if (r == 0)
			r = idle(ctx);
		if (r >= 0)
			r = audit_query_wait(q, 1000, e);
	}
	return r;
}
