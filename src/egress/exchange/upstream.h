/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections to servers: reused when they are idle (HTTP/1.1) or have room (HTTP/2), dialled otherwise.
 *
 * Invariants
 *  U1  A connection is reused only for what it was opened for: the same name, port, policy generation and
 *      rule (which determine the dialled address, the proxy, and the accepted certificates), and the same
 *      secrets. A server may treat a connection that has carried a credential as logged in, and its responses
 *      are searched for that credential only: requests with other secrets, or with none, use connections of
 *      their own.
 *  U2  The server is verified before a byte of a request is sent: its chain against the rule's `ca:` or the
 *      system's store, its name against the name that was looked up.
 *  U3  At most UPSTREAM_KEY_MAX connections for one such key and UPSTREAM_MAX in all; further requests wait
 *      in order.
 *  U4  Idle connections keep no request waiting. Where a limit of U3 is reached, the connection idle for
 *      longest is closed: of the same key, else (for UPSTREAM_MAX) of any. It is also closed where a request
 *      needs a new connection (exch.fresh) and UPSTREAM_IDLE_KEY_MAX of its key are idle.
 *  U5  The cost of one request does not grow with the number of others: connections are found by their key,
 *      and of requests that wait for the same one only the first is tried when there is none (upstream_looked
 *      in CTL_STATS counts the connections visited).
 */
#ifndef EGRESS_UPSTREAM_H
#define EGRESS_UPSTREAM_H

#include "crypto/hash.h"
#include "egress/exchange/inspect.h"

#define UPSTREAM_KEY_MAX 64
#define UPSTREAM_MAX 4096
#define UPSTREAM_IDLE_KEY_MAX 16

struct upstream_key {
	struct host host;
	uint16_t port;
	bool tls;
	uint32_t generation;
	uint32_t rule_id;
	unsigned char secrets[HASH_LEN]; /* secret_digest(): 0 where there are none */
};

enum upstream_state { UP_DIAL, UP_SHAKE, UP_LIVE, UP_DEAD };

struct h1_client;
struct h2_client;

struct upstream {
	struct inspect *in;
	struct upstream_key key;
	enum upstream_state state;
	bool offers_h2; /* in ALPN */
	bool only_h1;	/* must be HTTP/1.1 (websocket) */
	bool retried_h2;
	bool used;	  /* it has carried a request */
	bool one_request; /* the proxy set rotates by request */
	bool is_io;	  /* io is open */
	bool verified;	  /* U2, by TLS: its chain and its name */
	char proxy_set[DIAL_PROXY_SET_LEN];
	struct dialc_request dial;
	struct io io;
	struct h1_client *h1;
	struct h2_client *h2;
	struct exch *first; /* the exchange it is for: HTTP/1.1, or before the protocol is known */
	char why[256];
	uint64_t since; /* eg->now when this state, or idleness, began */
	struct task grave;
	struct upstream *next, **link;
	uint64_t hash;			    /* of its key */
	struct upstream *also, **also_link; /* in its bucket */
};

/* Finds or opens a connection for e, which was allowed; ends with a back, or exch_back_failed(). */
void upstream_get(struct exch *e);
/* Does it wait because as many are open as allowed (U3)? */
bool upstream_is_waiting(const struct exch *e);
/* e no longer needs a connection. */
void upstream_forget(struct exch *e);
/* The policy has changed: an exchange that waits for a connection waits for one under the new policy. */
void upstream_again(struct exch *e);
/* A connection became free or was closed: tries the waiting exchanges. */
void upstream_serve(struct inspect *in);
void upstream_tick(struct inspect *in, uint64_t now);
void upstream_close_all(struct inspect *in);
/* Closes the idle connections of an older policy. */
void upstream_new_policy(struct inspect *in);

/* The connection is broken or ended; tells every exchange on it why. */
void upstream_fail(struct upstream *u, bool again, const char *why);
void upstream_free(struct upstream *u);

/* h1_client.c, h2_client.c. */
int h1_client_open(struct upstream *u) MUST_CHECK;
void h1_client_close(struct upstream *u);
void h1_client_run(struct upstream *u);
void h1_client_start(struct upstream *u, struct exch *e);
struct exch *h1_client_take(struct upstream *u); /* takes its exchange away from it */
bool h1_client_is_idle(const struct upstream *u);
int h2_client_open(struct upstream *u) MUST_CHECK;
void h2_client_close(struct upstream *u);
void h2_client_run(struct upstream *u);
void h2_client_start(struct upstream *u, struct exch *e);
bool h2_client_has_room(const struct upstream *u);
bool h2_client_is_idle(const struct upstream *u);
void h2_client_fail_all(struct upstream *u, bool again, const char *why);

#endif
