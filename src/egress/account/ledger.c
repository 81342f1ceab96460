/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokens for new keys, and the queue of those that wait for one. Never lets a new key pass without a token
 * (ledger.L2).
 */
#include "egress/account/ledger.h"

#include "base/clock.h"

#include <errno.h>

#define COST (NSEC_PER_SEC / LEDGER_RATE)
#define CREDIT_MAX (LEDGER_BURST * COST)

static void on_ledger_timer(struct timer *t);

int ledger_init(struct ledger *l, struct loop *loop, const uint64_t *now, struct err *e)
{
	*l = (struct ledger){
		.loop = loop, .now = now, .max = LEDGER_BYTES, .credit = CREDIT_MAX, .at = *now
	};
	l->used = &l->own_used;
	l->wait = LEDGER_WAIT;
	l->turn = (struct timer){ .fn = on_ledger_timer, .ctx = l };
	TAILQ_INIT(&l->waits);
	return seen_init(&l->seen, e);
}

void ledger_release(struct ledger *l)
{
	if (!l->loop)
		return;
	loop_timer_off(l->loop, &l->turn);
	seen_release(&l->seen);
}

void ledger_forget(struct ledger *l)
{
	seen_forget(&l->seen);
}

static bool ledger_has_tokens(struct ledger *l, unsigned n)
{
	uint64_t gained = *l->now > l->at ? *l->now - l->at : 0;

	l->credit = gained > CREDIT_MAX - l->credit ? CREDIT_MAX : l->credit + gained;
	l->at += gained;
	return l->credit >= n * COST;
}

/* ledger.L3, and memory for the key: ledger_take() must not fail. */
static bool has_room_for_key(struct ledger *l, uint64_t key)
{
	if (*l->used >= l->max)
		l->full++;
	else if (key && seen_reserve(&l->seen) == 0)
		return true;
	return false;
}

enum ledger_verdict ledger_check(struct ledger *l, uint64_t key, unsigned lines)
{
	if (key && seen_has(&l->seen, key))
		return LEDGER_KNOWN;
	if (!has_room_for_key(l, key))
		return LEDGER_DENY;
	/* Earlier entries of the queue go first. */
	if (l->n_waits && !l->is_turn)
		return LEDGER_LATER;
	return ledger_has_tokens(l, lines) ? LEDGER_FIRST : LEDGER_LATER;
}

void ledger_take(struct ledger *l, uint64_t key, unsigned lines)
{
	seen_put(&l->seen, key);
	l->credit -= lines * COST < l->credit ? lines * COST : l->credit;
}

enum ledger_verdict ledger_note(struct ledger *l, uint64_t key)
{
	if (key && seen_has(&l->seen, key))
		return LEDGER_KNOWN;
	if (!has_room_for_key(l, key))
		return LEDGER_DENY;
	seen_put(&l->seen, key);
	return LEDGER_FIRST;
}

void ledger_charge(struct ledger *l, size_t bytes)
{
	*l->used += bytes;
}

static void ledger_end_wait(struct ledger *l, struct ledger_wait *w)
{
	TAILQ_REMOVE(&l->waits, w, list);
	w->waits = false;
	l->n_waits--;
}

static void on_ledger_timer(struct timer *t)
{
	struct ledger *l = t->ctx;
	struct ledger_wait *w;

	/* A first entry that needs several lines is not overtaken by later ones that need one. */
	for (unsigned n = l->n_waits; n && (w = TAILQ_FIRST(&l->waits)) != NULL; n--) {
		bool is_late = w->until <= *l->now;

		if (!is_late && !ledger_has_tokens(l, w->lines))
			break;
		ledger_end_wait(l, w);
		l->late += is_late;
		l->is_turn = true;
		w->fn(w, is_late ? -ETIMEDOUT : 0);
		l->is_turn = false;
	}
	if (l->n_waits)
		loop_timer(l->loop, t, *l->now + COST);
}

void ledger_wait(struct ledger *l, struct ledger_wait *w, unsigned lines)
{
	if (!w->until) {
		w->until = *l->now + l->wait;
		l->waited++;
	}
	w->lines = lines;
	w->waits = true;
	TAILQ_INSERT_TAIL(&l->waits, w, list);
	l->n_waits++;
	if (!l->turn.armed)
		loop_timer(l->loop, &l->turn, *l->now + COST);
}

void ledger_unwait(struct ledger *l, struct ledger_wait *w)
{
	if (w->waits)
		ledger_end_wait(l, w);
}
