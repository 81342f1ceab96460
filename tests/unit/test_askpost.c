/* SPDX-License-Identifier: Apache-2.0 */
/* Notifications of questions: each once, not too often, nothing that may be a secret. */
#include "base/clock.h"
#include "base/str.h"
#include "notify/askpost.h"
#include "tap.h"

#include <stdio.h>

#define SEC NSEC_PER_SEC

static unsigned n_new, n_over, n_more;
static char last[4096];

static void on_post(void *ctx, const struct notify_event *ev)
{
	struct notify_made m = { 0 };

	(void)ctx;
	n_new += str_eq(ev->type, "ask.new");
	n_over += str_eq(ev->type, "ask.over");
	n_more += str_eq(ev->type, "ask.more");
	if (notify_make(&m, ev, "0123456789abcdef01234567", 1) < 0)
		CHECK(!"a notification is made");
	snprintf(last, sizeof(last), "%s", buf_cstr(&m.json));
	notify_made_release(&m);
}

static void take(struct askpost *p, uint64_t now, unsigned number, const char *state, const char *more)
{
	char text[2048];
	json_t *o;

	snprintf(
		text, sizeof(text),
		"{\"id\":\"abcdef-%u\",\"sandbox\":\"abcdef012345\",\"number\":%u,\"state\":\"%s\",\"kind\":\"request\"%s}",
		number, number, state, more);
	o = json_loads(text, 0, NULL);
	if (!o)
		CHECK(!"that is JSON");
	askpost_take(p, now, o);
	json_decref(o);
}

static struct askpost fresh(void)
{
	n_new = n_over = n_more = 0;
	return (struct askpost){ .post = on_post };
}

static void test_once(void)
{
	struct askpost p = fresh();

	take(&p, SEC, 1, "pending", ",\"times\":1");
	take(&p, SEC, 1, "pending", ",\"times\":9");
	CHECKF(n_new == 1, "a question that is asked ten times sends one notification");
	take(&p, SEC, 1, "granted",
	     ",\"answer\":{\"allow\":true,\"scope\":\"sandbox\",\"name\":\"alice\",\"reason\":\"ok\"}");
	take(&p, SEC, 1, "lapsed", "");
	CHECKF(n_over == 1 && strstr(last, "allowed, sandbox by alice") && strstr(last, "because: ok"),
	       "an answered question sends one notification of its end");
	take(&p, SEC, 2, "spent", "");
	CHECKF(n_new == 1 && n_over == 1, "a question that never waited sends no notification");
	p = fresh();
	p.last = 7;
	take(&p, SEC, 7, "pending", "");
	take(&p, SEC, 8, "pending", "");
	CHECKF(n_new == 1, "a question from before the start sends no notification");
	take(&p, SEC, 7, "denied", "");
	CHECK(n_over == 0);
	take(&p, SEC, 8, "expired", ",\"why\":\"nobody answered in time\"");
	CHECK(n_over == 1 && strstr(last, "expired") && strstr(last, "nobody answered"));
}

static void test_flood(void)
{
	struct askpost p = fresh();

	for (unsigned i = 1; i <= 1000; i++)
		take(&p, 100 * SEC + i, i, "pending", "");
	CHECKF(n_new == ASKPOST_FEW && n_more == 0, "a flood of questions sends a few notifications");
	CHECK(askpost_tick(&p, 101 * SEC) == p.window + ASKPOST_WINDOW && n_more == 0);
	CHECK(askpost_tick(&p, 161 * SEC) == 0 && n_more == 1 && strstr(last, "995 questions"));
	for (unsigned i = 1001; i <= 3000; i++)
		take(&p, 162 * SEC + i, i, "pending", "");
	CHECKF(n_new == ASKPOST_FEW && n_more == 1, "a flood that goes on sends no single notifications");
	CHECK(askpost_tick(&p, 222 * SEC) == 281 * SEC && n_more == 1);
	CHECK(askpost_tick(&p, 282 * SEC) == 0 && n_more == 2 && strstr(last, "2000 questions"));
	CHECK(askpost_tick(&p, 523 * SEC) == 0 && n_more == 2);
	take(&p, 540 * SEC, 3001, "pending", "");
	CHECKF(n_new == ASKPOST_FEW + 1, "after a quiet time each question is notified again");
	for (unsigned i = 3002; i <= 3010; i++)
		take(&p, 541 * SEC, i, "pending", "");
	askpost_end(&p);
	CHECKF(n_more == 3 && strstr(last, "5 questions"),
	       "the end reports the number of questions without a notification");
	/* Few at a time for long: what is told and not over is bounded. */
	p = fresh();
	for (unsigned i = 1; i <= 400; i++)
		take(&p, 61 * SEC * i, i, "pending", "");
	CHECK(p.n_open == ASKPOST_KEPT && n_new == ASKPOST_KEPT);
}

/* One question every twelve seconds that nobody answers, for ten hours. */
static void test_nobody(void)
{
	struct askpost p = fresh();
	unsigned i = 1;

	for (; i <= 3000; i++) {
		take(&p, 12 * SEC * i, i, "pending", "");
		take(&p, 12 * SEC * i + SEC, i, "expired", "");
	}
	CHECKF(n_new < 80 && n_over == n_new && n_more < 20,
	       "a night of unanswered questions sends few notifications: %u told, %u over, %u more", n_new,
	       n_over, n_more);
	take(&p, 12 * SEC * i, i, "pending", "");
	take(&p, 12 * SEC * i + SEC, i, "denied", ",\"answer\":{\"allow\":false,\"name\":\"alice\"}");
	n_new = 0;
	for (unsigned k = 1; k <= 5; k++)
		take(&p, 12 * SEC * i + 61 * SEC * k, i + k, "pending", "");
	CHECKF(n_new >= 4, "questions are notified again after an answer");
}

static void test_words(void)
{
	struct askpost p = fresh();

	take(&p, SEC, 1, "pending",
	     ",\"host\":\"h.test\",\"port\":443,\"tls\":true,\"method\":\"POST\",\"path\":\"/p?token=SECRET\",\"type\":\"a/b\","
	     "\"what\":\"mutation merge; x-a: SECRET; SECRET; headers 01\",\"preview\":\"SECRET\",\"body\":\"00ff\",\"body_len\":9,"
	     "\"rule\":\"ask x (f:1)\",\"reason\":\"please \\u001b[31m\"");
	CHECKF(!strstr(last, "SECRET"), "a notification has no secret of the query, the headers or the body");
	CHECK(strstr(last, "POST https://h.test/p?...") && strstr(last, "request body: mutation merge\"") &&
	      strstr(last, "ask x (f:1)"));
	CHECK(strstr(last, "reason given by the asker: please \\\\x1b[31m") && strstr(last, "sha256 00ff"));
	CHECK(strstr(last, "\"ask\":\"abcdef-1\"") && strstr(last, "\"answer\":\"coffer approve abcdef-1\""));
	p.ui = "https://c.test/x";
	p.name = "box";
	take(&p, SEC, 2, "pending", ",\"what\":\"rm: all of it\"");
	CHECK(strstr(last, "box asks (request): rm: all of it") &&
	      strstr(last, "\"answer\":\"https://c.test/x/#/asks\""));
}

int main(void)
{
	test_once();
	test_flood();
	test_nobody();
	test_words();
	return tap_done();
}
