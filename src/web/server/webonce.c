/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Idempotency-Key: what was answered to it, for ten minutes. Bounded, and one that is pushed out would be done a second time. So:
 *
 *  O1  When there is no room, the oldest that has ended makes it, of who has most, and for nobody who would then have more. Whoever
 *      has no more than his part of the places (of two who ask, half) keeps them, whatever others ask.
 *  O2  Only a credential that cofferd has taken gets a place. The caller has it judged first (webconn.c, prove()), so that no number of
 *      requests with made-up tokens takes a place from a client with a good one.
 */
#include "web/server/webserve.h"

#include "base/cleanup.h"

#include <stdlib.h>
#include <string.h>

#define ENTRIES 1024
#define KEEP_FOR (600 * NSEC_PER_SEC)
#define BODY_MAX (64u << 10)

struct owner {
	unsigned n; /* entries; 0: free */
	unsigned char key[HASH_LEN];
};

struct entry {
	bool used, runs, lost;
	uint64_t at;
	int owner;		      /* which of owners[] */
	unsigned char key[HASH_LEN];  /* who, what and the key */
	unsigned char what[HASH_LEN]; /* the whole request */
	unsigned status;
	struct buf body;
};

struct web_once {
	struct entry e[ENTRIES];
	struct owner owners[ENTRIES];
};

struct web_once *web_once_new(void)
{
	return calloc(1, sizeof(struct web_once));
}

static void clear(struct web_once *o, struct entry *e)
{
	if (e->used)
		o->owners[e->owner].n--;
	buf_release(&e->body);
	*e = (struct entry){ 0 };
}

void web_once_free(struct web_once *o)
{
	for (size_t i = 0; o && i < ENTRIES; i++)
		clear(o, &o->e[i]);
	free(o);
}

static void who_of(const struct web_ask *a, unsigned char ret[HASH_LEN])
{
	struct hash_stream h;
	unsigned char cred = (unsigned char)a->req.cred;

	hash_stream_init(&h);
	hash_stream_add(&h, &cred, 1);
	/* The owner's connections have a key each, and he is one. */
	if (a->req.cred != WEB_CRED_OWNER)
		hash_stream_add(&h, a->req.key, HASH_LEN);
	hash_stream_end(&h, ret);
}

static void key_of(const struct web_ask *a, unsigned char ret[HASH_LEN])
{
	struct hash_stream h;
	unsigned char op = (unsigned char)a->req.op, who[HASH_LEN];

	who_of(a, who);
	hash_stream_init(&h);
	hash_stream_add(&h, who, sizeof(who));
	hash_stream_add(&h, &op, 1);
	hash_stream_add(&h, a->idem, strlen(a->idem));
	hash_stream_end(&h, ret);
}

static struct entry *find(struct web_once *o, const unsigned char key[HASH_LEN])
{
	for (size_t i = 0; i < ENTRIES; i++) {
		if (o->e[i].used && memcmp(o->e[i].key, key, HASH_LEN) == 0)
			return &o->e[i];
	}
	return NULL;
}

/* As many as there are entries: where one of those is free, there is one. -1: none. */
static int find_owner(struct web_once *o, const struct web_ask *a)
{
	unsigned char who[HASH_LEN];
	int free_one = -1;

	who_of(a, who);
	for (int i = 0; i < ENTRIES; i++) {
		if (o->owners[i].n && memcmp(o->owners[i].key, who, HASH_LEN) == 0)
			return i;
		if (!o->owners[i].n && free_one < 0)
			free_one = i;
	}
	if (free_one >= 0)
		memcpy(o->owners[free_one].key, who, HASH_LEN);
	return free_one;
}

static bool is_over(const struct entry *e, uint64_t now)
{
	return now > e->at + KEEP_FOR;
}

/* Does a make room rather than b? What is over first; then of who has most, and of his the oldest. */
static bool is_rather(const struct web_once *o, const struct entry *a, const struct entry *b, uint64_t now)
{
	unsigned n = o->owners[a->owner].n, m = b ? o->owners[b->owner].n : 0;

	if (!b)
		return true;
	if (is_over(a, now) != is_over(b, now))
		return is_over(a, now);
	if (!is_over(a, now) && n != m)
		return n > m;
	return a->at < b->at;
}

/* O1: who makes room for one more of mine. mine -1: somebody who has none. */
static struct entry *find_victim(struct web_once *o, int mine, uint64_t now)
{
	struct entry *found = NULL;

	for (size_t i = 0; i < ENTRIES; i++) {
		struct entry *e = &o->e[i];
		unsigned n = mine < 0 ? 0 : o->owners[mine].n;

		if (e->used && !e->runs &&
		    (is_over(e, now) || e->owner == mine || o->owners[e->owner].n > n + 1) &&
		    is_rather(o, e, found, now))
			found = e;
	}
	return found;
}

static struct entry *make_room(struct web_once *o, int mine, uint64_t now)
{
	struct entry *e;

	for (size_t i = 0; i < ENTRIES; i++) {
		if (!o->e[i].used)
			return &o->e[i];
	}
	e = find_victim(o, mine, now);
	if (e)
		clear(o, e);
	return e;
}

enum web_once_state web_once_begin(struct web_once *o, const struct web_ask *a, struct slice body,
				   uint64_t now, unsigned *ret_status, struct slice *ret_body)
{
	unsigned char key[HASH_LEN], what[HASH_LEN];
	struct hash_stream h;
	struct entry *e;

	key_of(a, key);
	hash_stream_init(&h);
	/* Path and query too: the texts of all values. */
	hash_stream_add(&h, a->texts.data ? a->texts.data : "", a->texts.len);
	hash_stream_add(&h, body.p, body.len);
	hash_stream_end(&h, what);
	e = find(o, key);
	if (e && !e->runs && now > e->at + KEEP_FOR) {
		clear(o, e);
		e = NULL;
	}
	if (e) {
		if (memcmp(e->what, what, HASH_LEN) != 0)
			return WEB_ONCE_OTHER;
		*ret_status = e->status;
		*ret_body = (struct slice){ buf_cstr(&e->body), e->body.len };
		return e->lost ? WEB_ONCE_LOST : e->runs ? WEB_ONCE_RUNS : WEB_ONCE_DONE;
	}
	e = make_room(o, find_owner(o, a), now);
	if (!e)
		return WEB_ONCE_FULL;
	*e = (struct entry){ .used = true, .runs = true, .at = now, .owner = find_owner(o, a) };
	o->owners[e->owner].n++;
	memcpy(e->key, key, HASH_LEN);
	memcpy(e->what, what, HASH_LEN);
	return WEB_ONCE_NEW;
}

void web_once_end(struct web_once *o, const struct web_ask *a, unsigned status, const char *body, size_t len)
{
	unsigned char key[HASH_LEN];
	struct entry *e;

	key_of(a, key);
	e = find(o, key);
	if (!e)
		return;
	/* Who may not ask has nothing to be told again, and pushes nobody out. */
	if (len > BODY_MAX || status >= 500 || status == 429 || status == 401 || status == 403) {
		clear(o, e);
		return;
	}
	e->runs = false;
	e->status = status;
	buf_add(&e->body, body, len);
	if (buf_error(&e->body))
		clear(o, e);
}

void web_once_leave(struct web_once *o, const struct web_ask *a)
{
	unsigned char key[HASH_LEN];
	struct entry *e;

	key_of(a, key);
	e = find(o, key);
	if (!e || !e->runs)
		return;
	if (!web_route(a->req.op)->changes) {
		clear(o, e);
		return;
	}
	e->runs = false;
	e->lost = true;
}
