/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Idempotency-Key: stores the responses for ten minutes. The store is bounded, and an evicted request would
 * be executed again. Therefore:
 *
 * O1  Without a free place, the oldest finished entry of the credential with the most entries is evicted, but
 *     never for a credential that would then have more than the victim. A credential with no more than its
 *     share of the places (half of two) keeps them, whatever others send.
 * O2  Only a credential that cofferd has accepted gets a place. The caller has it checked first
 *     (ask_for_credential() in webconn.c), so that requests with invented tokens take no place from a client
 *     with a valid one.
 *
 * Cited elsewhere as webonce.O1, webonce.O2.
 */
#include "web/server/webserve.h"

#include "base/cleanup.h"

#include <stdlib.h>
#include <string.h>

#define ENTRIES 1024
#define KEEP_FOR (600 * NSEC_PER_SEC)
#define BODY_MAX (64u << 10)

struct once_owner {
	unsigned n; /* number of entries; 0: free */
	unsigned char key[HASH_LEN];
};

struct once_entry {
	bool used, runs, lost;
	uint64_t at;
	int owner;		      /* index into owners[] */
	unsigned char key[HASH_LEN];  /* hash of the owner, the op and the key */
	unsigned char what[HASH_LEN]; /* hash of the whole request */
	unsigned status;
	struct buf body;
};

struct web_once {
	struct once_entry e[ENTRIES];
	struct once_owner owners[ENTRIES];
};

struct web_once *web_once_new(void)
{
	return calloc(1, sizeof(struct web_once));
}

static void clear_once_entry(struct web_once *o, struct once_entry *e)
{
	if (e->used)
		o->owners[e->owner].n--;
	buf_release(&e->body);
	*e = (struct once_entry){ 0 };
}

void web_once_free(struct web_once *o)
{
	for (size_t i = 0; o && i < ENTRIES; i++)
		clear_once_entry(o, &o->e[i]);
	free(o);
}

static void hash_owner(const struct web_ask *a, unsigned char ret[HASH_LEN])
{
	struct hash_stream h;
	unsigned char cred = (unsigned char)a->req.cred;

	hash_stream_init(&h);
	hash_stream_add(&h, &cred, 1);
	/* The owner's connections have different keys, but are one owner. */
	if (a->req.cred != WEB_CRED_OWNER)
		hash_stream_add(&h, a->req.key, HASH_LEN);
	hash_stream_end(&h, ret);
}

static void hash_key(const struct web_ask *a, unsigned char ret[HASH_LEN])
{
	struct hash_stream h;
	unsigned char op = (unsigned char)a->req.op, who[HASH_LEN];

	hash_owner(a, who);
	hash_stream_init(&h);
	hash_stream_add(&h, who, sizeof(who));
	hash_stream_add(&h, &op, 1);
	hash_stream_add(&h, a->idem, strlen(a->idem));
	hash_stream_end(&h, ret);
}

static struct once_entry *find_once_entry(struct web_once *o, const unsigned char key[HASH_LEN])
{
	for (size_t i = 0; i < ENTRIES; i++) {
		if (o->e[i].used && memcmp(o->e[i].key, key, HASH_LEN) == 0)
			return &o->e[i];
	}
	return NULL;
}

/* There are as many owners as entries: if an entry is free, an owner is. -1: none. */
static int find_once_owner(struct web_once *o, const struct web_ask *a)
{
	unsigned char who[HASH_LEN];
	int free_one = -1;

	hash_owner(a, who);
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

static bool once_has_expired(const struct once_entry *e, uint64_t now)
{
	return now > e->at + KEEP_FOR;
}

/* Is a the better victim than b? Expired entries first; then the oldest of the owner with the most entries. */
static bool is_better_victim(const struct web_once *o, const struct once_entry *a, const struct once_entry *b,
			     uint64_t now)
{
	unsigned n = o->owners[a->owner].n, m = b ? o->owners[b->owner].n : 0;

	if (!b)
		return true;
	if (once_has_expired(a, now) != once_has_expired(b, now))
		return once_has_expired(a, now);
	if (!once_has_expired(a, now) && n != m)
		return n > m;
	return a->at < b->at;
}

/* webonce.O1: finds the entry to evict for owner `mine`; -1: an owner without entries. */
static struct once_entry *find_once_victim(struct web_once *o, int mine, uint64_t now)
{
	struct once_entry *found = NULL;

	for (size_t i = 0; i < ENTRIES; i++) {
		struct once_entry *e = &o->e[i];
		unsigned n = mine < 0 ? 0 : o->owners[mine].n;

		if (e->used && !e->runs &&
		    (once_has_expired(e, now) || e->owner == mine || o->owners[e->owner].n > n + 1) &&
		    is_better_victim(o, e, found, now))
			found = e;
	}
	return found;
}

static struct once_entry *make_once_room(struct web_once *o, int mine, uint64_t now)
{
	struct once_entry *e;

	for (size_t i = 0; i < ENTRIES; i++) {
		if (!o->e[i].used)
			return &o->e[i];
	}
	e = find_once_victim(o, mine, now);
	if (e)
		clear_once_entry(o, e);
	return e;
}

enum web_once_state web_once_begin(struct web_once *o, const struct web_ask *a, struct slice body,
				   uint64_t now, unsigned *ret_status, struct slice *ret_body)
{
	unsigned char key[HASH_LEN], what[HASH_LEN];
	struct hash_stream h;
	struct once_entry *e;

	hash_key(a, key);
	hash_stream_init(&h);
	/* Path and query too: the texts of all values. */
	hash_stream_add(&h, a->texts.data ? a->texts.data : "", a->texts.len);
	hash_stream_add(&h, body.p, body.len);
	hash_stream_end(&h, what);
	e = find_once_entry(o, key);
	if (e && !e->runs && now > e->at + KEEP_FOR) {
		clear_once_entry(o, e);
		e = NULL;
	}
	if (e) {
		if (memcmp(e->what, what, HASH_LEN) != 0)
			return WEB_ONCE_OTHER;
		*ret_status = e->status;
		*ret_body = (struct slice){ buf_cstr(&e->body), e->body.len };
		return e->lost ? WEB_ONCE_LOST : e->runs ? WEB_ONCE_RUNS : WEB_ONCE_DONE;
	}
	e = make_once_room(o, find_once_owner(o, a), now);
	if (!e)
		return WEB_ONCE_FULL;
	*e = (struct once_entry){ .used = true, .runs = true, .at = now, .owner = find_once_owner(o, a) };
	o->owners[e->owner].n++;
	memcpy(e->key, key, HASH_LEN);
	memcpy(e->what, what, HASH_LEN);
	return WEB_ONCE_NEW;
}

void web_once_end(struct web_once *o, const struct web_ask *a, unsigned status, const char *body, size_t len)
{
	unsigned char key[HASH_LEN];
	struct once_entry *e;

	hash_key(a, key);
	e = find_once_entry(o, key);
	if (!e)
		return;
	/* A refused caller gets no stored response, and evicts nobody. */
	if (len > BODY_MAX || status >= 500 || status == 429 || status == 401 || status == 403) {
		clear_once_entry(o, e);
		return;
	}
	e->runs = false;
	e->status = status;
	buf_add(&e->body, body, len);
	if (buf_error(&e->body))
		clear_once_entry(o, e);
}

void web_once_abandon(struct web_once *o, const struct web_ask *a)
{
	unsigned char key[HASH_LEN];
	struct once_entry *e;

	hash_key(a, key);
	e = find_once_entry(o, key);
	if (!e || !e->runs)
		return;
	if (!web_route(a->req.op)->changes) {
		clear_once_entry(o, e);
		return;
	}
	e->runs = false;
	e->lost = true;
}
