/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the audit log of recorded runs and passes each decision to policy/replay/replay.h: network events,
 * tool calls, apply, and questions without a line of their own. An event that records no decision is
 * skipped, never guessed.
 */
#include "cli/net/replay_log.h"

#include "base/jsonget.h"
#include "cli/core/ref.h"
#include "cli/net/net_event.h"
#include "cli/net/replay_asks.h"

#include <errno.h>
#include <stdio.h>

struct gather {
	struct replay *replay;
	struct replay_asks asks;
	char ids[REPLAY_RUNS_MAX][RUN_ID_LEN + 1];
	size_t n_ids; /* 0: all runs, or the log's filter selects the run */
};

static bool is_chosen_run(const struct gather *g, const char *sandbox)
{
	for (size_t i = 0; i < g->n_ids; i++) {
		if (str_starts(sandbox, g->ids[i]))
			return true;
	}
	return g->n_ids == 0;
}

static bool parse_action(const char *text, enum policy_action *ret)
{
	for (int a = POLICY_DENY; text && a <= POLICY_ALLOW; a++) {
		if (str_eq(text, policy_action_name((enum policy_action)a))) {
			*ret = (enum policy_action)a;
			return true;
		}
	}
	return false;
}

/* --- network events --------------------------------------------------------------------------------- */

/* The decision at that time; false: the event is no decision. */
static bool read_decision(const struct net_event *ev, struct replay_seen *s)
{
	enum policy_action said;

	if (!parse_action(ev->decision, &s->was))
		return false;
	/*
	 * ev->said is what the policy alone said (policy_journal_note()). Nobody is asked about a lookup, only
	 * about the connection after it.
	 */
	if (!parse_action(ev->said, &said) ||
	    (said == POLICY_ASK && s->kind == REPLAY_LOOKUP && s->was == POLICY_ALLOW))
		return true;
	s->refused = said != POLICY_DENY && s->was == POLICY_DENY;
	s->granted = said == POLICY_DENY && s->was == POLICY_ALLOW;
	if (said == POLICY_ASK && s->kind != REPLAY_LOOKUP)
		s->was = POLICY_ASK;
	return true;
}

static bool read_kind(const struct net_event *ev, struct replay_seen *s)
{
	static const struct {
		const char *folded;
		enum net_kind from;
		enum replay_kind to;
	} of[] = { { "dns", NETEV_DNS, REPLAY_LOOKUP },
		   { "open", NETEV_OPEN, REPLAY_CONNECT },
		   { "request", NETEV_REQUEST, REPLAY_REQUEST } };

	for (size_t i = 0; i < ARRAY_SIZE(of); i++) {
		if (ev->kind == of[i].from ||
		    (ev->kind == NETEV_FOLDED && ev->folded && str_eq(ev->folded, of[i].folded))) {
			s->kind = of[i].to;
			return true;
		}
	}
	return false;
}

/*
 * coffer-dial's result: the address was reached, or refused for its kind. A dial that failed otherwise
 * decides nothing.
 */
static bool read_dial(const struct net_event *ev, struct replay_seen *s)
{
	if (ev->kind != NETEV_DIAL || (ev->proxy && *ev->proxy))
		return false;
	s->kind = REPLAY_ADDRESS;
	s->was = ev->error ? POLICY_DENY : POLICY_ALLOW;
	return ev->error == 0 || ev->error == -EACCES || ev->error == -EPERM;
}

static int replay_net_event(struct gather *g, const struct net_event *ev)
{
	struct replay_seen s = { .host = cli_net_event_host(ev),
				 .port = (uint16_t)ev->port,
				 .rule = ev->rule,
				 .why = ev->why,
				 .depth = ev->depth,
				 .addr = ev->addr,
				 .method = ev->method,
				 .path = ev->path,
				 .act = ev->act,
				 .secrets = ev->secret,
				 .asked_for_another = ev->seen && *ev->seen };

	if (!read_dial(ev, &s) && (!read_kind(ev, &s) || !read_decision(ev, &s)))
		return 0;
	s.count = cli_net_event_times(ev);
	/* The rule of counted events is unknown, and so is whether there was one. */
	if (ev->kind == NETEV_FOLDED && s.was == POLICY_DENY)
		s.rule = "";
	if (str_eq(s.host, "*") && ev->again && ev->again <= s.count) {
		s.count -= ev->again;
		replay_add_again(g->replay, &s, ev->again);
	}
	if (cli_replay_asks_told(&g->asks, ev->sandbox, ev->ask) < 0)
		return -ENOMEM;
	return s.count ? replay_add(g->replay, &s) : 0;
}

/* --- other events ------------------------------------------------------------------------------------------------ */

static int replay_ask_event(struct gather *g, const char *sandbox, const json_t *o)
{
	return cli_replay_asks_add(&g->asks, sandbox, o);
}

static int replay_tool_event(struct gather *g, const char *sandbox, const json_t *o)
{
	struct replay_seen s = { .kind = REPLAY_TOOL,
				 .what = jsonget_text_or_null(o, "tool"),
				 .rule = jsonget_text_or_null(o, "rule"),
				 .list = jsonget_text_or_null(o, "list"),
				 .count = 1 };

	if (!s.what || !parse_action(jsonget_text_or_null(o, "decision"), &s.was))
		return 0;
	if (cli_replay_asks_told(&g->asks, sandbox, jsonget_text_or_null(o, "ask")) < 0)
		return -ENOMEM;
	return replay_add(g->replay, &s);
}

/* The event has a rule if a person was asked: because of the policy, or because of --ask. */
static int replay_apply_event(struct gather *g, const char *sandbox, const json_t *o)
{
	const char *rule = jsonget_text_or_null(o, "rule");
	struct replay_seen s = { .kind = REPLAY_APPLY,
				 .was = rule && str_starts(rule, "apply:") ? POLICY_ASK : POLICY_ALLOW,
				 .rule = rule,
				 .count = 1 };

	if (cli_replay_asks_told(&g->asks, sandbox, jsonget_text_or_null(o, "ask")) < 0)
		return -ENOMEM;
	return replay_add(g->replay, &s);
}

static int replay_other_event(struct gather *g, const struct audit_record *rec, const char *sandbox)
{
	static const struct {
		const char *type;
		int (*fn)(struct gather *g, const char *sandbox, const json_t *o);
	} of[] = { { "ask.new", replay_ask_event },
		   { "tool.call", replay_tool_event },
		   { "workspace.apply", replay_apply_event } };
	autobuf struct buf text = BUF_INIT;
	size_t i = 0;
	json_t *o;
	int r;

	while (i < ARRAY_SIZE(of) && !line_is_type(&rec->line, of[i].type))
		i++;
	if (i == ARRAY_SIZE(of))
		return 0;
	buf_addc(&text, '{');
	buf_add(&text, rec->line.fields, rec->line.fields_len);
	buf_addc(&text, '}');
	if (buf_error(&text))
		return -ENOMEM;
	o = json_loadb(text.data, text.len, 0, NULL);
	r = o ? of[i].fn(g, sandbox, o) : 0;
	json_decref(o);
	return r;
}

/* --- the log ---------------------------------------------------------------------------------------- */

static int replay_record(struct gather *g, const struct audit_record *rec)
{
	char sandbox[RUN_ID_LEN + 1] = "";
	struct net_event ev;
	int r;

	if (!rec->is_event)
		return 0;
	if (rec->line.sandbox)
		snprintf(sandbox, sizeof(sandbox), "%.*s", (int)rec->line.sandbox_len, rec->line.sandbox);
	if (!is_chosen_run(g, sandbox))
		return 0;
	if (!cli_net_event_parse(&ev, rec))
		return replay_other_event(g, rec, sandbox);
	r = replay_net_event(g, &ev);
	cli_net_event_release(&ev);
	return r;
}

static int gather_events(struct gather *g, struct state *st, const struct audit_filter *f, struct err *e)
{
	CLEANUP(audit_query_freep) struct audit_query *q = NULL;
	struct audit_record rec;
	int r = audit_query_open(&q, st->fd, f, e);

	while (r >= 0 && (r = audit_query_next(q, &rec, e)) > 0)
		r = replay_record(g, &rec);
	r = r < 0 ? r : cli_replay_asks_flush(&g->asks, g->replay);
	return r < 0 ? r : replay_settle(g->replay);
}

int cli_replay_log(struct replay *re, struct state *st, const struct replay_range *range, struct err *e)
{
	struct gather g = { .replay = re, .asks = REPLAY_ASKS_INIT };
	struct audit_filter f = { .since = range->since };
	int r = 0;

	for (size_t i = 0; r == 0 && i < range->n_runs; i++)
		r = ref_resolve_logged(st, range->runs[i], g.ids[i], e);
	if (r == 0) {
		/* The log itself can filter by one run. */
		f.sandbox = range->n_runs == 1 ? g.ids[0] : NULL;
		g.n_ids = range->n_runs > 1 ? range->n_runs : 0;
		r = gather_events(&g, st, &f, e);
	}
	cli_replay_asks_release(&g.asks);
	return r < 0 && !e->code ? err_sys(e, r, "cannot replay the log") : r;
}
