/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the list of requested rules and their answers, for the page of coffer.internal. Grants nothing: a
 * granted rule takes effect when the guard sends a new policy.
 */
#include "egress/core/access.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "egress/core/asking.h"
#include "policy/build.h"

#include <stdlib.h>
#include <string.h>

enum access_state { ACCESS_WAITS, ACCESS_GRANTED, ACCESS_DENIED, ACCESS_REFUSED };

struct access {
	struct egress *eg;
	struct access *next;   /* the next older one */
	struct asking *asking; /* while the ask is pending */
	enum access_state state;
	uint64_t since;
	char rule[ACCESS_RULE_MAX + 1];
	char id[32], why[208];
};

static unsigned count_requests(const struct egress *eg, bool waiting)
{
	unsigned n = 0;

	for (const struct access *a = eg->access; a; a = a->next)
		n += !waiting || a->state == ACCESS_WAITS;
	return n;
}

static void on_access_answer(void *ctx, bool allow, uint64_t ticket, const char *id, const char *why)
{
	autobuf struct buf shown = BUF_INIT;
	struct access *a = ctx;

	a->asking = NULL;
	/* The rule is in force by now: nothing else will be sent under this ticket. */
	if (allow)
		asking_settle(a->eg, ticket, true);
	a->state = allow ? ACCESS_GRANTED : id[0] ? ACCESS_DENIED : ACCESS_REFUSED;
	snprintf(a->id, sizeof(a->id), "%s", id);
	policy_text_inside(why, &shown);
	snprintf(a->why, sizeof(a->why), "%s", buf_cstr(&shown));
	page_access_changed(a->eg, a);
}

static void on_access_id(void *ctx, const char *id)
{
	struct access *a = ctx;

	snprintf(a->id, sizeof(a->id), "%s", id);
	page_access_changed(a->eg, a);
}

/* Frees one place if necessary. False: all entries are pending. */
static bool drop_oldest_decided(struct egress *eg)
{
	struct access **p, **oldest = NULL, *a;

	if (count_requests(eg, false) < ACCESS_KEPT_MAX)
		return true;
	for (p = &eg->access; *p; p = &(*p)->next) {
		if ((*p)->state != ACCESS_WAITS)
			oldest = p;
	}
	if (!oldest)
		return false;
	a = *oldest;
	*oldest = a->next;
	free(a);
	return true;
}

struct access *access_ask(struct egress *eg, const struct access_body *b, const char **ret_why)
{
	struct askmsg m = { .kind = ASKMSG_WIDEN, .what = b->rule, .reason = b->reason };
	struct access *a;

	for (a = eg->access; a; a = a->next) {
		if (a->state == ACCESS_WAITS && str_eq(a->rule, b->rule))
			return a;
	}
	*ret_why = "too many rules wait for a person's answer already";
	if (count_requests(eg, true) >= ACCESS_PENDING_MAX || !drop_oldest_decided(eg))
		return NULL;
	*ret_why = "out of memory";
	a = calloc(1, sizeof(*a));
	if (!a)
		return NULL;
	*a = (struct access){ .eg = eg, .since = eg->now };
	snprintf(a->rule, sizeof(a->rule), "%s", b->rule);
	a->asking = asking_begin(eg, &m, on_access_answer, a, ret_why);
	if (!a->asking) {
		free(a);
		return NULL;
	}
	asking_want_id(a->asking, on_access_id);
	a->next = eg->access;
	eg->access = a;
	return a;
}

struct access *access_find(const struct egress *eg, const char *id, size_t len)
{
	struct access *a = eg->access;

	while (a && !(a->id[0] && strlen(a->id) == len && memcmp(a->id, id, len) == 0))
		a = a->next;
	return a;
}

bool access_is_decided(const struct access *a)
{
	return a->state != ACCESS_WAITS;
}

bool access_is_known(const struct access *a)
{
	return a->id[0] || access_is_decided(a);
}

unsigned access_status(const struct access *a)
{
	static const unsigned of[] = { 202, 200, 403, 409 };

	return of[a->state];
}

/* A grant ends at its deadline or when it is revoked: only the policy knows. */
static bool is_grant_over(const struct egress *eg, const struct access *a)
{
	char source[48];

	snprintf(source, sizeof(source), "question %s", a->id);
	return a->state == ACCESS_GRANTED && (!eg->policy || !policy_is_widened_by(eg->policy, source));
}

void access_json(const struct egress *eg, const struct access *a, struct json *j, const char *key)
{
	static const char *const names[] = { "waiting", "granted", "denied", "refused" };

	json_obj(j, key);
	json_str(j, "id", a->id[0] ? a->id : NULL);
	json_str(j, "rule", a->rule);
	json_str(j, "state", is_grant_over(eg, a) ? "ended" : names[a->state]);
	if (a->why[0])
		json_str(j, "why", a->why);
	json_u64(j, "seconds", (eg->now - a->since) / NSEC_PER_SEC);
	json_end_obj(j);
}

void access_list(const struct egress *eg, struct json *j, const char *key)
{
	json_arr(j, key);
	for (const struct access *a = eg->access; a; a = a->next)
		access_json(eg, a, j, NULL);
	json_end_arr(j);
}

void access_close(struct egress *eg)
{
	while (eg->access) {
		struct access *a = eg->access;

		eg->access = a->next;
		free(a);
	}
}
