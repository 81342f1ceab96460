/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a connection: judging, ledger, limits, dialling, refusal and end (flow.F1 to F3). Every way to
 * let one through leads over flow_open(), every refusal over flow_refuse(). No other function may do either.
 */
#include "egress/core/flow.h"
#include "egress/core/asking.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/container.h"
#include "egress/account/egress_fold.h"
#include "egress/core/flow_int.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static void on_flow_timeout(struct wheel_entry *t);

struct flow *flow_new(struct egress *eg, int fd, const struct addr *asked, uint16_t port)
{
	struct flow *f = calloc(1, sizeof(*f));

	if (!f) {
		fd_close(fd);
		return NULL;
	}
	f->eg = eg;
	f->id = egress_names_next_conn(&eg->names);
	f->name = egress_names_at(&eg->names, asked);
	f->addr = *asked;
	f->port = port;
	f->started = f->active = eg->now;
	f->client.w = (struct watch){ .fd = fd, .ctx = f };
	f->server.w = (struct watch){ .fd = -1, .ctx = f };
	f->timeout.fn = on_flow_timeout;
	TAILQ_INSERT_TAIL(&eg->flows, f, in_all);
	eg->n_flows++;
	return f;
}

void flow_target(const struct flow *f, struct host *host, struct policy_target *ret)
{
	*ret = (struct policy_target){ .addr = f->addr, .port = f->port };
	if (!f->name)
		return;
	host->kind = HOST_NAME;
	host->len = f->name->len;
	memcpy(host->text, f->name->text, f->name->len + 1u);
	ret->name = host;
}

const char *flow_host(const struct flow *f, char *out)
{
	return f->name ? f->name->text : addr_format(&f->addr, out);
}

void flow_judge(const struct flow *f, struct policy_verdict *ret)
{
	struct policy_target t;
	struct host h;

	memset(ret, 0, sizeof(*ret));
	if (!f->eg->policy) {
		snprintf(ret->why, sizeof(ret->why), "there is no policy in force: %.200s", f->eg->why_none);
		snprintf(ret->rule_text, sizeof(ret->rule_text), "default");
		return;
	}
	/* A program can connect to it, and coffer-dial takes a request for it as a breach of their protocol. */
	if (f->port == 0) {
		snprintf(ret->why, sizeof(ret->why), "no server has port 0");
		snprintf(ret->rule_text, sizeof(ret->rule_text), "default");
		return;
	}
	/* A synthetic address without a name was never handed out. */
	if (!f->name && egress_names_in_range(&f->eg->names, &f->addr)) {
		snprintf(ret->why, sizeof(ret->why), "no name was looked up that has this address");
		snprintf(ret->rule_text, sizeof(ret->rule_text), "default");
		return;
	}
	flow_target(f, &h, &t);
	policy_connect_quietly(f->eg->policy, &t, ret);
	if (f->name && f->eg->inspector && f->eg->inspector->wants &&
	    f->eg->inspector->wants(f->eg, &h, f->port))
		ret->depth = POLICY_INSPECT;
}

void flow_set_timeout(struct flow *f, unsigned seconds)
{
	wheel_arm(&f->eg->wheel, &f->timeout, f->eg->now + seconds * NSEC_PER_SEC);
}

// NOLINTNEXTLINE(misc-no-recursion): through shedding the oldest, which takes one flow off the list each time
void flow_set_young(struct flow *f, bool young)
{
	struct egress *eg = f->eg;

	if (f->is_young == young)
		return;
	f->is_young = young;
	if (!young) {
		TAILQ_REMOVE(&eg->young, f, in_young);
		eg->n_young--;
		return;
	}
	TAILQ_INSERT_TAIL(&eg->young, f, in_young);
	if (++eg->n_young > FLOW_YOUNG_MAX) {
		eg->stats.shed++;
		flow_refuse(TAILQ_FIRST(&eg->young), NULL, FLOW_REFUSE_RESET, 0,
			    "it sent nothing, and too many such connections are open", NULL);
	}
}

static void journal_add_target(const struct flow *f, struct json *l)
{
	char addr[ADDR_TEXT_LEN];

	if (f->name)
		json_strn(l, "name", f->name->text, f->name->len);
	else
		json_str(l, "addr", addr_format(&f->addr, addr));
	json_u64(l, "port", f->port);
}

void flow_journal_open(struct flow *f, const struct policy_verdict *v, bool allow, const char *why,
		       const char *seen)
{
	char rule[POLICY_RULE_TEXT_MAX], text[HOST_MAX + 1];
	const char *host = flow_host(f, text);
	struct json *l;
	uint64_t count = 0;

	/*
	 * Repeated refusals are counted; but not those that a person was asked about: these are in the log
	 * already.
	 */
	if (!allow && !f->ask_id[0] &&
	    !egress_fold_is_due(f->eg->fold, FOLD_OPEN, host, strlen(host), f->port, f->eg->now, &count))
		return;
	l = journal_begin(&f->eg->journal, "open");
	json_u64(l, "c", f->id);
	journal_add_target(f, l);
	if (allow)
		json_str(l, "depth", policy_depth_name((enum policy_depth)f->depth));
	json_str(l, "decision", allow ? "allow" : "deny");
	journal_str(l, "said", v ? policy_journal_note(v, v->action, allow) : NULL, 8);
	journal_str(l, "ask", f->ask_id, sizeof(f->ask_id));
	journal_str(l, "rule", v ? policy_verdict_rule(v, rule) : NULL, POLICY_RULE_TEXT_MAX);
	journal_str(l, "why", why, POLICY_WHY_MAX);
	json_u64(l, "generation", f->eg->generation);
	journal_str(l, "seen", seen, HOST_MAX);
	if (count)
		json_u64(l, "count", count);
	egress_end_line(f->eg, allow && f->is_first);
}

static void flow_journal_close(struct flow *f, const char *how)
{
	struct json *l = journal_begin(&f->eg->journal, "close");

	json_u64(l, "c", f->id);
	journal_add_target(f, l);
	json_u64(l, "up", f->client.bytes);
	json_u64(l, "down", f->server.bytes);
	json_u64(l, "ms", (f->eg->now - f->started) / NSEC_PER_MSEC);
	journal_str(l, "how", how, 200);
	egress_end_line(f->eg, f->is_first);
}

static void flow_close_side(struct flow *f, struct flow_side *s, bool reset)
{
	if (s->w.fd < 0)
		return;
	if (reset || f->is_handed) {
		const struct linger now = { .l_onoff = reset };

		/*
		 * It is closed in any case; without the option the peer sees an orderly end instead of a
		 * reset. Off, where a forwarder may have made close() wait.
		 */
		(void)!setsockopt(s->w.fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	}
	/*
	 * The server's socket came from coffer-dial, which may not have closed its copy yet: epoll would go
	 * on reporting it. A handed one has come from a forwarder in the same way.
	 */
	if (s == &f->client && !f->is_handed)
		loop_forget(&f->eg->loop, &s->w);
	else
		loop_unwatch(&f->eg->loop, &s->w);
	fd_close(s->w.fd);
	buf_release(&s->held);
}

static void flow_free_first(struct flow *f)
{
	if (f->hello) {
		tls_hello_release(f->hello);
		free(f->hello);
		f->hello = NULL;
	}
	free(f->http);
	f->http = NULL;
	buf_release(&f->first);
}

// NOLINTNEXTLINE(misc-no-recursion): through shedding the oldest, which takes one flow off the list each time
static void flow_finish(struct flow *f, const char *how, bool reset)
{
	struct egress *eg = f->eg;

	if (f->is_open) {
		flow_journal_close(f, how);
		limits_disconnect(&eg->limits, f->limit);
	}
	eg->stats.up += f->client.bytes;
	eg->stats.down += f->server.bytes;
	dialc_cancel(&eg->dial, &f->dial);
	asking_drop(f->asking);
	ledger_unwait(&eg->ledger, &f->turn);
	eg->n_polls -= f->access != NULL;
	asking_settle(eg, f->ticket, false);
	wheel_disarm(&eg->wheel, &f->timeout);
	flow_set_young(f, false);
	relay_release(f);
	if (f->is_paused)
		TAILQ_REMOVE(&eg->paused, f, in_paused);
	if (f->is_busy)
		TAILQ_REMOVE(&eg->busy, f, in_busy);
	flow_close_side(f, &f->client, reset);
	flow_close_side(f, &f->server, reset);
	flow_free_first(f);
	TAILQ_REMOVE(&eg->flows, f, in_all);
	eg->n_flows--;
	free(f);
}

void flow_end(struct flow *f, const char *how)
{
	flow_finish(f, how, false);
}

// NOLINTNEXTLINE(misc-no-recursion): through shedding the oldest, which takes one flow off the list each time
void flow_reset(struct flow *f, const char *how)
{
	flow_finish(f, how, true);
}

/* While the inspector owns the flow, it must release it first. */
static void flow_reset_any_owner(struct flow *f, const char *how)
{
	if (f->state == FLOW_INSPECT)
		f->eg->inspector->drop(f->eg, f);
	flow_reset(f, how);
}

void flow_reset_all(struct egress *eg, const char *how)
{
	if (eg->inspector)
		eg->inspector->hold(eg, true);
	while (!TAILQ_EMPTY(&eg->flows))
		flow_reset_any_owner(TAILQ_FIRST(&eg->flows), how);
	if (eg->inspector)
		eg->inspector->hold(eg, false);
}

static void on_flow_timeout(struct wheel_entry *t)
{
	struct flow *f = CONTAINER_OF(t, struct flow, timeout);
	const struct egress_times *times = &f->eg->times;
	unsigned limit = f->client.eof || f->server.eof ? times->half : times->idle;

	if (f->state == FLOW_FIRST) {
		peek_timeout(f);
		return;
	}
	if (f->state == FLOW_PAGE) {
		page_timeout(f);
		return;
	}
	/* flow_touch() does not move the timer: whether there was activity is found out here. */
	if ((f->state == FLOW_RELAY || f->state == FLOW_INSPECT) &&
	    f->active + limit * NSEC_PER_SEC > f->eg->now) {
		wheel_arm(&f->eg->wheel, t, f->active + limit * NSEC_PER_SEC);
		return;
	}
	flow_reset_any_owner(f, "timeout");
}

static void on_dialled(struct dialc_request *a, const struct dial_rep *rep, int fd)
{
	struct flow *f = a->ctx;
	char how[224];

	if (rep->status == 0) {
		asking_settle(f->eg, f->ticket, true);
		f->ticket = 0;
		relay_begin(f, fd);
		return;
	}
	f->eg->stats.failed++;
	snprintf(how, sizeof(how), "error: %s", rep->why[0] ? rep->why : strerror(-rep->status));
	flow_reset(f, how);
}

static void flow_dial(struct flow *f, const struct policy_verdict *v)
{
	struct policy_target t;
	struct host h;
	int r;

	flow_target(f, &h, &t);
	if (!t.name)
		host_from_addr(&f->addr, &h);
	f->state = FLOW_DIAL;
	relay_wait(f);
	f->dial.done = on_dialled;
	f->dial.ctx = f;
	flow_set_timeout(f, 2 * DIAL_TIMEOUT_MS / 1000 + 15);
	r = dialc_dial(&f->eg->dial, &f->dial, &h, f->port, 0, f->generation, v->terms.proxy_set, NULL);
	if (r < 0)
		flow_reset(f,
			   r == -EBUSY ? "error: too many connections are being opened" : "error: no memory");
}

/* Counts the flow against its limits; NULL, or the reason for refusing it. */
static const char *flow_count_limits(struct flow *f, const struct policy_verdict *v)
{
	struct egress *eg = f->eg;
	const char *why;

	if (limits_of(&eg->limits, v, &f->limit) < 0)
		return "its limits cannot be counted";
	/* Inspected flows count each request instead. */
	if (f->depth != POLICY_INSPECT && (why = limits_request(&eg->limits, f->limit, eg->now)) != NULL)
		return why;
	return limits_connect(&eg->limits, f->limit);
}

static enum flow_refusal flow_refusal_kind(const struct flow *f)
{
	return f->hello ? FLOW_REFUSE_TLS : f->http ? FLOW_REFUSE_HTTP : FLOW_REFUSE_RESET;
}

/*
 * Is the flow as deep as the verdict requires? Bytes that are neither TLS nor HTTP may be a tunnel where the
 * policy only observes (peek.c).
 */
static bool is_deep_enough(const struct flow *f, const struct policy_verdict *v)
{
	return v->depth <= f->depth ||
	       (f->may_be_opaque && f->depth == POLICY_TUNNEL && f->eg->policy &&
		policy_mode(f->eg->policy) == POLICY_OBSERVE && (v->would_deny || v->is_default));
}

/* Judges a flow again, by the policy now in force, after it waited for a person or for the ledger. */
static void flow_judge_again(struct flow *f)
{
	struct policy_verdict v;

	loop_unwatch(&f->eg->loop, &f->client.w);
	flow_judge(f, &v);
	if (policy_may_allow(&v) && is_deep_enough(f, &v))
		flow_open(f, &v);
	else
		flow_refuse(f, &v, flow_refusal_kind(f), 0, v.why, NULL);
}

static void on_flow_answer(void *ctx, bool allow, uint64_t ticket, const char *id, const char *why)
{
	struct flow *f = ctx;
	struct policy_verdict v;
	char text[POLICY_WHY_MAX];

	f->asking = NULL;
	snprintf(f->ask_id, sizeof(f->ask_id), "%s", id);
	if (allow) {
		f->ticket = ticket;
		f->approved = true;
		flow_judge_again(f);
		return;
	}
	loop_unwatch(&f->eg->loop, &f->client.w);
	flow_judge(f, &v);
	snprintf(text, sizeof(text), "a person has to allow it: %.160s%s%.32s%s", why,
		 id[0] ? " (question " : "", id, id[0] ? ")" : "");
	flow_refuse(f, &v, flow_refusal_kind(f), 0, text, NULL);
}

/* Nothing is read while the flow waits; only the end of the client is noticed. */
static void on_waiting_client_gone(struct watch *w, uint32_t events)
{
	(void)events;
	flow_reset(w->ctx, "client");
}

/* False: the client cannot be watched. */
static bool flow_park(struct flow *f, enum flow_state state, uint32_t events)
{
	flow_set_young(f, false);
	wheel_disarm(&f->eg->wheel, &f->timeout);
	f->state = (uint8_t)state;
	loop_unwatch(&f->eg->loop, &f->client.w);
	f->client.w.fn = on_waiting_client_gone;
	return loop_watch(&f->eg->loop, &f->client.w, events) == 0;
}

static void flow_ask_person(struct flow *f, const struct policy_verdict *v)
{
	char host[HOST_MAX + 1], rule[POLICY_RULE_TEXT_MAX];
	struct askmsg m = { .kind = ASKMSG_CONNECT,
			    .port = f->port,
			    .tls = f->hello != NULL,
			    .host = flow_host(f, host),
			    .rule = policy_verdict_rule(v, rule) };
	const char *why = NULL;

	if (!flow_park(f, FLOW_ASK, EPOLLRDHUP))
		why = "the connection cannot be watched";
	else
		f->asking = asking_begin(f->eg, &m, on_flow_answer, f, &why);
	if (!f->asking)
		flow_refuse(f, v, flow_refusal_kind(f), 503, why, NULL);
}

static uint64_t flow_ledger_key(const struct flow *f, const struct policy_verdict *v)
{
	struct seen *s = &f->eg->ledger.seen;
	char rule[POLICY_RULE_TEXT_MAX], host[HOST_MAX + 1];

	seen_begin(s, LEDGER_OPEN);
	seen_adds(s, policy_verdict_rule(v, rule));
	seen_adds(s, flow_host(f, host));
	seen_add(s, &f->port, sizeof(f->port));
	seen_add(s, &f->depth, sizeof(f->depth));
	return seen_key(s);
}

static void on_flow_turn(struct ledger_wait *w, int status)
{
	struct flow *f = CONTAINER_OF(w, struct flow, turn);
	struct policy_verdict v;

	if (status == 0) {
		flow_judge_again(f);
		return;
	}
	loop_unwatch(&f->eg->loop, &f->client.w);
	flow_judge(f, &v);
	flow_refuse(f, &v, flow_refusal_kind(f), 503, LEDGER_WHY_LATE, NULL);
}

/* Nothing is dialled meanwhile; bytes in `first` stay there. */
static void flow_wait_for_room(struct flow *f, const struct policy_verdict *v)
{
	/* Not EPOLLRDHUP: a client that has sent its last byte may still expect the response. */
	if (!flow_park(f, FLOW_LEDGER, LOOP_HANG_UP)) {
		flow_refuse(f, v, flow_refusal_kind(f), 503, "the connection cannot be watched", NULL);
		return;
	}
	f->turn.fn = on_flow_turn;
	ledger_wait(&f->eg->ledger, &f->turn, 1);
}

void flow_open(struct flow *f, const struct policy_verdict *v)
{
	struct egress *eg = f->eg;
	enum ledger_verdict known;
	const char *why;
	uint64_t key;

	/*
	 * Inspected flows are asked about request by request, and nothing is dialled before one is allowed.
	 */
	if (!policy_allows(v) && !f->approved && f->depth != POLICY_INSPECT && !f->http) {
		flow_ask_person(f, v);
		return;
	}
	key = flow_ledger_key(f, v);
	known = ledger_check(&eg->ledger, key, 1);
	if (known == LEDGER_LATER) {
		flow_wait_for_room(f, v);
		return;
	}
	if (known == LEDGER_DENY) {
		flow_refuse(f, v, flow_refusal_kind(f), 503, egress_ledger_why(eg), NULL);
		return;
	}
	why = flow_count_limits(f, v);
	if (why) {
		eg->stats.limited++;
		flow_refuse(f, v, flow_refusal_kind(f), 429, why, NULL);
		return;
	}
	f->is_first = known == LEDGER_FIRST;
	if (f->is_first)
		ledger_take(&eg->ledger, key, 1);
	flow_set_young(f, false);
	f->is_open = true;
	f->generation = eg->generation;
	f->is_limited = limits_bytes(&eg->limits, f->limit);
	eg->stats.allowed++;
	eg->stats.by_depth[f->depth]++;
	flow_journal_open(f, v, true,
			  f->approved	  ? "a person allowed it"
			  : v->would_deny ? v->why
					  : NULL,
			  NULL);
	if (f->depth != POLICY_INSPECT && !f->http) {
		flow_dial(f, v);
		return;
	}
	f->state = FLOW_INSPECT;
	loop_unwatch(&eg->loop, &f->client.w);
	flow_set_timeout(f, eg->times.idle);
	eg->inspector->take(eg, f);
}

// NOLINTNEXTLINE(misc-no-recursion): through shedding the oldest, which takes one flow off the list each time
static void flow_refuse_http(struct flow *f, const struct policy_verdict *v, unsigned status, const char *why)
{
	char host[HOST_MAX + 1], method[HTTP1_METHOD_MAX + 1] = "", path[257] = "",
							   rule[POLICY_RULE_TEXT_MAX];
	autobuf struct buf out = BUF_INIT;
	struct denial d = { .status = status, .host = flow_host(f, host), .port = f->port, .reason = why };

	if (f->http && f->http->method.len && f->http->method.len < sizeof(method)) {
		memcpy(method, f->http->method.p, f->http->method.len);
		d.method = method;
	}
	if (f->http && f->http->path.len) {
		size_t len = f->http->path.len < sizeof(path) ? f->http->path.len : sizeof(path) - 1;

		memcpy(path, f->http->path.p, len);
		d.path = path;
	}
	if (v && policy_verdict_rule(v, rule)[0])
		d.rule = policy_verdict_rule(v, rule);
	d.hint = v ? v->hint : NULL;
	deny_http1(&out, &d, strcmp(method, "HEAD") == 0);
	flow_say(f, buf_cstr(&out), out.len);
}

// NOLINTNEXTLINE(misc-no-recursion): through shedding the oldest, which takes one flow off the list each time
void flow_refuse(struct flow *f, const struct policy_verdict *v, enum flow_refusal how, unsigned status,
		 const char *why, const char *seen)
{
	uint8_t alert[TLS_ALERT_LEN];

	if (!f->is_refused) {
		f->eg->stats.denied++;
		flow_journal_open(f, v, false, why, seen);
		f->is_refused = true;
	}
	flow_set_young(f, false);
	if (how == FLOW_REFUSE_HTTP) {
		flow_refuse_http(f, v, status, why);
	} else if (how == FLOW_REFUSE_TLS) {
		tls_alert_format(seen ? TLS_ALERT_UNRECOGNIZED_NAME : TLS_ALERT_ACCESS_DENIED, alert);
		flow_say(f, alert, sizeof(alert));
	} else {
		flow_reset(f, "denied");
	}
}

/* Discards further input until the client has closed, so that no reset overtakes the text. */
static void on_refused_client_data(struct watch *w, uint32_t events)
{
	struct flow *f = w->ctx;

	(void)events;
	for (;;) {
		ssize_t n = recv(w->fd, f->eg->scratch, EGRESS_SCRATCH, MSG_DONTWAIT);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n <= 0) {
			flow_end(f, "denied");
			return;
		}
		f->server.in_pipe += (uint32_t)n;
		if (f->server.in_pipe > FLOW_DRAIN_MAX) {
			flow_reset(f, "denied");
			return;
		}
	}
}

// NOLINTNEXTLINE(misc-no-recursion): through shedding the oldest, which takes one flow off the list each time
void flow_say(struct flow *f, const void *text, size_t len)
{
	/* Shorter than any socket buffer, and nothing was sent on it before. */
	ssize_t n = send(f->client.w.fd, text, len, MSG_NOSIGNAL | MSG_DONTWAIT);

	flow_set_young(f, false);
	if (n != (ssize_t)len || shutdown(f->client.w.fd, SHUT_WR) < 0) {
		flow_reset(f, "denied");
		return;
	}
	f->state = FLOW_DENY;
	loop_unwatch(&f->eg->loop, &f->client.w);
	f->client.w.fn = on_refused_client_data;
	flow_set_timeout(f, f->eg->times.deny);
	if (loop_watch(&f->eg->loop, &f->client.w, EPOLLIN | EPOLLRDHUP) < 0)
		flow_reset(f, "denied");
}

static void flow_wait_for_bandwidth(struct flow *f)
{
	struct egress *eg = f->eg;

	if (f->is_paused)
		return;
	f->is_paused = true;
	TAILQ_INSERT_TAIL(&eg->paused, f, in_paused);
	if (!eg->refill.armed)
		loop_timer(&eg->loop, &eg->refill, eg->now + 20 * NSEC_PER_MSEC);
}

long flow_grant(struct flow *f, enum limit_way way, size_t want)
{
	long n;

	if (!f->is_limited)
		return (long)want;
	n = limits_take(&f->eg->limits, f->limit, way, want, f->eg->now);
	if (n == 0)
		flow_wait_for_bandwidth(f);
	return n;
}

void flow_return(struct flow *f, enum limit_way way, size_t unused)
{
	if (f->is_limited && unused)
		limits_return(&f->eg->limits, f->limit, way, unused);
}

/* From here on the new limit counts, also for bytes that were read under the old one and not sent yet. */
static void flow_change_limit(struct flow *f, struct limit *limit)
{
	size_t held = f->client.held.len + f->client.in_pipe;
	struct egress *eg = f->eg;

	flow_return(f, LIMIT_UP, held);
	if (f->limit)
		f->limit->connections--;
	if (limit)
		limit->connections++;
	f->limit = limit;
	f->is_limited = limits_bytes(&eg->limits, limit);
	if (f->is_limited && held)
		limits_count_up(&eg->limits, limit, held);
}

void flow_rejudge_all(struct egress *eg)
{
	struct flow *f, *next;

	if (eg->inspector)
		eg->inspector->hold(eg, true);
	for (f = TAILQ_FIRST(&eg->flows); f; f = next) {
		struct policy_verdict v;
		struct limit *limit = NULL;

		next = TAILQ_NEXT(f, in_all);
		if (f->state == FLOW_ASK || f->state == FLOW_LEDGER) {
			asking_drop(f->asking);
			f->asking = NULL;
			ledger_unwait(&eg->ledger, &f->turn);
			flow_judge_again(f);
			continue;
		}
		if (!f->is_open)
			continue;
		flow_judge(f, &v);
		/* A person's approval stays valid where the policy still says ask. */
		if (v.action == POLICY_ASK && (f->approved || f->state == FLOW_INSPECT))
			v.action = POLICY_ALLOW;
		if (!policy_allows(&v) || v.depth > f->depth || limits_of(&eg->limits, &v, &limit) < 0) {
			flow_reset_any_owner(f, "policy");
			continue;
		}
		flow_change_limit(f, limit);
		f->generation = eg->generation;
		if (f->state == FLOW_INSPECT)
			eg->inspector->policy_changed(eg, f);
	}
	if (eg->inspector)
		eg->inspector->hold(eg, false);
}
