/* SPDX-License-Identifier: Apache-2.0 */
/* Idempotency-Key: what was answered to it, for ten minutes. Bounded: the oldest that has ended makes room. */
#include "gateway/webserve.h"

#include "base/cleanup.h"

#include <stdlib.h>
#include <string.h>

#define ENTRIES 1024
#define KEEP_FOR (600 * NSEC_PER_SEC)
#define BODY_MAX (64u << 10)

struct entry {
	bool used, runs;
	uint64_t at;
	unsigned char key[HASH_LEN];  /* who, what and the key */
	unsigned char what[HASH_LEN]; /* the whole request */
	unsigned status;
	struct buf body;
};

struct web_once {
	struct entry e[ENTRIES];
};

struct web_once *web_once_new(void)
{
	return calloc(1, sizeof(struct web_once));
}

static void clear(struct entry *e)
{
	buf_release(&e->body);
	*e = (struct entry){ 0 };
}

void web_once_free(struct web_once *o)
{
	for (size_t i = 0; o && i < ENTRIES; i++)
		clear(&o->e[i]);
	free(o);
}

static void key_of(const struct web_ask *a, unsigned char ret[HASH_LEN])
{
	struct hash_stream h;
	unsigned char op = (unsigned char)a->req.op, cred = (unsigned char)a->req.cred;

	hash_stream_init(&h);
	hash_stream_add(&h, &cred, 1);
	/* The owner's connections have a key each, and he is one. */
	if (a->req.cred != WEB_CRED_OWNER)
		hash_stream_add(&h, a->req.key, HASH_LEN);
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

static struct entry *make_room(struct web_once *o)
{
	struct entry *oldest = NULL;

	for (size_t i = 0; i < ENTRIES; i++) {
		if (!o->e[i].used)
			return &o->e[i];
		if (!o->e[i].runs && (!oldest || o->e[i].at < oldest->at))
			oldest = &o->e[i];
	}
	if (oldest)
		clear(oldest);
	return oldest;
}

enum web_once_state web_once_begin(struct web_once *o, const struct web_ask *a, const char *body, size_t len,
				   uint64_t now, unsigned *ret_status, struct slice *ret_body)
{
	unsigned char key[HASH_LEN], what[HASH_LEN];
	struct hash_stream h;
	struct entry *e;

	key_of(a, key);
	hash_stream_init(&h);
	/* Path and query too: the texts of all values. */
	hash_stream_add(&h, a->texts.data ? a->texts.data : "", a->texts.len);
	hash_stream_add(&h, body, len);
	hash_stream_end(&h, what);
	e = find(o, key);
	if (e && !e->runs && now > e->at + KEEP_FOR) {
		clear(e);
		e = NULL;
	}
	if (e) {
		if (memcmp(e->what, what, HASH_LEN) != 0)
			return WEB_ONCE_OTHER;
		*ret_status = e->status;
		*ret_body = (struct slice){ buf_cstr(&e->body), e->body.len };
		return e->runs ? WEB_ONCE_RUNS : WEB_ONCE_DONE;
	}
	e = make_room(o);
	if (!e)
		return WEB_ONCE_FULL;
	*e = (struct entry){ .used = true, .runs = true, .at = now };
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
	if (len > BODY_MAX || status >= 500 || status == 429) {
		clear(e);
		return;
	}
	e->runs = false;
	e->status = status;
	buf_add(&e->body, body, len);
	if (buf_error(&e->body))
		clear(e);
}

void web_once_forget(struct web_once *o, const struct web_ask *a)
{
	unsigned char key[HASH_LEN];
	struct entry *e;

	key_of(a, key);
	e = find(o, key);
	if (e && e->runs)
		clear(e);
}
