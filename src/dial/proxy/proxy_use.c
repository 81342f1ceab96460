/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection through a proxy set: tries members one after the other, until there is a tunnel or none is
 * left (proxy.O1).
 */
#include "dial/proxy/proxy.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "policy/psl.h"

#include <errno.h>
#include <sodium.h>

static uint32_t random_dice(void *ctx)
{
	(void)ctx;
	return randombytes_random();
}

static bool member_was_tried(const struct proxy_use *u, size_t i)
{
	return u->tried[i / 64] >> (i % 64) & 1;
}

/* The key that stays with one proxy: the registrable domain. */
static uint64_t sticky_key(const struct proxy_set *p, const char *name)
{
	const char *domain = psl_registrable(name);

	return proxy_hash(p, domain ? domain : name);
}

static size_t take_sticky_member(struct proxy_use *u, uint64_t now)
{
	size_t i = sticky_find(&u->set->sticky, u->key, now);

	if (i >= u->set->n || member_was_tried(u, i) || u->set->score[i].state != SCORE_CLOSED)
		return SCORE_NONE;
	score_begin(&u->set->score[i], now);
	return i;
}

static size_t choose_member(struct proxy_use *u)
{
	uint64_t now = clock_nsec(CLOCK_MONOTONIC);
	size_t i = SCORE_NONE;

	if (u->set->rotate == POLICY_ROTATE_STICKY)
		i = take_sticky_member(u, now);
	if (i == SCORE_NONE)
		i = score_pick(u->set->score, u->set->n, u->tried, now, random_dice, NULL);
	return i;
}

static void remember_sticky(struct proxy_use *u)
{
	uint64_t now = clock_nsec(CLOCK_MONOTONIC);

	/* Use does not extend the time. */
	if (u->set->rotate == POLICY_ROTATE_STICKY && sticky_find(&u->set->sticky, u->key, now) != u->at)
		sticky_keep(&u->set->sticky, u->key, u->at, now + u->set->sticky_ns);
}

static void proxy_use_finish(struct proxy_use *u, int status, int fd)
{
	struct proxy_set *p = u->set;
	const char *proxy = u->tries ? p->member[u->at].label : "";
	char label[sizeof(p->member->label)], why[sizeof(u->why)];

	snprintf(label, sizeof(label), "%s", proxy);
	memcpy(why, u->why, sizeof(why));
	loop_timer_off(proxy_env(p)->loop, &u->later);
	free(u->tunnel);
	u->tunnel = NULL;
	u->set = NULL;
	proxy_unref(p);
	u->done(u, status, fd, label, why);
}

static void on_use_failed(struct timer *t)
{
	struct proxy_use *u = t->ctx;

	proxy_use_finish(u, u->status, -1);
}

static void proxy_use_set_error(struct proxy_use *u, int status, const char *why)
{
	u->status = status;
	snprintf(u->why, sizeof(u->why), "%s", why);
}

static void proxy_use_fail_later(struct proxy_use *u)
{
	loop_timer(proxy_env(u->set)->loop, &u->later, clock_nsec(CLOCK_MONOTONIC));
}

static void proxy_use_try_next(struct proxy_use *u);

static void on_use_tunnel(struct tunnel *t, enum tunnel_end end, int status, int fd, const char *why)
{
	struct proxy_use *u = t->ctx;
	uint64_t target = proxy_hash(u->set, u->target.text);

	proxy_use_set_error(u, status, why);
	proxy_outcome(u->set, u->at, end, false, target, clock_nsec(CLOCK_MONOTONIC) - u->began, why);
	free(u->tunnel);
	u->tunnel = NULL;
	if (end == TUNNEL_OPEN)
		remember_sticky(u);
	if ((end == TUNNEL_FAULT || end == TUNNEL_SILENT) && u->tries < PROXY_TRIES) {
		proxy_use_try_next(u);
		return;
	}
	proxy_use_finish(u, status, fd);
}

static void proxy_use_try_next(struct proxy_use *u)
{
	size_t i = choose_member(u);

	if (i == SCORE_NONE) {
		/* The last member's error is more useful. */
		if (!u->tries)
			proxy_use_set_error(u, -ENOTCONN, "no proxy of the set can be used now");
		proxy_use_fail_later(u);
		return;
	}
	u->tunnel = calloc(1, sizeof(*u->tunnel));
	if (!u->tunnel) {
		proxy_use_set_error(u, -ENOMEM, "no memory");
		proxy_use_fail_later(u);
		return;
	}
	u->at = i;
	u->tried[i / 64] |= 1ULL << (i % 64);
	u->tries++;
	u->began = clock_nsec(CLOCK_MONOTONIC);
	proxy_fill_tunnel(u->set, i, u->tunnel);
	u->tunnel->done = on_use_tunnel;
	u->tunnel->ctx = u;
	u->tunnel->target = u->target;
	u->tunnel->port = u->port;
	tunnel_start(u->tunnel);
}

void proxy_use_start(struct proxy_use *u, struct proxy_set *p, const struct host *target, uint16_t port,
		     const char *sticky)
{
	proxy_ref(p);
	u->set = p;
	u->target = *target;
	u->port = port;
	u->later = (struct timer){ .fn = on_use_failed, .ctx = u };
	u->key = sticky_key(p, sticky);
	p->used_at = clock_nsec(CLOCK_MONOTONIC);
	proxy_use_try_next(u);
}

void proxy_use_cancel(struct proxy_use *u)
{
	struct proxy_set *p = u->set;

	if (!p)
		return;
	loop_timer_off(proxy_env(p)->loop, &u->later);
	if (u->tunnel) {
		tunnel_cancel(u->tunnel);
		/* Nothing is known of a proxy whose result was not awaited. */
		score_neutral(p->score, u->at, clock_nsec(CLOCK_MONOTONIC), false);
		free(u->tunnel);
	}
	u->tunnel = NULL;
	u->set = NULL;
	proxy_unref(p);
}
