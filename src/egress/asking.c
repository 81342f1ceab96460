/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/asking.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "egress/control.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct asking {
	struct egress *eg;
	struct asking *next, **link;
	uint64_t ticket;
	asking_fn *done;
	void (*named)(void *ctx, const char *id);
	void *ctx;
	uint64_t since;
	enum askmsg_kind kind;
	uint16_t port;
	char host[256], method[33], path[256];
};

static void unlink_one(struct asking *a)
{
	*a->link = a->next;
	if (a->next)
		a->next->link = a->link;
	a->eg->n_asking--;
	free(a);
}

static void send_ticket(struct egress *eg, enum ctl_type type, uint64_t ticket)
{
	control_queue(eg, type, &ticket, sizeof(ticket));
}

static void copy(char *to, size_t size, const char *from)
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
	/* Tickets go on where the process before this one may have left some: the guard forgot those. */
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
			      .kind = m->kind,
			      .port = m->port };
	copy(a->host, sizeof(a->host), m->host);
	copy(a->method, sizeof(a->method), m->method);
	copy(a->path, sizeof(a->path), m->path);
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
	send_ticket(a->eg, CTL_ASK_DROP, a->ticket);
	unlink_one(a);
}

void asking_settle(struct egress *eg, uint64_t ticket, bool sent)
{
	if (ticket)
		send_ticket(eg, sent ? CTL_ASK_TAKEN : CTL_ASK_UNUSED, ticket);
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
		/* It was dropped while the answer was on its way. */
		if (n->allow == 1)
			asking_settle(eg, n->ticket, false);
		return;
	}
	memcpy(id, n->id, sizeof(n->id));
	memcpy(why, n->why, sizeof(n->why));
	id[sizeof(n->id)] = why[sizeof(n->why)] = '\0';
	done = a->done;
	ctx = a->ctx;
	unlink_one(a);
	done(ctx, n->allow == 1, n->ticket, id, why);
}

void asking_named(struct egress *eg, const struct ctl_answer *n)
{
	char id[sizeof(n->id) + 1];
	struct asking *a = eg->asking;

	while (a && a->ticket != n->ticket)
		a = a->next;
	memcpy(id, n->id, sizeof(n->id));
	id[sizeof(n->id)] = '\0';
	if (a && a->named)
		a->named(a->ctx, id);
}

unsigned asking_count(const struct egress *eg)
{
	return eg->n_asking;
}

void asking_describe(const struct egress *eg, struct json *j)
{
	static const char *const names[] = { "connect", "request", "graphql", "git", "secret", "widen" };

	json_arr(j, "waiting");
	for (const struct asking *a = eg->asking; a; a = a->next) {
		json_obj(j, NULL);
		json_str(j, "kind", names[a->kind]);
		if (a->host[0])
			json_str(j, "host", a->host);
		if (a->port)
			json_u64(j, "port", a->port);
		if (a->method[0])
			json_str(j, "method", a->method);
		if (a->path[0])
			json_str(j, "path", a->path);
		json_u64(j, "seconds", (eg->now - a->since) / NSEC_PER_SEC);
		json_end_obj(j);
	}
	json_end_arr(j);
}

void asking_close(struct egress *eg)
{
	while (eg->asking)
		unlink_one(eg->asking);
}
