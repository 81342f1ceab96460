/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets of upstream proxies (`pool` in a policy): chooses a member, and opens the tunnel through it.
 *
 * Invariants
 *  O1  A use of a set ends with a tunnel through one of its members, or with an error. There is no other
 *      outcome.
 *  O2  The target's name is passed to the proxy unchanged; nothing about it is resolved here.
 *  O3  Only the proxy's own faults count against it: no connection, missing or wrong credentials, another
 *      protocol. An orderly refusal concerns the target server, and is reported to the requester. Silence may
 *      be the fault of either: it counts when two different targets in a row met it, or when the set's own
 *      check does.
 *  O4  Credentials are in this process only, in memory that is zeroed; no message, line or statistics contain
 *      them. One from the vault is here for one handshake only.
 */
#ifndef DIAL_PROXY_H
#define DIAL_PROXY_H

#include "base/json.h"
#include "dial/proxy/proxy_score.h"
#include "dial/proxy/proxy_sticky.h"
#include "dial/proxy/proxy_tunnel.h"
#include "policy/policy.h"

#define PROXY_TRIES 3 /* members tried for one use */
#define PROXY_MEMBERS_MAX 1024
#define PROXY_CREDENTIALS_MAX (256u << 10) /* bytes of the memfd */
#define PROXY_TIMEOUT_MS 30000		   /* for one use */
#define PROXY_CHECK_IDLE_S 300		   /* a set that was not used for so long is not checked */

struct proxy_member {
	struct policy_proxy def;
	char label[64];	       /* HOST:PORT */
	char *user, *password; /* NULL: none */
	uint64_t suspect;      /* hash of the target that met silence, 0: none */
	struct tunnel *check;  /* running */
	uint64_t check_began;
	struct proxy_set *set;
};

struct proxy_set {
	struct proxy_sets *sets;
	char name[POLICY_PROXY_SET_MAX + 1];
	char secret[POLICY_SECRET_MAX + 1]; /* in the vault, for every member */
	enum policy_rotate rotate;
	uint64_t sticky_ns, check_ns;
	bool has_check;
	struct host check_host;
	uint16_t check_port;
	size_t n;
	struct proxy_member *member;
	struct score *score;
	struct sticky sticky;
	struct timer check_timer;
	uint64_t used_at;
};

struct proxy_sets;

/* The environment of the proxy sets. loop and resolver NULL: for tests that never connect. */
struct proxy_env {
	struct loop *loop;
	struct resolver *resolver;
	struct dial_vault *vault; /* NULL: the only credentials are those that came with the policy */
	/* A member's state changed. May be NULL. */
	void (*on_state)(void *ctx, const struct proxy_set *p, size_t member, const char *why);
	void *ctx;
};

/*
 * Builds the sets from the policy and the credentials (proxy_credentials.h; NULL: those of `old`). Scores and
 * stickiness are taken over from `old` where a proxy is the same.
 */
int proxy_sets_new(struct proxy_sets **ret, const struct proxy_env *env, const struct policy *p,
		   const char *credentials, size_t len, const struct proxy_sets *old,
		   struct err *e) MUST_CHECK;
/* Stops checks and new uses. Running uses keep it alive. */
void proxy_sets_free(struct proxy_sets *s);
struct proxy_set *proxy_sets_find(struct proxy_sets *s, const char *name);
/* O3, for a fault that egress saw. An unknown name is ignored. */
void proxy_sets_fault(struct proxy_sets *s, const char *set, const char *proxy);
/* An array with an object for each proxy, as many as fit into `room` bytes. */
void proxy_sets_add_stats(const struct proxy_sets *s, struct json *j, const char *key, size_t room);

/* For proxy_use.c and proxy_check.c: records an outcome, by O3. */
void proxy_outcome(struct proxy_set *p, size_t member, enum tunnel_end end, bool is_check, uint64_t target,
		   uint64_t latency_ns, const char *why);
uint64_t proxy_hash(const struct proxy_set *p, const char *text);
void proxy_ref(struct proxy_set *p);
void proxy_unref(struct proxy_set *p);
const struct proxy_env *proxy_env(const struct proxy_set *p);
void proxy_fill_tunnel(const struct proxy_set *p, size_t member, struct tunnel *t);

/* proxy_check.c: active checks. */
void proxy_check_arm(struct proxy_set *p);
void proxy_check_now(struct proxy_set *p, size_t member);
void proxy_check_stop(struct proxy_set *p);

/* One connection through a set; embedded in its owner's struct. */
struct proxy_use {
	/* The owner gets fd; or a status with `why`. `proxy` is the last member tried, "" when none was. */
	void (*done)(struct proxy_use *u, int status, int fd, const char *proxy, const char *why);
	void *ctx;
	struct proxy_set *set; /* NULL while it does not run */
	struct host target;
	uint16_t port;
	uint64_t key; /* hash of the text that stays with one proxy */
	uint64_t tried[PROXY_MEMBERS_MAX / 64];
	unsigned tries;
	size_t at;
	struct tunnel *tunnel;
	uint64_t began;	    /* when the tunnel was started */
	struct timer later; /* so that done() is never called from proxy_use_start() */
	int status;
	char why[128];
};

void proxy_use_start(struct proxy_use *u, struct proxy_set *p, const struct host *target, uint16_t port,
		     const char *sticky);
void proxy_use_cancel(struct proxy_use *u);

#endif
