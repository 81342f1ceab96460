/* SPDX-License-Identifier: Apache-2.0 */
/* A list of questions on a clock of its own, who was told what, and answers of a person. For test_asks*.c. */
#ifndef TESTS_ASKSRIG_H
#define TESTS_ASKSRIG_H

#include "approval/wire/askproto.h"
#include "base/clock.h"
#include "base/str.h"
#include "tap.h"

#include <errno.h>
#include <stdlib.h>

#define RUN "3f9a2c0011aa"
#define TOLD 4096

static struct asks_now now;
static int event_fails;
static char last_event[32];
static unsigned n_events;

static struct told {
	int n; /* how often */
	bool allow;
	char why[ASK_WHY_MAX];
} told[TOLD];

static int on_event(void *ctx, const char *type, const struct buf *fields, uint64_t *ret_seq)
{
	(void)ctx;
	(void)fields;
	if (event_fails)
		return -EIO;
	snprintf(last_event, sizeof(last_event), "%s", type);
	*ret_seq = 1000 + ++n_events;
	return 0;
}

static void on_tell(void *ctx, uint64_t w, bool allow, const char *id, const char *why)
{
	(void)ctx;
	(void)id;
	told[w].n++;
	told[w].allow = allow;
	snprintf(told[w].why, sizeof(told[w].why), "%s", why);
}

static const struct asks_out out = { .event = on_event, .tell = on_tell };

__attribute__((unused)) static struct ask_question question(const char *path, const char *body)
{
	struct ask_question q = { .kind = ASK_REQUEST,
				  .generation = 1,
				  .port = 443,
				  .tls = true,
				  .has_body = true,
				  .body_len = strlen(body),
				  .host = "api.github.com",
				  .method = "PUT",
				  .path = path,
				  .what = "",
				  .type = "",
				  .rule = "ask PUT (p.yaml:7)",
				  .reason = "",
				  .preview = body,
				  .preview_len = strlen(body) };

	hash_sha256(body, strlen(body), q.body);
	return q;
}

__attribute__((unused)) static struct asks *begin(void)
{
	memset(told, 0, sizeof(told));
	now = (struct asks_now){ 1000 * NSEC_PER_SEC, 1700000000ULL * NSEC_PER_SEC };
	event_fails = 0;
	n_events = 0;
	return asks_new(RUN, 0, &out);
}

__attribute__((unused)) static void pass(struct asks *l, uint64_t s)
{
	now.mono += s * NSEC_PER_SEC;
	now.real += s * NSEC_PER_SEC;
	(void)asks_tick(l, now);
}

__attribute__((unused)) static void digest_of(const struct ask_question *q, char hex[HASH_HEX_LEN + 1])
{
	unsigned char d[HASH_LEN];

	ask_question_digest(q, d);
	hash_hex(d, HASH_LEN, hex);
}

__attribute__((unused)) static int answer(struct asks *l, const char *id, const struct ask_question *q,
					  bool allow, enum ask_scope s, uint64_t n)
{
	struct ask_answer a = {
		.allow = allow, .scope = s, .seconds = n, .uses = n, .who = { .uid = 7, .via = "cli" }
	};
	char hex[HASH_HEX_LEN + 1];
	struct err e = ERR_INIT;

	digest_of(q, hex);
	return asks_answer(l, now, id, hex, &a, &e);
}

__attribute__((unused)) static enum ask_state state_of(struct asks *l, const char *id)
{
	const struct ask *a = asks_find(l, id);
	struct ask_view v;

	if (!a)
		return ASK_STATE_COUNT;
	ask_view(l, a, &v);
	return v.state;
}

#endif
