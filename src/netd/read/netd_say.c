/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which denials the terminal shows (netd_say.h). Pure. Nothing here may decide what the log gets.
 */
#include "netd/read/netd_say.h"

#include "base/str.h"

#include <stdio.h>
#include <string.h>

/* Lines claim what they like: a sum stops at its maximum, and is not small again. */
static void add_up(uint64_t *sum, uint64_t n)
{
	*sum = n > UINT64_MAX - *sum ? UINT64_MAX : *sum + n;
}

void netd_say_begin(struct netd_say *s, uint64_t now)
{
	s->lines = bucket_new(NETD_SAY_BURST, NETD_SAY_RATE, now);
}

static void say_together(struct netd_say *s, uint64_t now)
{
	if (!s->due)
		s->due = now + NETD_SAY_TOGETHER;
}

/* Two lines about one subject; an alert of coffer-dial and the denial by coffer-egress are two, since it is chance whose journal is
 * read first. */
static bool is_same_subject(const struct netd_said *a, const struct netd_said *b)
{
	return a->kind == b->kind && a->port == b->port && str_eq(a->name, b->name) &&
	       str_eq(a->method, b->method) && str_eq(a->path, b->path);
}

static struct netd_said describe_line(const struct net_line *l)
{
	struct netd_said t = { .kind = l->ev == NET_EV_ALERT ? NETD_SAID_ALERT
				       : l->decision == NET_ERROR
					       ? NETD_SAID_FAILED /* not the policy's decision */
					       : NETD_SAID_DENIED,
			       .count = 1 };

	snprintf(t.name, sizeof(t.name), "%s", l->name);
	snprintf(t.why, sizeof(t.why), "%s", l->why);
	if (l->ev == NET_EV_REQUEST) {
		snprintf(t.method, sizeof(t.method), "%.15s", l->what);
		snprintf(t.path, sizeof(t.path), "%.63s", l->path);
	} else {
		t.port = l->port;
	}
	return t;
}

void netd_say_line(struct netd_say *s, const struct net_line *l, uint64_t now)
{
	struct netd_said t;

	/* egress has already reported what dial refuses; and programs look up every name twice (A and AAAA). */
	if (l->ev == NET_EV_DIAL || (l->ev == NET_EV_DNS && !str_eq(l->what, "A")))
		return;
	/* A sum of denials without names. */
	if (l->is_sum) {
		add_up(&s->unsaid, l->count);
		say_together(s, now);
		return;
	}
	t = describe_line(l);
	for (size_t i = 0; i < s->n; i++) {
		if (is_same_subject(&s->rows[i].s, &t)) {
			add_up(&s->rows[i].more, l->count);
			say_together(s, now);
			return;
		}
	}
	if (s->n == NETD_SAID_KEYS || !bucket_take(&s->lines, now)) {
		add_up(&s->unsaid, l->count);
		say_together(s, now);
		return;
	}
	t.about = (uint32_t)++s->n;
	s->rows[t.about - 1] = (struct netd_say_row){ .s = t };
	s->send(s->ctx, &t);
}

void netd_say_tick(struct netd_say *s, uint64_t now, bool all)
{
	uint64_t left_out = s->unsaid;

	if (!s->due || (now < s->due && !all))
		return;
	for (size_t i = 0; i < s->n; i++) {
		struct netd_said t = s->rows[i].s;

		if (!s->rows[i].more)
			continue;
		t.again = 1;
		t.count = s->rows[i].more;
		if (bucket_take(&s->lines, now))
			s->send(s->ctx, &t);
		else
			add_up(&left_out, t.count);
		s->rows[i].more = 0;
	}
	if (left_out) {
		const struct netd_said rest = { .kind = NETD_SAID_REST, .again = 1, .count = left_out };

		s->send(s->ctx, &rest);
	}
	s->unsaid = 0;
	s->due = 0;
}
