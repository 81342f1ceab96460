/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the API: pages of the audit log, its network events, the timeline of a run, and new events as a
 * stream. Reads the log only. A damaged line is never returned: `coffer audit verify` reports it.
 */
#include "audit/query.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/jsonget.h"
#include "base/str.h"
#include "cli/api/web_work.h"
#include "cli/core/ref.h"
#include "cli/net/net_event.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BACKLOG_BYTES (256u << 10)

/*
 * A page of events: oldest first after `after`, or else the newest before `before`. Each text is a whole
 * item of the response.
 */
struct page {
	uint64_t before, after, limit;
	uint64_t from; /* first event searched; 0: only the filter limits the search */
	bool forward, more;
	size_t bytes; /* of all texts, with the separators */
	struct {
		uint64_t seq;
		char *text;
	} * v;
	size_t n;
};

static void page_release(struct page *p)
{
	for (size_t i = 0; i < p->n; i++)
		free(p->v[i].text);
	free(p->v);
}

static int page_open(struct page *p, const struct web_args *a, bool forward, struct err *e)
{
	p->before = cli_web_arg_num(a, "before", UINT64_MAX);
	p->after = cli_web_arg_num(a, "after", 0);
	p->limit = cli_web_arg_num(a, "limit", 100);
	p->forward = forward || cli_web_arg(a, "after");
	p->v = p->limit >= 1 && p->limit <= 10000 ? calloc(p->limit, sizeof(*p->v)) : NULL;
	if (p->v)
		return 0;
	err_set(e, -EINVAL, "limit is out of range");
	return -EINVAL;
}

/* Takes the text over. 1: the page is full. */
static int page_add(struct page *p, uint64_t seq, struct buf *text)
{
	size_t bytes = p->bytes + text->len + 1;
	char *s;

	if (p->n == p->limit || (p->n && bytes > WEB_PAGE_BYTES - WEB_PAGE_REST)) {
		p->more = true;
		return 1;
	}
	s = buf_take(text);
	if (!s)
		return -ENOMEM;
	p->bytes = bytes;
	p->v[p->n].seq = seq;
	p->v[p->n++].text = s;
	return 0;
}

static void page_print(const struct page *p, struct buf *out)
{
	buf_adds(out, "{\"items\":[");
	for (size_t i = 0; i < p->n; i++) {
		if (i)
			buf_addc(out, ',');
		buf_adds(out, p->v[i].text);
	}
	buf_adds(out, "],\"next\":");
	if (p->more && p->n)
		buf_addf(out, "%llu", (unsigned long long)p->v[p->n - 1].seq);
	else if (p->from > 1)
		buf_addf(out, "%llu", (unsigned long long)p->from);
	else
		buf_adds(out, "null");
	buf_adds(out, "}\n");
}

/* The part of the log to search for a page: forwards or backwards, from where the page begins. */
struct scan {
	struct audit_query *q;
	struct audit_back *back;
	struct audit_filter f;
	uint64_t before;
	char id[RUN_ID_LEN + 1];
};

static void scan_release(struct scan *s)
{
	audit_query_free(s->q);
	audit_back_free(s->back);
}

static int scan_open(struct scan *s, struct web_args *a, const char *type, const struct page *p,
		     struct err *e)
{
	const char *ref = cli_web_arg(a, "sandbox"), *since = cli_web_arg(a, "since");
	int r = ref ? ref_resolve_logged(&a->st, ref, s->id, e) : 0;

	if (r < 0)
		return r;
	s->f = (struct audit_filter){ .type = type, .sandbox = ref ? s->id : NULL, .from = p->from };
	if (since && clock_parse(since, clock_nsec(CLOCK_REALTIME), &s->f.since) < 0)
		return err_set(e, -EINVAL, "since is not a valid time");
	s->before = p->before;
	if (!p->forward)
		return audit_back_open(&s->back, a->st.fd, &s->f, p->before, e);
	r = audit_query_open(&s->q, a->st.fd, &s->f, e);
	return r == 0 && p->after ? audit_query_seek(s->q, p->after + 1, e) : r;
}

/* 1: an event that matches the filter; 0: no more. */
static int scan_next(struct scan *s, struct audit_record *ret, struct err *e)
{
	int r;

	do
		r = s->back ? audit_back_next(s->back, ret, e) : audit_query_next(s->q, ret, e);
	while (r > 0 && !ret->is_event);
	return r > 0 && ret->line.seq >= s->before ? 0 : r;
}

/*
 * Limits the search to the last `within` events of the log, of all sandboxes, so that it ends soon even if
 * it finds nothing.
 */
static int page_bound(struct page *p, struct web_args *a, struct err *e)
{
	uint64_t within = cli_web_arg_num(a, "within", 0), last = p->before;
	int r = 0;

	if (!within)
		return 0;
	if (p->forward) {
		a->code = "bad_request";
		return err_set(e, -EINVAL,
			       "within and after exclude each other: within limits a search backwards");
	}
	if (last == UINT64_MAX) {
		r = audit_last_seq(a->st.fd, &last, e);
		last++;
	}
	p->from = r == 0 && last > within ? last - within : 0;
	return r;
}

/*
 * Lines that are not valid events are skipped: somebody changed them, and they may not be JSON. `coffer
 * audit verify` reports them.
 */
int web_work_audit(struct web_args *a, struct err *e)
{
	CLEANUP(page_release) struct page p = { 0 };
	CLEANUP(scan_release) struct scan s = { 0 };
	struct audit_record rec;
	int r = page_open(&p, a, false, e);

	if (r == 0)
		r = page_bound(&p, a, e);
	if (r == 0)
		r = scan_open(&s, a, cli_web_arg(a, "type"), &p, e);
	while (r == 0 && (r = scan_next(&s, &rec, e)) > 0) {
		struct buf text = BUF_INIT;

		buf_add(&text, rec.text, rec.len);
		r = page_add(&p, rec.line.seq, &text);
		buf_release(&text);
	}
	if (r < 0)
		return r;
	page_print(&p, &a->out);
	return 0;
}

/* --- network events --------------------------------------------------------------------------------- */

static bool is_net_row(const struct net_event *ev)
{
	return ev->kind == NETEV_DNS || ev->kind == NETEV_OPEN || ev->kind == NETEV_CLOSE ||
	       ev->kind == NETEV_REQUEST || ev->kind == NETEV_RESPONSE || ev->kind == NETEV_DIAL ||
	       ev->kind == NETEV_REFUSED || ev->kind == NETEV_ALERT || ev->kind == NETEV_ASK;
}

static bool matches_net_filter(const struct net_event *ev, const char *decision, const char *host)
{
	bool denied = ev->denied || ev->kind == NETEV_REFUSED || ev->kind == NETEV_ALERT;

	if (decision && str_eq(decision, "deny") && !denied)
		return false;
	if (decision && !str_eq(decision, "deny") && !(ev->decision && str_eq(ev->decision, decision)))
		return false;
	return !host || strcasestr(cli_net_event_host(ev), host);
}

/* JSON has one spelling only for a host of these characters, so it can be searched for in the raw line. */
static bool host_is_plain_in_json(const char *s)
{
	for (; *s; s++) {
		if (!(*s >= 'a' && *s <= 'z') && !(*s >= 'A' && *s <= 'Z') && !(*s >= '0' && *s <= '9') &&
		    *s != '.' && *s != '-')
			return false;
	}
	return true;
}

static bool line_has_text(const struct line *l, const char *text)
{
	size_t n = strlen(text);

	for (const char *p = l->fields, *end = p + l->fields_len; (size_t)(end - p) >= n; p++) {
		if ((*p | 0x20) == (*text | 0x20) && strncasecmp(p, text, n) == 0)
			return true;
	}
	return false;
}

/*
 * A quick test on the raw bytes, before the line is parsed: in a long log most lines do not match. Only
 * usable for texts that JSON does not escape.
 */
static bool may_match_net_filter(const struct line *l, const char *decision, const char *host)
{
	bool denied = line_is_type(l, "net.refused") || line_is_type(l, "net.alert");

	if (decision && !(denied && str_eq(decision, "deny")) &&
	    !memmem(l->fields, l->fields_len, decision, strlen(decision)))
		return false;
	return !host || !host_is_plain_in_json(host) || line_has_text(l, host) || str_eq(host, "-");
}

static void add_number_if(struct json *j, const char *key, uint64_t v, bool has)
{
	if (has)
		json_u64(j, key, v);
	else
		json_none(j, key);
}

static void add_event_row(struct json *j, const struct net_event *ev, uint64_t seq)
{
	bool ended = ev->kind == NETEV_CLOSE || ev->kind == NETEV_RESPONSE;

	json_obj(j, NULL);
	json_u64(j, "seq", seq);
	json_strn(j, "time", ev->time_text, LINE_TIME_LEN);
	json_str(j, "sandbox", ev->sandbox);
	json_str(j, "type", ev->type);
	json_bool(j, "denied", ev->denied || ev->kind == NETEV_REFUSED || ev->kind == NETEV_ALERT);
	json_str(j, "decision", ev->decision);
	json_str(j, "host", cli_net_event_host(ev));
	add_number_if(j, "port", ev->port, ev->port);
	json_str(j, "depth", ev->depth);
	json_str(j, "rule", ev->rule);
	json_str(j, "why", ev->why ? ev->why : ev->text);
	json_str(j, "method", ev->method);
	json_str(j, "path", ev->path);
	add_number_if(j, "status", ev->status, ev->status);
	add_number_if(j, "conn", ev->conn, ev->conn);
	add_number_if(j, "up", ev->up, ended || ev->up);
	add_number_if(j, "down", ev->down, ended || ev->down);
	add_number_if(j, "ms", ev->ms, ended || ev->ms);
	add_number_if(j, "count", ev->count, ev->count);
	json_str(j, "ask", ev->ask);
	json_str(j, "what", ev->what);
	json_str(j, "top", ev->top);
	json_end_obj(j);
}

int web_work_egress(struct web_args *a, struct err *e)
{
	CLEANUP(page_release) struct page p = { 0 };
	CLEANUP(scan_release) struct scan s = { 0 };
	const char *decision = cli_web_arg(a, "decision"), *host = cli_web_arg(a, "host");
	struct audit_record rec;
	int r = page_open(&p, a, false, e);

	if (r == 0)
		r = scan_open(&s, a, NULL, &p, e);
	while (r == 0 && (r = scan_next(&s, &rec, e)) > 0) {
		struct net_event ev;

		r = 0;
		if (!cli_net_event_may_be(&rec) || !may_match_net_filter(&rec.line, decision, host) ||
		    !(cli_net_event_parse(&ev, &rec) || cli_net_event_parse_ask(&ev, &rec)))
			continue;
		if (is_net_row(&ev) && matches_net_filter(&ev, decision, host)) {
			struct buf text = BUF_INIT;
			struct json j = JSON_INIT(&text);

			add_event_row(&j, &ev, rec.line.seq);
			r = page_add(&p, rec.line.seq, &text);
			buf_release(&text);
		}
		cli_net_event_release(&ev);
	}
	if (r < 0)
		return r;
	page_print(&p, &a->out);
	return 0;
}

/* --- the timeline of a run -------------------------------------------------------------------------- */

static void add_member_value(struct buf *out, const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);

	if (json_is_string(v)) {
		str_add_safe(out, json_string_value(v),
			     json_string_length(v) < 300 ? json_string_length(v) : 300, false);
	} else if (json_is_integer(v)) {
		buf_addf(out, "%lld", (long long)json_integer_value(v));
	} else if (json_is_array(v)) {
		for (size_t i = 0; i < json_array_size(v) && i < 24; i++) {
			const char *s = json_string_value(json_array_get(v, i));

			if (i)
				buf_addc(out, ' ');
			if (s)
				str_add_safe(out, s, strlen(s) < 200 ? strlen(s) : 200, false);
		}
	} else if (v) {
		buf_adds(out, json_is_true(v) ? "yes" : "no");
	}
}

/*
 * The sentence for each event type; {key} is replaced by that member's value. A type without a sentence is
 * shown by its name.
 */
static const struct {
	const char *type, *text, *tone;
} sentences[] = {
	{ "run.start", "started: {command}", "plain" },
	{ "run.end", "ended: {cause}, exit code {exit}", "plain" },
	{ "exec.start", "a command was run in it: {command}", "plain" },
	{ "exec.end", "a command ended with exit code {exit}", "plain" },
	{ "stop.request", "was asked to stop", "plain" },
	{ "checkpoint.create", "checkpoint {checkpoint} was made {label}", "good" },
	{ "checkpoint.skip", "no checkpoint was made: {why}", "bad" },
	{ "checkpoint.rollback", "was rolled back to {checkpoint}", "ask" },
	{ "net.up", "its network is up", "plain" },
	{ "net.down", "its network went down", "bad" },
	{ "netd.down", "the reader of its network events ended and is started again: {why}", "bad" },
	{ "netd.up", "its network events are read again", "plain" },
	{ "net.unread", "network events of it could not be read: {why}", "bad" },
	{ "net.policy", "its policy changed", "ask" },
	{ "net.dns", "looked up {name}: {decision}", "plain" },
	{ "net.open", "connection to {name}{addr} port {port}: {decision}", "plain" },
	{ "net.close", "a connection closed: {up} bytes out, {down} bytes in", "plain" },
	{ "net.request", "{method} {name}{path}: {decision}", "plain" },
	{ "net.response", "got a response with status {status}", "plain" },
	{ "net.refused", "was refused: {proto} to {addr} port {port}", "bad" },
	{ "net.alert", "alert: {text}", "bad" },
	{ "secret.use", "used the secret {name} for {host}", "ask" },
	{ "ask.new", "asks a person: {kind} {method} {host}{path} {what}", "ask" },
	{ "ask.answer", "was answered by {name} ({via}): {reason}", "ask" },
	{ "ask.use", "the approval was used", "plain" },
	{ "ask.expire", "nobody answered in time: denied", "bad" },
	{ "ask.revoke", "the approval was revoked", "ask" },
	{ "api.request", "{who} ({role}, by {via}): {act}", "ask" },
	{ "api.refused", "{who} ({role}) may not: {act}", "bad" },
};

static const char *event_sentence(const char *type, const json_t *o, struct buf *out)
{
	const char *decision = jsonget_text_or_null(o, "decision"), *text = NULL, *tone = "plain";

	for (size_t i = 0; i < ARRAY_SIZE(sentences); i++) {
		if (str_eq(sentences[i].type, type)) {
			text = sentences[i].text;
			tone = sentences[i].tone;
		}
	}
	if (!text) {
		buf_adds(out, type);
		return tone;
	}
	for (const char *p = text; *p; p++) {
		char key[32];
		size_t n = strcspn(p, "}");

		if (*p != '{') {
			buf_addc(out, *p);
			continue;
		}
		snprintf(key, sizeof(key), "%.*s", (int)n - 1, p + 1);
		add_member_value(out, o, key);
		p += n;
	}
	if (json_is_false(json_object_get(o, "allow")))
		return "bad";
	return decision && str_eq(decision, "deny")  ? "bad"
	       : decision && str_eq(decision, "ask") ? "ask"
						     : tone;
}

static int add_timeline_item(struct page *p, const struct audit_record *rec)
{
	autobuf struct buf fields = BUF_INIT, text = BUF_INIT, item = BUF_INIT;
	struct json j = JSON_INIT(&item);
	char type[80];
	const char *tone;
	json_t *o;

	snprintf(type, sizeof(type), "%.*s", (int)rec->line.type_len, rec->line.type);
	buf_addc(&fields, '{');
	buf_add(&fields, rec->line.fields, rec->line.fields_len);
	buf_addc(&fields, '}');
	o = json_loadb(buf_cstr(&fields), fields.len, JSON_ALLOW_NUL, NULL);
	tone = event_sentence(type, o, &text);
	json_decref(o);
	json_obj(&j, NULL);
	json_u64(&j, "seq", rec->line.seq);
	json_strn(&j, "time", rec->line.time, LINE_TIME_LEN);
	json_str(&j, "type", type);
	json_strn(&j, "text", buf_cstr(&text), text.len);
	json_str(&j, "tone", tone);
	json_end_obj(&j);
	return page_add(p, rec->line.seq, &item);
}

int web_work_timeline(struct web_args *a, struct err *e)
{
	CLEANUP(page_release) struct page p = { 0 };
	CLEANUP(scan_release) struct scan s = { 0 };
	struct audit_record rec;
	int r = page_open(&p, a, true, e);

	if (r == 0)
		r = scan_open(&s, a, NULL, &p, e);
	while (r == 0 && (r = scan_next(&s, &rec, e)) > 0)
		r = add_timeline_item(&p, &rec);
	if (r < 0)
		return r;
	page_print(&p, &a->out);
	return 0;
}

/* --- streams ---------------------------------------------------------------------------------------- */

static void add_feed_line(struct buf *out, const struct audit_record *rec)
{
	buf_addf(out, "%llu\t%.*s\t%.*s\t", (unsigned long long)rec->line.seq, (int)rec->line.type_len,
		 rec->line.type, (int)rec->line.sandbox_len, rec->line.sandbox ? rec->line.sandbox : "");
	buf_add(out, rec->text, rec->len);
	buf_addc(out, '\n');
}

/* Prints events after `after`: as many as requested, or as fit into BACKLOG_BYTES. */
int web_work_backlog(struct web_args *a, struct err *e)
{
	CLEANUP(scan_release) struct scan s = { 0 };
	const struct page from = { .before = UINT64_MAX,
				   .after = cli_web_arg_num(a, "after", 0),
				   .forward = true };
	uint64_t limit = cli_web_arg_num(a, "limit", 500);
	struct audit_record rec;
	int r = scan_open(&s, a, NULL, &from, e);

	while (r == 0 && limit && a->out.len < BACKLOG_BYTES && (r = scan_next(&s, &rec, e)) > 0) {
		r = 0;
		add_feed_line(&a->out, &rec);
		limit--;
	}
	return r;
}

static int flush_feed(struct buf *b)
{
	int r = fd_write_all(STDOUT_FILENO, buf_cstr(b), b->len);

	buf_clear(b);
	return r;
}

/*
 * Runs until its reader closes the pipe: first prints the number that it was given, then every later event
 * as it is logged.
 */
int web_work_feed(struct web_args *a, struct err *e)
{
	CLEANUP(scan_release) struct scan s = { 0 };
	const struct page from = { .before = UINT64_MAX,
				   .after = cli_web_arg_num(a, "after", 0),
				   .forward = true };
	struct audit_record rec;
	int r = scan_open(&s, a, NULL, &from, e);

	buf_addf(&a->out, "%llu\n", (unsigned long long)from.after);
	while (r == 0) {
		while ((r = scan_next(&s, &rec, e)) > 0) {
			add_feed_line(&a->out, &rec);
			if (a->out.len > (64u << 10) && flush_feed(&a->out) < 0)
				return 0;
		}
		if (r == 0)
			r = flush_feed(&a->out);
		if (r == 0)
			r = audit_query_wait(s.q, 1000, e);
	}
	return r == -EPIPE ? 0 : r;
}
