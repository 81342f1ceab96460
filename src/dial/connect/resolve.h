/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names to addresses on the gateway's side: c-ares on our loop, and what it said kept for a while.
 *
 * What is kept is what was answered, unjudged; whoever dials judges every address each time, and dials only those
 * that it judged (nothing is ever resolved twice between the two).
 *
 * Invariants
 *  R1  Both families are asked at once. When one has addresses the other gets RESOLVE_GRACE_MS more.
 *  R2  One question is asked once however many wait for it. At most RESOLVE_PENDING_MAX are open, and at most
 *      RESOLVE_CACHE_MAX answers kept, the least recently used go first.
 *  R3  A time to live is held between RESOLVE_TTL_MIN and RESOLVE_TTL_MAX, so that a server can neither make us ask for
 *      every connection nor pin an address for days.
 *  R4  Only the given servers are asked: no hosts file, no search domains, no environment.
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
#define RESOLVE_TTL_NO_NAME 10 /* "there is no such name" */
#define RESOLVE_TTL_FAILED 1
#define RESOLVE_GRACE_MS 250

struct answer {
	int status; /* 0; -ENOENT: no such name, or none with an address; -EREMOTEIO; -ETIMEDOUT; -ELOOP */
	uint32_t ttl;
	size_t n_addrs, n_aliases;
	struct addr addrs[RESOLVE_ADDRS_MAX]; /* the families in turn, IPv6 first */
	struct host *aliases;		      /* CNAME targets in the order of the chain */
	char why[96];			      /* with a status: for people */
	bool was_told;			      /* the caller's: what is wrong with it was written down */
};

struct resolver;

struct resolve_server {
	struct addr addr;
	uint16_t port;
};

/* Somebody who waits; lives in its owner's struct. fn may cancel itself and others, and asks for nothing new. */
struct lookup {
	void (*fn)(struct lookup *l, struct answer *a);
	void *ctx;
	struct resolve_entry *entry; /* NULL while it waits for nothing */
	struct lookup *next;
};

/* Before the process is confined: c-ares reads its randomness from a file. */
int resolver_open(struct resolver **ret, struct loop *loop, struct err *e) MUST_CHECK;
void resolver_free(struct resolver *r);

static inline void resolver_freep(struct resolver **r)
{
	resolver_free(*r);
}

/* From now on. What is open is asked again; what was answered is forgotten. */
int resolver_set_servers(struct resolver *r, const struct resolve_server *s, size_t n,
			 struct err *e) MUST_CHECK;

/* The nameserver lines of a resolv.conf, at most RESOLVE_SERVERS_MAX; what cannot be read is passed over. */
size_t resolver_read_conf(const char *text, size_t len, struct resolve_server ret[RESOLVE_SERVERS_MAX]);

/*
 * `h` is a name. 1: *ret is the answer, valid until the next call; 0: l->fn will be called, never from here;
 * -EBUSY: too many are open; -ENOMEM.
 */
int resolver_ask(struct resolver *r, const struct host *h, struct lookup *l, struct answer **ret) MUST_CHECK;
void resolver_cancel(struct resolver *r, struct lookup *l);

struct resolver_stats {
	uint64_t queries, hits;
	size_t kept, pending;
};
struct resolver_stats resolver_stats(const struct resolver *r);

#endif
