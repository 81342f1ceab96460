/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters and token buckets of egress_limits.h. Grants or refuses only: the caller denies, waits and writes
 * the journal.
 */
#include "egress/account/egress_limits.h"

#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SMALLEST_GRANT 512 /* a smaller grant is not worth a system call: wait for more */

/* egress_limits.L3: hashes "allow example.com:443 (team.yaml:12)" without its last part. */
static uint64_t rule_key(const char *text)
{
	const char *place = strrchr(text, '(');
	size_t len = place && place > text ? (size_t)(place - text) : strlen(text);
	uint64_t h = 0xcbf29ce484222325ULL;

	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)text[i]) * 0x100000001b3ULL;
	return h ? h : 1;
}

int limits_init(struct limits *l, struct egress_names *names, struct err *e)
{
	*l = (struct limits){ .names = names };
	l->all.up = egress_names_counter(names, 0);
	return l->all.up ? 0 : err_set(e, -ENOSPC, "there is no counter for the sandbox");
}

void limits_release(struct limits *l)
{
	while (l->rules) {
		struct limit *next = l->rules->next;

		free(l->rules);
		l->rules = next;
	}
}

void limits_load(struct limits *l, const struct policy *p)
{
	l->all.max = p ? policy_limits(p) : (struct policy_limits){ 0 };
}

static struct limit *add_rule_limit(struct limits *l, uint64_t key)
{
	struct limit *m = l->n < LIMITS_MAX ? calloc(1, sizeof(*m)) : NULL;

	if (!m)
		return NULL;
	m->key = key;
	m->up = egress_names_counter(l->names, key);
	if (!m->up) {
		free(m);
		return NULL;
	}
	m->next = l->rules;
	l->rules = m;
	l->n++;
	return m;
}

int limits_of(struct limits *l, const struct policy_verdict *v, struct limit **ret)
{
	const struct policy_limits *max = &v->terms.limits;
	char text[POLICY_RULE_TEXT_MAX];
	struct limit *m;
	uint64_t key;

	*ret = NULL;
	if (!max->bytes_up && !max->bandwidth && !max->connections && !max->requests_per_minute)
		return 0;
	key = rule_key(policy_verdict_rule(v, text));
	for (m = l->rules; m && m->key != key; m = m->next)
		;
	if (!m)
		m = add_rule_limit(l, key);
	if (!m)
		return -ENOSPC;
	m->max = *max;
	*ret = m;
	return 0;
}

static bool is_at_connection_limit(const struct limit *m)
{
	return m && m->max.connections && m->connections >= m->max.connections;
}

const char *limits_connect(struct limits *l, struct limit *rule)
{
	if (is_at_connection_limit(rule))
		return "the rule's limit of connections at once is reached";
	if (is_at_connection_limit(&l->all))
		return "the sandbox's limit of connections at once is reached";
	l->all.connections++;
	if (rule)
		rule->connections++;
	return NULL;
}

void limits_disconnect(struct limits *l, struct limit *rule)
{
	BUG_ON(l->all.connections == 0 || (rule && rule->connections == 0));
	l->all.connections--;
	if (rule)
		rule->connections--;
}

static bool has_request_left(struct limit *m, uint64_t minute)
{
	if (m->minute != minute) {
		m->minute = minute;
		m->requests = 0;
	}
	return !m->max.requests_per_minute || m->requests < m->max.requests_per_minute;
}

const char *limits_request(struct limits *l, struct limit *rule, uint64_t now_ns)
{
	uint64_t minute = now_ns / (60 * NSEC_PER_SEC);

	if (rule && !has_request_left(rule, minute))
		return "the rule's limit of requests a minute is reached";
	if (!has_request_left(&l->all, minute))
		return "the sandbox's limit of requests a minute is reached";
	l->all.requests++;
	if (rule)
		rule->requests++;
	return NULL;
}

/* A bucket holds what a quarter of a second gives, and at least one worthwhile grant. */
static uint64_t bucket_size(const struct limit *m)
{
	uint64_t size = m->max.bandwidth / 4;

	return size < 2 * (uint64_t)SMALLEST_GRANT ? 2 * (uint64_t)SMALLEST_GRANT : size;
}

static void refill_bucket(struct limit *m, uint64_t now_ns)
{
	uint64_t size = bucket_size(m), passed = now_ns - m->filled;
	unsigned __int128 add = (unsigned __int128)m->max.bandwidth * passed / NSEC_PER_SEC;

	if (m->filled == 0 || add >= size) {
		m->tokens[LIMIT_UP] = m->tokens[LIMIT_DOWN] = size;
		m->filled = now_ns;
		return;
	}
	if (add == 0)
		return;
	for (int way = 0; way < 2; way++) {
		uint64_t sum = m->tokens[way] + (uint64_t)add;

		m->tokens[way] = sum < size ? sum : size;
	}
	/* Advances only by the time that the whole bytes added account for. */
	m->filled += (uint64_t)((unsigned __int128)(uint64_t)add * NSEC_PER_SEC / m->max.bandwidth);
}

/* How much of `want` this limit allows; takes nothing yet. */
static long bytes_on_offer(struct limit *m, enum limit_way way, size_t want, uint64_t now_ns)
{
	uint64_t n = want;

	if (way == LIMIT_UP && m->max.bytes_up) {
		if (*m->up >= m->max.bytes_up)
			return -EDQUOT;
		if (m->max.bytes_up - *m->up < n)
			n = m->max.bytes_up - *m->up;
	}
	if (m->max.bandwidth) {
		refill_bucket(m, now_ns);
		if (m->tokens[way] < n && m->tokens[way] < SMALLEST_GRANT)
			return 0;
		if (m->tokens[way] < n)
			n = m->tokens[way];
	}
	return (long)n;
}

static void limit_take_bytes(struct limit *m, enum limit_way way, uint64_t n)
{
	if (way == LIMIT_UP)
		*m->up += n;
	if (m->max.bandwidth)
		m->tokens[way] -= n;
}

/*
 * After a reload `n` may exceed what was taken from this limit: the bytes were granted under another rule, or
 * under none.
 */
static void limit_return_bytes(struct limit *m, enum limit_way way, uint64_t n)
{
	if (way == LIMIT_UP)
		*m->up -= *m->up < n ? *m->up : n;
	if (m->max.bandwidth)
		m->tokens[way] += n;
}

long limits_take(struct limits *l, struct limit *rule, enum limit_way way, size_t want, uint64_t now_ns)
{
	long n = bytes_on_offer(&l->all, way, want, now_ns), m;

	if (n > 0 && rule) {
		m = bytes_on_offer(rule, way, (size_t)n, now_ns);
		n = m < n ? m : n;
	}
	if (n <= 0)
		return n;
	limit_take_bytes(&l->all, way, (uint64_t)n);
	if (rule)
		limit_take_bytes(rule, way, (uint64_t)n);
	return n;
}

static bool has_room_up(const struct limit *m, size_t n)
{
	return !m->max.bytes_up || (*m->up <= m->max.bytes_up && m->max.bytes_up - *m->up >= n);
}

static void limit_charge_up(struct limit *m, size_t n)
{
	*m->up += n;
	if (m->max.bandwidth)
		m->tokens[LIMIT_UP] -= m->tokens[LIMIT_UP] < n ? m->tokens[LIMIT_UP] : n;
}

int limits_charge_up(struct limits *l, struct limit *rule, size_t n)
{
	if (!has_room_up(&l->all, n) || (rule && !has_room_up(rule, n)))
		return -EDQUOT;
	limit_charge_up(&l->all, n);
	if (rule)
		limit_charge_up(rule, n);
	return 0;
}

void limits_count_up(struct limits *l, struct limit *rule, size_t n)
{
	limit_charge_up(&l->all, n);
	if (rule)
		limit_charge_up(rule, n);
}

void limits_return(struct limits *l, struct limit *rule, enum limit_way way, size_t unused)
{
	limit_return_bytes(&l->all, way, unused);
	if (rule)
		limit_return_bytes(rule, way, unused);
}
