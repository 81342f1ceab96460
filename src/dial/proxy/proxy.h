/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools of upstream proxies: which one is taken, and the tunnel through it.
 *
 * Invariants
 *  O1  A use of a pool ends with a tunnel through one of its members, or with an error. There is no other way out.
 *  O2  The target's name goes to the proxy as it is; nothing about it is resolved here.
 *  O3  Only the proxy's own faults count against it: no connection, no or wrong credentials, not its protocol. A refusal
 *      by it in good order is about the server behind it, and is told to whoever asked. Silence can be either's: it
 *      counts when two different targets in a row met it, or when the pool's own check does.
 *  O4  Credentials are in this process alone, in memory that is wiped; no message, line or snapshot holds them. One that is in
 *      the vault is here for one handshake only.
 */
#ifndef DIAL_PROXY_H
#define DIAL_PROXY_H

#include "base/json.h"
#include "dial/proxy/proxy_score.h"
#include "dial/proxy/proxy_sticky.h"
#include "dial/proxy/proxy_tunnel.h"
#include "policy/policy.h"

#define POOL_TRIES 3 /* members for one use */
#define POOL_MEMBERS_MAX 1024
#define POOL_CREDENTIALS_MAX (256u << 10) /* bytes of the memfd */
#define POOL_TIMEOUT_MS 30000		  /* for one use */
#define POOL_CHECK_IDLE_S 300		  /* no checks of a pool that was not used for so long */

struct pool_member {
	struct policy_proxy def;
	char label[64];	       /* HOST:PORT */
	char *user, *password; /* NULL: none */
	uint64_t suspect;      /* hash of the target that met silence, 0: none */
	struct tunnel *check;  /* under way */
	uint64_t check_began;
	struct pool *pool;
};

struct pool {
	struct pools *set;
	char name[POLICY_POOL_MAX + 1];
	char secret[POLICY_SECRET_MAX + 1]; /* in the vault, for every member */
	enum policy_rotate rotate;
	uint64_t sticky_ns, check_ns;
	bool has_check;
	struct host check_host;
	uint16_t check_port;
	size_t n;
	struct pool_member *member;
	struct score *score;
	struct sticky sticky;
	struct timer check_timer;
	uint64_t used_at;
};

struct pools;

/* What a set of pools works with. loop and resolver NULL: for tests that never connect. */
struct pools_env {
	struct loop *loop;
	struct resolver *resolver;
	struct dial_vault *vault; /* NULL: credentials are none but those that came with the pools */
	/* A member's state changed. NULL: nobody wants to know. */
	void (*on_state)(void *ctx, const struct pool *p, size_t member, const char *why);
	void *ctx;
};

/*
 * Out of the policy and the credentials (proxy_credentials.h; NULL: those of `old`). Scores and stickiness are taken over
 * from `old` where a proxy is the same.
 */
int pools_new(struct pools **ret, const struct pools_env *env, const struct policy *p,
	      const char *credentials, size_t len, const struct pools *old, struct err *e) MUST_CHECK;
/* No more checks, no new uses. Those that are under way keep it alive. */
void pools_free(struct pools *s);
struct pool *pools_find(struct pools *s, const char *name);
/* O3 for what egress saw. A name that is not there is ignored. */
void pools_fault(struct pools *s, const char *pool, const char *proxy);
/* An array with an object for each proxy, as many as fit `room` bytes. */
void pools_add_stats(const struct pools *s, struct json *j, const char *key, size_t room);

/* For proxy_use.c and proxy_check.c: an outcome, by O3. */
void pool_outcome(struct pool *p, size_t member, enum tunnel_end end, bool is_check, uint64_t target,
		  uint64_t latency_ns, const char *why);
uint64_t pool_hash(const struct pool *p, const char *text);
void pool_ref(struct pool *p);
void pool_unref(struct pool *p);
const struct pools_env *pool_env(const struct pool *p);
void pool_fill_tunnel(const struct pool *p, size_t member, struct tunnel *t);

/* proxy_check.c: active checks. */
void pool_check_arm(struct pool *p);
void pool_check_now(struct pool *p, size_t member);
void pool_check_stop(struct pool *p);

/* One connection through a pool; lives in its owner's struct. */
struct pool_use {
	/* fd is the owner's; or a status with `why`. `proxy` is the last that was tried, "" when none was. */
	void (*done)(struct pool_use *u, int status, int fd, const char *proxy, const char *why);
	void *ctx;
	struct pool *pool; /* NULL while it does not run */
	struct host target;
	uint16_t port;
	uint64_t key; /* hash of what stays with one proxy */
	uint64_t tried[POOL_MEMBERS_MAX / 64];
	unsigned tries;
	size_t at;
	struct tunnel *tunnel;
	uint64_t began;	    /* the tunnel */
	struct timer later; /* so that done() is never called from pool_use_start() */
	int status;
	char why[128];
};

void pool_use_start(struct pool_use *u, struct pool *p, const struct host *target, uint16_t port,
		    const char *sticky);
void pool_use_cancel(struct pool_use *u);

#endif
