/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the API: the numbers of decisions by kind, and bytes, over time, as buckets for a graph. Nothing but
 * the log is counted.
 */
#include "base/clock.h"
#include "cli/api/web_work.h"
#include "cli/core/ref.h"
#include "cli/net/net_event.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define BUCKETS_MAX 500

struct bucket {
	uint64_t allow, deny, ask, up, down;
};

struct series {
	uint64_t from, to;
	size_t n;
	struct bucket *v;
};

static void series_release(struct series *s)
{
	free(s->v);
}

static void add_saturating(uint64_t *sum, uint64_t v)
{
	/*
	 * The counts come from a process that talks to strangers: their sum saturates instead of
	 * overflowing.
	 */
	if (__builtin_add_overflow(*sum, v, sum))
		*sum = UINT64_MAX;
}

static bool is_net_decision(const struct net_event *ev)
{
	return ev->kind == NETEV_DNS || ev->kind == NETEV_OPEN || ev->kind == NETEV_REQUEST;
}

static struct bucket *bucket_at(const struct series *s, uint64_t t)
{
	if (t < s->from || t >= s->to)
		return NULL;
	return &s->v[(size_t)((__uint128_t)(t - s->from) * s->n / (s->to - s->from))];
}

static void count_net_event(const struct series *s, const struct net_event *ev)
{
	uint64_t times = ev->count ? ev->count : 1;
	struct bucket *b = bucket_at(s, ev->t);

	if (!b)
		return;
	if (ev->kind == NETEV_CLOSE) {
		add_saturating(&b->up, ev->up);
		add_saturating(&b->down, ev->down);
	} else if (ev->kind == NETEV_REFUSED || (is_net_decision(ev) && ev->denied)) {
		add_saturating(&b->deny, times);
	} else if (is_net_decision(ev) && ev->decision && !cli_net_event_is_outcome(ev)) {
		add_saturating(&b->allow, times);
	}
}

static void count_log_event(const struct series *s, const struct audit_record *rec)
{
	struct net_event ev;
	struct bucket *b;
	uint64_t t;

	if (cli_net_event_parse_ask(&ev, rec)) {
		char text[LINE_TIME_LEN + 1];

		cli_net_event_release(&ev);

		snprintf(text, sizeof(text), "%.*s", LINE_TIME_LEN, rec->line.time);
		b = clock_parse(text, s->to, &t) == 0 ? bucket_at(s, t) : NULL;
		if (b)
			add_saturating(&b->ask, 1);
	} else if (cli_net_event_parse(&ev, rec)) {
		count_net_event(s, &ev);
		cli_net_event_release(&ev);
	}
}

static int count_log(const struct series *s, struct web_args *a, struct err *e)
{
	CLEANUP(audit_query_freep) struct audit_query *q = NULL;
	const char *ref = cli_web_arg(a, "sandbox");
	char id[RUN_ID_LEN + 1];
	struct audit_filter f = { .since = s->from, .sandbox = ref ? id : NULL };
	struct audit_record rec;
	int r = ref ? ref_resolve_logged(&a->st, ref, id, e) : 0;

	if (r == 0)
		r = audit_query_open(&q, a->st.fd, &f, e);
	while (r >= 0 && (r = audit_query_next(q, &rec, e)) > 0) {
		if (rec.is_event)
			count_log_event(s, &rec);
	}
	return r;
}

static void add_bucket_time(struct json *j, const char *key, uint64_t t)
{
	char text[CLOCK_TEXT_LEN];

	json_str(j, key, clock_format(t, text));
}

static void print_series(const struct series *s, struct buf *out)
{
	struct json j = JSON_INIT(out);

	json_obj(&j, NULL);
	add_bucket_time(&j, "from", s->from);
	add_bucket_time(&j, "to", s->to);
	json_u64(&j, "step_ms", (s->to - s->from) / s->n / 1000000);
	json_arr(&j, "items");
	for (size_t i = 0; i < s->n; i++) {
		json_obj(&j, NULL);
		add_bucket_time(&j, "time", s->from + (uint64_t)((__uint128_t)(s->to - s->from) * i / s->n));
		json_u64(&j, "allow", s->v[i].allow);
		json_u64(&j, "deny", s->v[i].deny);
		json_u64(&j, "ask", s->v[i].ask);
		json_u64(&j, "up", s->v[i].up);
		json_u64(&j, "down", s->v[i].down);
		json_end_obj(&j);
	}
	json_end_arr(&j);
	json_end_obj(&j);
	buf_addc(out, '\n');
}

int web_work_series(struct web_args *a, struct err *e)
{
	CLEANUP(series_release) struct series s = { 0 };
	const char *since = cli_web_arg(a, "since");
	int r;

	s.to = clock_nsec(CLOCK_REALTIME);
	if (clock_parse(since ? since : "1h", s.to, &s.from) < 0 || s.from >= s.to) {
		a->code = "bad_request";
		return err_set(e, -EINVAL, "since is not a time in the past");
	}
	s.n = cli_web_arg_num(a, "buckets", 60);
	s.v = s.n >= 1 && s.n <= BUCKETS_MAX ? calloc(s.n, sizeof(*s.v)) : NULL;
	if (!s.v)
		return err_set(e, -EINVAL, "buckets is out of range");
	r = count_log(&s, a, e);
	if (r < 0)
		return r;
	print_series(&s, &a->out);
	return 0;
}
