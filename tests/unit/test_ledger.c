/* SPDX-License-Identifier: Apache-2.0 */
/* Acts that are let through for the first time, on a clock of the test's own: who is known, who waits and for how
 * long, who is denied. */
#include "base/clock.h"
#include "egress/account/ledger.h"
#include "tap.h"

#include <errno.h>
#include <stdio.h>

static struct ledger l;
static struct loop loop = LOOP_INIT;
static uint64_t now = 1000 * NSEC_PER_SEC;

static uint64_t key(unsigned kind, const char *a, const char *b)
{
	seen_begin(&l.seen, (unsigned char)kind);
	seen_adds(&l.seen, a);
	seen_adds(&l.seen, b);
	return seen_key(&l.seen);
}

/* As an owner does it. */
static enum ledger_verdict act_lines(uint64_t k, unsigned lines)
{
	enum ledger_verdict a = ledger_check(&l, k, lines);

	if (a == LEDGER_FIRST) {
		ledger_take(&l, k, lines);
		ledger_charge(&l, 300);
	}
	return a;
}

static enum ledger_verdict act(uint64_t k)
{
	return act_lines(k, 1);
}

static uint64_t key_n(unsigned n)
{
	char text[32];

	snprintf(text, sizeof(text), "n%u", n);
	return key(LEDGER_OPEN, text, NULL);
}

static enum ledger_verdict act_n(unsigned n)
{
	return act(key_n(n));
}

/* Returns how many of n keys from `from` on are let through now. */
static unsigned many(unsigned from, unsigned n)
{
	unsigned done = 0;

	for (unsigned i = 0; i < n; i++)
		done += act_n(from + i) == LEDGER_FIRST;
	return done;
}

static void begin(void)
{
	CHECK(ledger_init(&l, &loop, &now, NULL) == 0);
}

struct waiter {
	struct ledger_wait w;
	unsigned n, order, lines;
	int got;
};
static unsigned turns;

static void on_turn(struct ledger_wait *w, int status)
{
	struct waiter *x = (struct waiter *)w;

	x->got = status < 0 ? status : (int)act_lines(key_n(x->n), x->lines);
	x->order = ++turns;
	if (x->got == LEDGER_LATER)
		ledger_wait(&l, w, x->lines);
}

static void wait(struct waiter *x, unsigned n, unsigned lines)
{
	*x = (struct waiter){ .w.fn = on_turn, .n = n, .lines = lines, .got = 99 };
	ledger_wait(&l, &x->w, lines);
}

static void turn(uint64_t after)
{
	now += after;
	loop_timer_off(&loop, &l.turn);
	l.turn.fn(&l.turn);
}

static void test_keys(void)
{
	begin();
	CHECKF(key(1, "ab", "c") != key(1, "a", "bc") && key(1, "a", NULL) != key(2, "a", NULL) &&
		       key(1, "a", "b") == key(1, "a", "b"),
	       "a key is its kind and its parts, each with its length");
	CHECK(act(key(LEDGER_REQUEST, "GET", "a")) == LEDGER_FIRST);
	CHECKF(act(key(LEDGER_REQUEST, "GET", "a")) == LEDGER_KNOWN &&
		       act(key(LEDGER_REQUEST, "DELETE", "a")) == LEDGER_FIRST,
	       "a repeated key is known, and a key that differs is new");
	CHECK(ledger_check(&l, key(1, "x", NULL), 1) == LEDGER_FIRST);
	CHECKF(ledger_check(&l, key(1, "x", NULL), 1) == LEDGER_FIRST,
	       "a check takes nothing: a key is known once its line is written");
	ledger_forget(&l);
	CHECKF(act(key(LEDGER_REQUEST, "GET", "a")) == LEDGER_FIRST, "after a failed line every key is new");
	CHECKF(ledger_check(&l, 0, 1) == LEDGER_DENY, "a key that could not be made is denied");
	CHECK(ledger_note(&l, key(LEDGER_SECRET, "s", NULL)) == LEDGER_FIRST);
	CHECKF(ledger_note(&l, key(LEDGER_SECRET, "s", NULL)) == LEDGER_KNOWN,
	       "a key of another kind can be noted");
	ledger_release(&l);
}

static void test_budget(void)
{
	begin();
	CHECKF(many(0, LEDGER_BURST + 500) == LEDGER_BURST, "a burst of new keys is let through");
	CHECKF(act_n(LEDGER_BURST + 1) == LEDGER_LATER, "a new key waits after the burst");
	CHECKF(act_n(5) == LEDGER_KNOWN, "a known key never waits");
	now += NSEC_PER_SEC;
	CHECKF(many(100000, 1000) == LEDGER_RATE,
	       "after the burst LEDGER_RATE new keys a second are let through");
	now += 100000 * NSEC_PER_SEC;
	CHECKF(many(200000, 2 * LEDGER_BURST) == LEDGER_BURST, "a long silence gives one burst, not more");
	CHECKF(ledger_check(&l, key(1, "two", NULL), 2) == LEDGER_LATER,
	       "a key with several lines needs several tokens");
	now -= 50 * NSEC_PER_SEC;
	CHECKF(act_n(900000) == LEDGER_LATER, "a clock that goes back gives no tokens");
	ledger_release(&l);
}

static void test_waiting(void)
{
	static struct waiter w[300];
	bool ordered = true;
	unsigned done = 0, late = 0;

	now = 5000 * NSEC_PER_SEC;
	begin();
	(void)many(0, LEDGER_BURST);
	for (unsigned i = 0; i < 300; i++)
		wait(&w[i], 100000 + i, 1);
	CHECK(l.turn.armed && l.n_waits == 300);
	turn(0);
	CHECKF(w[0].got == 99, "no waiting key has a turn without a token");
	now += NSEC_PER_SEC / LEDGER_RATE;
	CHECKF(act_n(99999) == LEDGER_LATER, "a later key does not take the token of a waiting one");
	now -= NSEC_PER_SEC / LEDGER_RATE;
	ledger_unwait(&l, &w[3].w);
	turn(NSEC_PER_SEC / LEDGER_RATE * 10);
	for (unsigned i = 0; i < 300; i++) {
		done += w[i].got == LEDGER_FIRST;
		ordered = ordered && (i < 4 || w[i].got == 99 || w[i].order > w[i - 1].order);
	}
	CHECKF(done == 10 && ordered && w[3].got == 99,
	       "waiting keys have their turns in order, without the one that has gone");
	CHECK(l.n_waits == 289 && l.turn.armed);
	turn(LEDGER_WAIT);
	for (unsigned i = 0; i < 300; i++)
		late += w[i].got == -ETIMEDOUT;
	CHECKF(late == 289 && l.n_waits == 0 && !l.turn.armed,
	       "a waiting key is answered after LEDGER_WAIT at the latest: %u", late);
	CHECK(l.late == 289 && l.waited == 300);
	/* A waiter for a key that is known by now needs no token. */
	(void)many(200000, 2 * LEDGER_BURST);
	wait(&w[0], 200000, 1);
	turn(NSEC_PER_SEC / LEDGER_RATE);
	CHECK(w[0].got == LEDGER_KNOWN && ledger_check(&l, key(1, "new", NULL), 1) == LEDGER_FIRST);
	ledger_release(&l);
}

/* A request with secrets needs several lines, and others that need one come all the time. */
static void test_several_lines(void)
{
	static struct waiter w[100];

	now = 9000 * NSEC_PER_SEC;
	begin();
	(void)many(0, LEDGER_BURST);
	wait(&w[0], 100000, 3);
	for (unsigned i = 1; i < 100; i++)
		wait(&w[i], 100000 + i, 1);
	for (unsigned i = 0; i < 4; i++)
		turn(NSEC_PER_SEC / LEDGER_RATE);
	CHECKF(w[0].got == LEDGER_FIRST,
	       "a key that needs several lines is not overtaken by keys that need one");
	CHECKF(w[1].got == LEDGER_FIRST && w[2].got == 99,
	       "a waiter for several lines pays for each of them");
	for (unsigned i = 2; i < 100; i++)
		ledger_unwait(&l, &w[i].w);
	ledger_release(&l);
}

/* A sandbox that fills the table gets everything logged once more, and hides nothing. */
static void test_filled(void)
{
	unsigned again = 0, odd = 0, n = 3 * SEEN_MAX;

	begin();
	for (unsigned i = 0; i < n; i++) {
		now += NSEC_PER_SEC / LEDGER_RATE;
		odd += act_n(i) != LEDGER_FIRST;
		odd += act_n(0) != LEDGER_KNOWN;
	}
	CHECKF(odd == 0, "a table that is full denies nothing");
	CHECKF(act_n(0) == LEDGER_KNOWN, "a key in use is not forgotten");
	CHECKF(act_n(n - 1) == LEDGER_KNOWN && act_n(n - SEEN_MAX / 2) == LEDGER_KNOWN,
	       "new keys are not forgotten");
	for (unsigned i = 1; i <= 100; i++)
		again += act_n(i) == LEDGER_FIRST;
	CHECKF(again == 100, "a forgotten key is new when it comes again");
	CHECKF(l.seen.young.size <= 4 * SEEN_MAX && l.seen.old.size <= 4 * SEEN_MAX &&
		       l.seen.young.n <= SEEN_MAX,
	       "the memory of the ledger is bounded");
	ledger_release(&l);
}

static void test_full(void)
{
	uint64_t kept = 0;

	begin();
	l.used = &kept;
	l.max = 3000;
	CHECKF(many(0, 100) == 10 && act_n(50) == LEDGER_DENY, "a full ledger denies a new key");
	CHECKF(act_n(3) == LEDGER_KNOWN, "a full ledger accepts a known key");
	CHECKF(ledger_note(&l, key(LEDGER_SECRET, "s", NULL)) == LEDGER_DENY,
	       "a full ledger denies a new key of another kind");
	ledger_release(&l);
	begin();
	l.used = &kept;
	l.max = 3000;
	CHECKF(act_n(3) == LEDGER_DENY, "the used size of a run's log survives a restart of the process");
	ledger_release(&l);
}

int main(void)
{
	CHECK(loop_open(&loop, NULL) == 0);
	test_keys();
	test_budget();
	test_waiting();
	test_several_lines();
	test_filled();
	test_full();
	loop_close(&loop);
	return tap_done();
}
