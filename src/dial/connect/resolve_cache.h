/* SPDX-License-Identifier: Apache-2.0 */
/* The table of resolve.h: cached answers and pending names. No I/O; the caller passes the time. */
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
	struct resolve_answer answer;
	struct resolve_lookup *waiting; /* while it is pending */
	/* Used by resolve.c. */
	struct resolve_query *query[2];
	struct timer grace;
	bool was_cancelled; /* must be queried again, from other servers */
	struct resolver *resolver;
};

TAILQ_HEAD(resolve_lru, resolve_entry);

struct resolve_cache {
	struct resolve_entry *bucket[CACHE_BUCKETS];
	struct resolve_lru lru;
	size_t n, n_pending;
	unsigned char key[CACHE_KEY_LEN]; /* of the hash: strangers choose the names */
};

void resolve_cache_init(struct resolve_cache *c, const unsigned char key[CACHE_KEY_LEN]);
void resolve_cache_release(struct resolve_cache *c);

/* A pending entry, or an answered one that has not expired; marks it as used. NULL: none. */
struct resolve_entry *resolve_cache_find(struct resolve_cache *c, const struct host *h, uint64_t now);

/* Adds a pending entry; drops old ones if necessary. NULL and *ret_r: -EBUSY, -ENOMEM. */
struct resolve_entry *resolve_cache_add(struct resolve_cache *c, const struct host *h, int *ret_r);

/* The answer is set: caches it from now on, with the time to live brought within its bounds. */
void resolve_cache_answered(struct resolve_cache *c, struct resolve_entry *x, uint64_t now);

/* Drops everything that is not pending. */
void resolve_cache_forget(struct resolve_cache *c);

/* Seconds for which an answer is still valid, at least 1. */
uint32_t resolve_cache_left(const struct resolve_entry *x, uint64_t now);

/* Alternates the families, IPv6 first, at most RESOLVE_ADDRS_MAX, without duplicates. */
void resolve_interleave(struct resolve_answer *a, const struct addr *v6, size_t n6, const struct addr *v4,
			size_t n4);

#endif
