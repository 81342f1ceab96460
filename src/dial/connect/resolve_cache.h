/* SPDX-License-Identifier: Apache-2.0 */
/* The table behind resolve.h: what was answered, and what is still being asked. No I/O, and the caller's clock. */
#ifndef DIAL_RESOLVE_CACHE_H
#define DIAL_RESOLVE_CACHE_H

#include "dial/connect/resolve.h"

#include <sys/queue.h>

#define CACHE_BUCKETS 1024
#define CACHE_KEY_LEN 16

struct resolve_entry {
	TAILQ_ENTRY(resolve_entry) lru; /* the least recently used first */
	struct resolve_entry *chain;
	uint32_t hash;
	struct host name;
	bool is_pending;
	uint64_t expires; /* once it is answered */
	struct answer answer;
	struct lookup *waiting; /* while it is pending */
	/* The resolver's own. */
	struct resolve_query *query[2];
	struct timer grace;
	bool was_cancelled; /* to be asked of other servers */
	struct resolver *resolver;
};

TAILQ_HEAD(resolve_lru, resolve_entry);

struct resolve_cache {
	struct resolve_entry *bucket[CACHE_BUCKETS];
	struct resolve_lru lru;
	size_t n, n_pending;
	unsigned char key[CACHE_KEY_LEN]; /* of the hash: names are chosen by strangers */
};

void resolve_cache_init(struct resolve_cache *c, const unsigned char key[CACHE_KEY_LEN]);
void resolve_cache_release(struct resolve_cache *c);

/* One that is pending, or answered and not too old; used just now. NULL: there is none. */
struct resolve_entry *resolve_cache_find(struct resolve_cache *c, const struct host *h, uint64_t now);

/* A new one, pending. Makes room. NULL and *ret_r: -EBUSY, -ENOMEM. */
struct resolve_entry *resolve_cache_add(struct resolve_cache *c, const struct host *h, int *ret_r);

/* Its answer is set: it is kept from now on. The time to live is brought between its bounds. */
void resolve_cache_answered(struct resolve_cache *c, struct resolve_entry *x, uint64_t now);

/* Everything that is not pending. */
void resolve_cache_forget(struct resolve_cache *c);

/* Seconds that an answer still holds, at least 1. */
uint32_t resolve_cache_left(const struct resolve_entry *x, uint64_t now);

/* Families in turn, IPv6 first, at most RESOLVE_ADDRS_MAX, each once. */
void resolve_interleave(struct answer *a, const struct addr *v6, size_t n6, const struct addr *v4, size_t n4);

#endif
