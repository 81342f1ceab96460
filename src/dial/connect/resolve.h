/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resolves names outside of the sandbox: c-ares on our loop, with a cache.
 *
 * The cache holds answers unjudged; the dialling code judges every address each time, and dials only
 * addresses that it judged (nothing is resolved again between the two).
 *
 * Invariants
 *  R1  Both families are queried at once. When one has addresses the other gets RESOLVE_GRACE_MS more.
 *  R2  A name is queried once however many lookups wait for it. At most RESOLVE_PENDING_MAX are pending, and
 *      at most RESOLVE_CACHE_MAX answers cached; the least recently used is dropped first.
 *  R3  A time to live is bounded by RESOLVE_TTL_MIN and RESOLVE_TTL_MAX, so that a server can neither force a
 *      query for every connection nor pin an address for days.
 *  R4  Only the given servers are queried: no hosts file, no search domains, no environment.
 */
#ifndef DIAL_RESOLVE_H
#define DIAL_RESOLVE_H

#include "codec/net/host.h"
#include "ipc/loop.h"

#define RESOLVE_ADDRS_MAX 32
#define RESOLVE_ALIASES_MAX 12
#define RESOLVE_SERVERS_MAX 8
#define RESOLVE_PENDING_MAX 4096
#define RESOLVE_CACHE_MAX 4096
#define RESOLVE_TTL_MIN 10
#define RESOLVE_TTL_MAX 3600
#define RESOLVE_TTL_NO_NAME 10 /* for "no such name" */
#define RESOLVE_TTL_FAILED 1
#define RESOLVE_GRACE_MS 250

struct resolve_answer {
	int status; /* 0; -ENOENT: no such name, or none with an address; -EREMOTEIO; -ETIMEDOUT; -ELOOP */
	uint32_t ttl;
	size_t n_addrs, n_aliases;
	struct addr addrs[RESOLVE_ADDRS_MAX]; /* the families alternate, IPv6 first */
	struct host *aliases;		      /* CNAME targets in the order of the chain */
	char why[96];			      /* with a status: for people */
	bool was_told;			      /* set by the caller: the problem was reported */
};

struct resolver;

struct resolve_server {
	struct addr addr;
	uint16_t port;
};

/*
 * A waiting lookup; embedded in its owner's struct. fn may cancel itself and others, but must neither start a new
 * lookup nor set the servers: both may free the answer that is being delivered.
 */
struct resolve_lookup {
	void (*fn)(struct resolve_lookup *l, struct resolve_answer *a);
	void *ctx;
	struct resolve_entry *entry; /* NULL while it does not wait */
	struct resolve_lookup *next;
};

/* Call before the process is confined: c-ares reads its randomness from a file. */
int resolver_open(struct resolver **ret, struct loop *loop, struct err *e) MUST_CHECK;
void resolver_free(struct resolver *r);

static inline void resolver_freep(struct resolver **r)
{
	resolver_free(*r);
}

/* Takes effect at once. Pending queries are repeated; cached answers are dropped. */
int resolver_set_servers(struct resolver *r, const struct resolve_server *s, size_t n,
			 struct err *e) MUST_CHECK;

/* The nameserver lines of a resolv.conf, at most RESOLVE_SERVERS_MAX; unreadable lines are skipped. */
size_t resolver_read_conf(const char *text, size_t len, struct resolve_server ret[RESOLVE_SERVERS_MAX]);

/*
 * `h` is a name. 1: *ret is the answer, valid until the next call; 0: l->fn will be called, never from here;
 * -EBUSY: too many are pending; -ENOMEM.
 */
int resolver_lookup(struct resolver *r, const struct host *h, struct resolve_lookup *l,
		    struct resolve_answer **ret) MUST_CHECK;
void resolver_cancel(struct resolver *r, struct resolve_lookup *l);

struct resolver_stats {
	uint64_t queries, hits;
	size_t kept, pending;
};
struct resolver_stats resolver_stats(const struct resolver *r);

#endif
