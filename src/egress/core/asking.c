/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pending asks of this sandbox and their last results. Nothing passes here without an answer of the guard
 * (asking.K1); kept results are only shown.
 */
#include "egress/core/asking.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "egress/core/control.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The subject of an ask, as shown inside; cut to these lengths. */
struct ask_subject {
	enum askmsg_kind kind;
	uint16_t port;
	char host[256], method[33], path[256], what[256];
	char id[sizeof((struct ctl_answer){ 0 }.id) + 1]; /* "": none, or not known yet */
};

struct asking {
	struct egress *eg;
	struct asking *next, **link;
	uint64_t ticket;
	asking_fn *done;
	void (*named)(void *ctx, const char *id);
	void *ctx;
	uint64_t since, until; /* eg->now; until 0: unknown */
	struct ask_subject about;
};

enum ask_outcome { ALLOWED, DENIED, EXPIRED, REFUSED /* without asking a person */ };

static const char *const outcomes[] = { "allowed", "denied", "expired", "refused" };

/* asking.K4, newest first. */
struct asking_past {
	unsigned n;
	struct asked_before {
		uint64_t at; /* eg->now */
		uint64_t times;
		enum ask_outcome outcome;
		struct ask_subject about;
		char why[sizeof((struct ctl_answer){ 0 }.why) + 1];
	} v[ASKING_PAST_MAX];
};

static void unlink_asking(struct asking *a)
{
	*a->link = a->next;
	if (a->next)
		a->next->link = a->link;
	a->eg->n_asking--;
	free(a);
}

static void send_ticket_state(struct egress *eg, enum ctl_type type, uint64_t ticket)
{
	control_queue(eg, type, &ticket, sizeof(ticket));
}

static void copy_cut(char *to, size_t size, const char *from)
{
	snprintf(to, size, "%s", from ? from : "");
}

struct asking *asking_begin(struct egress *eg, struct askmsg *m, asking_fn *done, void *ctx,
			    const char **ret_why)
{
	autobuf struct buf b = BUF_INIT;
	struct asking *a;

	*ret_why = "too many requests wait for a person's answer";
	if (!eg->control || eg->n_asking >= ASKING_MAX)
		return NULL;
	/* A restarted process reuses ticket numbers: the guard has dropped those of the old one. */
	m->ticket = ++eg->next_ticket;
	m->generation = eg->generation;
	*ret_why = "it is too long to be shown to a person, so nobody can be asked";
	if (askmsg_pack(m, &b) < 0)
		return NULL;
	*ret_why = "out of memory";
	a = calloc(1, sizeof(*a));
	if (!a)
		return NULL;
	*a = (struct asking){ .eg = eg,
			      .ticket = m->ticket,
			      .done = done,
			      .ctx = ctx,
			      .since = eg->now,
			      .about = { .kind = m->kind, .port = m->port } };
	copy_cut(a->about.host, sizeof(a->about.host), m->host);
	copy_cut(a->about.method, sizeof(a->about.method), m->method);
	copy_cut(a->about.path, sizeof(a->about.path), m->path);
	/* The `what` of a request has its headers, which are not shown inside. */
	copy_cut(a->about.what, sizeof(a->about.what), m->kind == ASKMSG_REQUEST ? "" : m->what);
	a->next = eg->asking;
	a->link = &eg->asking;
	if (a->next)
		a->next->link = &a->next;
	eg->asking = a;
	eg->n_asking++;
	control_queue(eg, CTL_ASK, b.data, b.len);
	return a;
}

void asking_want_id(struct asking *a, void (*named)(void *ctx, const char *id))
{
	a->named = named;
}

void asking_drop(struct asking *a)
{
	if (!a)
		return;
	send_ticket_state(a->eg, CTL_ASK_DROP, a->ticket);
	unlink_asking(a);
}

void asking_settle(struct egress *eg, uint64_t ticket, bool sent)
{
	if (ticket)
		send_ticket_state(eg, sent ? CTL_ASK_TAKEN : CTL_ASK_UNUSED, ticket);
}

static bool is_same_subject(const struct ask_subject *a, const struct ask_subject *b)
{
	if (a->id[0] || b->id[0])
		return str_eq(a->id, b->id);
	return a->kind == b->kind && a->port == b->port && str_eq(a->host, b->host) &&
	       str_eq(a->method, b->method) && str_eq(a->path, b->path) && str_eq(a->what, b->what);
}

/* asking.K4. Without memory the result is not kept; no decision depends on it. */
static void remember_result(struct egress *eg, const struct ask_subject *about, enum ask_outcome o,
			    const char *why)
{
	struct asking_past *p = eg->answered;
	struct asked_before one = { .at = eg->now, .times = 1, .outcome = o, .about = *about };
	unsigned i = 0;

	if (!p)
		p = eg->answered = calloc(1, sizeof(*p));
	if (!p)
		return;
	copy_cut(one.why, sizeof(one.why), why);
	while (i < p->n && !(p->v[i].outcome == o && is_same_subject(&p->v[i].about, about)))
		i++;
	if (i < p->n)
		one.times += p->v[i].times;
	else if (p->n < ASKING_PAST_MAX)
		p->n++;
	else
		i--;
	memmove(p->v + 1, p->v, i * sizeof(p->v[0]));
	p->v[0] = one;
}

void asking_answered(struct egress *eg, const struct ctl_answer *n)
{
	char id[sizeof(n->id) + 1], why[sizeof(n->why) + 1];
	struct asking *a = eg->asking;
	asking_fn *done;
	void *ctx;

	while (a && a->ticket != n->ticket)
		a = a->next;
	if (!a) {
		/* The ask was dropped while the answer was on its way. */
		if (n->allow == CTL_YES)
			asking_settle(eg, n->ticket, false);
		return;
	}
	memcpy(id, n->id, sizeof(n->id));
	memcpy(why, n->why, sizeof(n->why));
	id[sizeof(n->id)] = why[sizeof(n->why)] = '\0';
	copy_cut(a->about.id, sizeof(a->about.id), id);
	remember_result(eg, &a->about,
			n->allow == CTL_YES    ? ALLOWED
			: n->allow == CTL_LATE ? EXPIRED
			: id[0]		       ? DENIED
					       : REFUSED,
			why);
	done = a->done;
	ctx = a->ctx;
	unlink_asking(a);
	done(ctx, n->allow == CTL_YES, n->ticket, id, why);
}

void asking_named(struct egress *eg, const struct ctl_answer *n)
{
	char id[sizeof(n->id) + 1];
	struct asking *a = eg->asking;

	while (a && a->ticket != n->ticket)
		a = a->next;
	if (!a)
		return;
	memcpy(id, n->id, sizeof(n->id));
	id[sizeof(n->id)] = '\0';
	copy_cut(a->about.id, sizeof(a->about.id), id);
	a->until = n->left ? eg->now + n->left * NSEC_PER_SEC : 0;
	if (a->named)
		a->named(a->ctx, id);
}

static const char *const ask_kinds[] = { "connect", "request", "graphql", "git", "secret", "widen" };
static_assert(ARRAY_SIZE(ask_kinds) == ASKMSG_KIND_COUNT, "one for each");

static void subject_json(const struct ask_subject *a, struct json *j)
{
	json_str(j, "kind", ask_kinds[a->kind]);
	if (a->host[0])
		json_str(j, "host", a->host);
	if (a->port)
		json_u64(j, "port", a->port);
	if (a->method[0])
		json_str(j, "method", a->method);
	if (a->path[0])
		json_str(j, "path", a->path);
	if (a->what[0])
		json_str(j, "what", a->what);
	if (a->id[0])
		json_str(j, "id", a->id);
}

static void add_ask_why(struct json *j, const char *why)
{
	autobuf struct buf shown = BUF_INIT;

	policy_text_inside(why, &shown);
	json_str(j, "why", buf_cstr(&shown));
}

static void past_asks_json(const struct egress *eg, struct json *j)
{
	json_arr(j, "answered");
	for (unsigned i = 0; eg->answered && i < eg->answered->n; i++) {
		const struct asked_before *p = &eg->answered->v[i];

		json_obj(j, NULL);
		subject_json(&p->about, j);
		json_str(j, "outcome", outcomes[p->outcome]);
		if (p->why[0])
			add_ask_why(j, p->why);
		if (p->times > 1)
			json_u64(j, "times", p->times);
		json_u64(j, "seconds", (eg->now - p->at) / NSEC_PER_SEC);
		json_end_obj(j);
	}
	json_end_arr(j);
}

void asking_describe(const struct egress *eg, struct json *j)
{
	json_arr(j, "waiting");
	for (const struct asking *a = eg->asking; a; a = a->next) {
		json_obj(j, NULL);
		subject_json(&a->about, j);
		json_u64(j, "seconds", (eg->now - a->since) / NSEC_PER_SEC);
		if (a->until)
			json_u64(j, "seconds_left",
				 a->until > eg->now ? (a->until - eg->now) / NSEC_PER_SEC : 0);
		json_end_obj(j);
	}
	json_end_arr(j);
	past_asks_json(eg, j);
}

void asking_describe_text(const struct egress *eg, struct buf *out)
{
	if (eg->n_asking)
		buf_addf(out, "\n%u request%s of this sandbox wait%s for a person's answer.\n", eg->n_asking,
			 eg->n_asking == 1 ? "" : "s", eg->n_asking == 1 ? "s" : "");
	if (eg->answered)
		buf_adds(out,
			 "\nResults of the last requests that needed a person's approval, newest first:\n");
	for (unsigned i = 0; eg->answered && i < eg->answered->n; i++) {
		const struct asked_before *p = &eg->answered->v[i];
		const char *const parts[] = { p->about.method, p->about.host, p->about.path, p->about.what };

		buf_addf(out, "  %s: %s", outcomes[p->outcome], ask_kinds[p->about.kind]);
		for (size_t k = 0; k < ARRAY_SIZE(parts); k++) {
			buf_adds(out, parts[k][0] && parts[k] != p->about.path ? " " : "");
			str_add_safe(out, parts[k], strlen(parts[k]), false);
			if (parts[k] == p->about.host && p->about.port)
				buf_addf(out, ":%u", (unsigned)p->about.port);
		}
		buf_adds(out, p->why[0] ? ": " : "");
		str_add_safe(out, p->why, strlen(p->why), false);
		buf_adds(out, p->about.id[0] ? " (question " : "");
		str_add_safe(out, p->about.id, strlen(p->about.id), false);
		buf_adds(out, p->about.id[0] ? ")\n" : "\n");
	}
}

void asking_close(struct egress *eg)
{
	while (eg->asking)
		unlink_asking(eg->asking);
	free(eg->answered);
	eg->answered = NULL;
}
