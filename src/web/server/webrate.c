/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rate limits (webserve.S2). A credential that cofferd accepted has a bucket of its own; a request without
 * one, or with one that is not accepted yet, uses the bucket of its network. So nobody gets a new bucket, or
 * another's, by inventing tokens, and clients without a token do not delay those with one.
 */
#include "web/server/webserve.h"

#include <string.h>

#define NEAR 8 /* number of places a key may be at */

static struct web_bucket *find_bucket(struct web_bucket *table, size_t n, const unsigned char key[HASH_LEN])
{
	size_t at = key[0] | (size_t)key[1] << 8;

	for (size_t i = 0; i < NEAR; i++) {
		struct web_bucket *b = &table[(at + i) % n];

		if (b->at && memcmp(b->key, key, HASH_LEN) == 0)
			return b;
	}
	return NULL;
}

/* Replaces an empty bucket, or the one unused for longest. */
static struct web_bucket *make_bucket(struct web_bucket *table, size_t n, const unsigned char key[HASH_LEN],
				      uint64_t now)
{
	size_t at = key[0] | (size_t)key[1] << 8;
	struct web_bucket *old = &table[at % n];

	for (size_t i = 1; i < NEAR; i++) {
		struct web_bucket *b = &table[(at + i) % n];

		if (b->at < old->at)
			old = b;
	}
	*old = (struct web_bucket){ .at = now, .tokens = WEB_BURST * 1000 };
	memcpy(old->key, key, HASH_LEN);
	return old;
}

static bool take_tokens(struct web_bucket *b, uint64_t now, uint64_t price)
{
	uint64_t gained = (now - b->at) / 1000 * WEB_RATE / 1000;

	if (gained) {
		b->tokens = b->tokens + gained < WEB_BURST * 1000 ? b->tokens + gained : WEB_BURST * 1000;
		b->at = now;
	}
	if (b->tokens < price)
		return false;
	b->tokens -= price;
	return true;
}

bool web_rate_knows(struct web *w, const struct webp_req *q)
{
	return q->cred != WEB_CRED_NONE &&
	       (q->cred == WEB_CRED_OWNER || find_bucket(w->buckets, WEB_BUCKETS, q->key));
}

bool web_rate_allows(struct web *w, const struct webp_req *q, const struct web_via *via, uint64_t now)
{
	uint64_t price = q->op == WEB_EVENTS ? 1000 / WEB_STREAM_SHARE : 1000;
	struct web_bucket *b = q->cred == WEB_CRED_NONE ? NULL : find_bucket(w->buckets, WEB_BUCKETS, q->key);

	if (!b && q->cred == WEB_CRED_OWNER)
		b = make_bucket(w->buckets, WEB_BUCKETS, q->key, now);
	if (!b) {
		b = find_bucket(w->peers, WEB_PEERS, via->peer);
		b = b ? b : make_bucket(w->peers, WEB_PEERS, via->peer, now);
	}
	return take_tokens(b, now, price);
}

void web_rate_judged(struct web *w, const struct webp_req *q, bool good, uint64_t now)
{
	struct web_bucket *b = q->cred == WEB_CRED_NONE ? NULL : find_bucket(w->buckets, WEB_BUCKETS, q->key);

	if (q->cred == WEB_CRED_NONE)
		return;
	if (b && !good)
		*b = (struct web_bucket){ 0 };
	if (!b && good)
		(void)make_bucket(w->buckets, WEB_BUCKETS, q->key, now);
}
