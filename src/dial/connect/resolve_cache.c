/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hash table and the LRU list of resolve_cache.h. The hash is keyed, since strangers choose the names;
 * memory is bounded (resolve.R2). It does no I/O and reads no clock.
 */
#include "dial/connect/resolve_cache.h"

#include "base/clock.h"

#include <assert.h>
#include <errno.h>
#include <sodium.h>
#include <string.h>

void resolve_cache_init(struct resolve_cache *c, const unsigned char key[CACHE_KEY_LEN])
{
	*c = (struct resolve_cache){ 0 };
	TAILQ_INIT(&c->lru);
	memcpy(c->key, key, CACHE_KEY_LEN);
}

static uint32_t cache_hash(const struct resolve_cache *c, const struct host *h)
{
	unsigned char out[crypto_shorthash_BYTES];
	uint32_t hash;

	static_assert(CACHE_KEY_LEN == crypto_shorthash_KEYBYTES, "a key of siphash");
	crypto_shorthash(out, (const unsigned char *)h->text, h->len, c->key);
	memcpy(&hash, out, sizeof(hash));
	return hash;
}

static void cache_drop(struct resolve_cache *c, struct resolve_entry *x)
{
	struct resolve_entry **p = &c->bucket[x->hash % CACHE_BUCKETS];

	while (*p != x)
		p = &(*p)->chain;
	*p = x->chain;
	TAILQ_REMOVE(&c->lru, x, lru);
	c->n--;
	c->n_pending -= x->is_pending;
	free(x->answer.aliases);
	free(x);
}

void resolve_cache_release(struct resolve_cache *c)
{
	while (!TAILQ_EMPTY(&c->lru))
		cache_drop(c, TAILQ_FIRST(&c->lru));
}

void resolve_cache_forget(struct resolve_cache *c)
{
	struct resolve_entry *x = TAILQ_FIRST(&c->lru), *next;

	for (; x; x = next) {
		next = TAILQ_NEXT(x, lru);
		if (!x->is_pending)
			cache_drop(c, x);
	}
}

struct resolve_entry *resolve_cache_find(struct resolve_cache *c, const struct host *h, uint64_t now)
{
	uint32_t hash = cache_hash(c, h);
	struct resolve_entry *x = c->bucket[hash % CACHE_BUCKETS];

	while (x && (x->hash != hash || !host_eq(&x->name, h)))
		x = x->chain;
	if (!x)
		return NULL;
	if (!x->is_pending && now >= x->expires) {
		cache_drop(c, x);
		return NULL;
	}
	TAILQ_REMOVE(&c->lru, x, lru);
	TAILQ_INSERT_TAIL(&c->lru, x, lru);
	return x;
}

/* Pending entries are bounded separately, so that there is always one to drop. */
static void cache_make_room(struct resolve_cache *c)
{
	struct resolve_entry *x = TAILQ_FIRST(&c->lru), *next;

	for (; x && c->n - c->n_pending >= RESOLVE_CACHE_MAX; x = next) {
		next = TAILQ_NEXT(x, lru);
		if (!x->is_pending)
			cache_drop(c, x);
	}
}

struct resolve_entry *resolve_cache_add(struct resolve_cache *c, const struct host *h, int *ret_r)
{
	struct resolve_entry *x;

	if (c->n_pending >= RESOLVE_PENDING_MAX) {
		*ret_r = -EBUSY;
		return NULL;
	}
	cache_make_room(c);
	x = calloc(1, sizeof(*x));
	if (!x) {
		*ret_r = -ENOMEM;
		return NULL;
	}
	x->name = *h;
	x->hash = cache_hash(c, h);
	x->is_pending = true;
	x->chain = c->bucket[x->hash % CACHE_BUCKETS];
	c->bucket[x->hash % CACHE_BUCKETS] = x;
	TAILQ_INSERT_TAIL(&c->lru, x, lru);
	c->n++;
	c->n_pending++;
	return x;
}

static uint32_t bounded_ttl(const struct resolve_answer *a)
{
	if (a->status == -ENOENT)
		return RESOLVE_TTL_NO_NAME;
	if (a->status)
		return RESOLVE_TTL_FAILED;
	if (a->ttl < RESOLVE_TTL_MIN)
		return RESOLVE_TTL_MIN;
	return a->ttl < RESOLVE_TTL_MAX ? a->ttl : RESOLVE_TTL_MAX;
}

void resolve_cache_answered(struct resolve_cache *c, struct resolve_entry *x, uint64_t now)
{
	BUG_ON(!x->is_pending);
	x->is_pending = false;
	c->n_pending--;
	x->answer.ttl = bounded_ttl(&x->answer);
	x->expires = now + x->answer.ttl * NSEC_PER_SEC;
}

uint32_t resolve_cache_left(const struct resolve_entry *x, uint64_t now)
{
	uint64_t left = x->expires > now ? (x->expires - now) / NSEC_PER_SEC : 0;

	return left ? (uint32_t)left : 1;
}

static void add_addr_once(struct resolve_answer *a, const struct addr *x)
{
	if (a->n_addrs == RESOLVE_ADDRS_MAX)
		return;
	for (size_t i = 0; i < a->n_addrs; i++) {
		if (addr_eq(&a->addrs[i], x))
			return;
	}
	a->addrs[a->n_addrs++] = *x;
}

void resolve_interleave(struct resolve_answer *a, const struct addr *v6, size_t n6, const struct addr *v4,
			size_t n4)
{
	for (size_t i = 0; i < n6 || i < n4; i++) {
		if (i < n6)
			add_addr_once(a, &v6[i]);
		if (i < n4)
			add_addr_once(a, &v4[i]);
	}
}
