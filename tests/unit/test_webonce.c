/* SPDX-License-Identifier: Apache-2.0 */
/* Idempotency-Key: what one asked is kept whatever others with a token of their own ask. */
#include "tap.h"
#include "web/server/webserve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLACES 1024
#define NOW (1000 * NSEC_PER_SEC)

static struct web_once *once;
static uint64_t now;

static struct web_ask ask_of(unsigned who, unsigned n)
{
	struct web_ask a = { .req = { .op = WEB_STOP, .cred = who ? WEB_CRED_TOKEN : WEB_CRED_OWNER } };

	memcpy(a.req.key, &who, sizeof(who));
	snprintf(a.idem, sizeof(a.idem), "key-%08u", n);
	return a;
}

static enum web_once_state begin(unsigned who, unsigned n)
{
	struct web_ask a = ask_of(who, n);
	struct slice body;
	unsigned status = 0;

	return web_once_begin(once, &a, (struct slice){ "{}", 2 }, now, &status, &body);
}

static void end(unsigned who, unsigned n, unsigned status)
{
	struct web_ask a = ask_of(who, n);

	web_once_end(once, &a, status, "", 0);
}

/* Asked and answered: is it there now? */
static bool put(unsigned who, unsigned n)
{
	now++;
	if (begin(who, n) != WEB_ONCE_NEW)
		return false;
	end(who, n, 204);
	return true;
}

static unsigned put_all(unsigned who, unsigned from, unsigned to)
{
	unsigned kept = 0;

	for (unsigned n = from; n < to; n++)
		kept += put(who, n);
	return kept;
}

static unsigned count_kept(unsigned who, unsigned from, unsigned to)
{
	unsigned kept = 0;

	for (unsigned n = from; n < to; n++) {
		struct web_ask a = ask_of(who, n);
		enum web_once_state s = begin(who, n);

		kept += s == WEB_ONCE_DONE;
		if (s == WEB_ONCE_NEW)
			web_once_end(once, &a, 401, "", 0);
	}
	return kept;
}

static void start(void)
{
	once = web_once_new();
	now = NOW;
	CHECK(once != NULL);
}

/* O1: somebody with a token of his own. */
static void test_others(void)
{
	start();
	CHECK(put_all(1, 0, 100) == 100);
	CHECK(put_all(2, 0, 5 * PLACES) == 5 * PLACES);
	CHECKF(count_kept(1, 0, 100) == 100,
	       "a flood of one user pushes out no entry of another's: %u of 100", count_kept(1, 0, 100));
	CHECKF(count_kept(2, 5 * PLACES - (PLACES - 100), 5 * PLACES) == PLACES - 100,
	       "a user's own oldest entries make room for the new ones");
	CHECK(count_kept(2, 0, 1000) == 0);
	/* A third one has a part too, of who has most. */
	CHECK(put_all(3, 0, 400) == 400);
	CHECK(count_kept(1, 0, 100) == 100 && count_kept(3, 0, 400) == 400);
	/* The owner has a part too, over whichever connection. */
	CHECK(put_all(0, 0, 50) == 50);
	CHECK(count_kept(0, 0, 50) == 50 && count_kept(1, 0, 100) == 100);
	web_once_free(once);
}

/* O1: many with a token each, up to as many as there are places. */
static void test_many(void)
{
	start();
	for (unsigned who = 1; who <= 2 * PLACES; who++)
		(void)!put(who, 1);
	CHECKF(count_kept(7, 1, 2) == 1, "a user with one entry keeps it");
	CHECK(begin(3 * PLACES, 1) == WEB_ONCE_FULL); /* and who comes too late is told */
	now += 601 * NSEC_PER_SEC;
	CHECK(put(3 * PLACES, 1));
	web_once_free(once);
}

/* A change whose client has gone is not begun again, by whom cofferd knows. */
static void test_lost(void)
{
	struct web_ask a = ask_of(1, 1);

	start();
	CHECK(begin(1, 1) == WEB_ONCE_NEW);
	CHECK(begin(1, 1) == WEB_ONCE_RUNS);
	web_once_abandon(once, &a);
	CHECK(begin(1, 1) == WEB_ONCE_LOST);
	CHECK(begin(2, 1) == WEB_ONCE_NEW); /* his key is not mine */
	web_once_free(once);
}

int main(void)
{
	test_others();
	test_many();
	test_lost();
	return tap_done();
}
