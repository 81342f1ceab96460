/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inspection: terminates TLS, speaks HTTP with both sides, and judges each request. The implementation of
 * struct egress_inspector; one per process.
 *
 *	flow (core) ─ take ─▶ inspect_conn: TLS to the client, HTTP/1.1 or HTTP/2 ─▶ exchange ─▶ upstream: TLS to the server
 *
 * Invariants
 *  N1  A request is served for the name that was looked up and for no other: SNI, Host and :authority must
 *      equal it, and the server's certificate is verified for it.
 *  N2  Everything a peer can make us store is bounded: heads by codec/http1 and nghttp2's limits, bodies by
 *      pipes, the number of streams, connections and waiting requests by the numbers below.
 *  N3  Nothing waits for ever: each phase has a timeout, checked once a second.
 */
#ifndef EGRESS_INSPECT_H
#define EGRESS_INSPECT_H

#include "egress/core/flow.h"
#include "egress/exchange/http_exch.h"
#include "egress/tls/tls_io.h"
#include "vault/common/mark.h"

#define INSPECT_EXCHANGES_MAX 20000
#define INSPECT_SPARE_MAX 64 /* freed exchanges kept for reuse */

/* Timeouts in seconds; tests set their own. */
struct inspect_times {
	unsigned head;	   /* for a request's head, from its first byte; for a TLS handshake */
	unsigned keep;	   /* between two requests */
	unsigned body;	   /* without a byte of a request's body */
	unsigned response; /* until the response begins; and before that, until a connection becomes free */
	unsigned stall;	   /* without a byte of the response, from the server or to the client */
	unsigned upstream; /* for dialling and the TLS handshake */
	unsigned render;   /* for the vault's reply */
	unsigned idle;	   /* of a connection to a server, unused */
};

#define INSPECT_TIMES                              \
	((struct inspect_times){ .head = 20,       \
				 .keep = 120,      \
				 .body = 60,       \
				 .response = 1800, \
				 .stall = 3600,    \
				 .upstream = 30,   \
				 .render = 10,     \
				 .idle = 55 })

#define INSPECT_UP_BUCKETS 256

struct h1_server;
struct h2_server;

/* The client's side of one connection. */
struct inspect_conn {
	struct inspect *in;
	struct flow *flow;
	struct io io;
	struct host host; /* inspect.N1 */
	uint16_t port;
	bool tls;
	struct h1_server *h1;
	struct h2_server *h2;
	uint64_t active; /* eg->now at the last progress */
	bool dying;
	struct task grave;
	struct inspect_conn *next, **link;
};

struct tls_ctx;
struct ca;
struct http_secrets;
struct watch_set;

struct inspect {
	struct egress *eg;
	struct runq q;
	struct inspect_times times;
	struct timer tick;
	bool ticking;
	uint64_t second;	      /* eg->now at the last whole tick */
	struct ca *ca;		      /* created when first needed */
	struct tls_ctx *tls;	      /* created when first needed */
	int ca_fd, store_fd;	      /* -1: none */
	struct http_secrets *secrets; /* NULL: the sandbox has none */
	struct marks marks;	      /* of placeholders of other sandboxes */
	struct watch_set *watch;      /* http_watch.c: the search set for requests */
	uint64_t told[64];	      /* hashes of the alerts already sent */
	bool ca_told;		      /* the guard has the certificate */
	bool fenced;		      /* few system calls are left */
	struct inspect_conn *conns;
	struct exch *exchs, *spare;
	unsigned n_exchs, n_spare, n_conns;
	struct upstream *ups;
	unsigned n_ups;
	struct upstream *up_buckets[INSPECT_UP_BUCKETS]; /* the same, by key (upstream.U5) */
	struct exch *waiting, **waiting_end;		 /* for a connection to a server */
	struct task serve;				 /* serves those */
	bool none_idle;					 /* while they are served: no connection is idle */
	size_t held;					 /* bytes of bodies that are held */
	bool clear_h2_front, clear_h2_back; /* for tests: HTTP/2 without the TLS that would negotiate it */
	uint64_t next_request;
	bool paused; /* some exchange waits for bandwidth */
	/* For CTL_STATS. */
	uint64_t requests, denied, failed, reused, dialled, handshakes, resumed, h2_conns, looked;
};

/* For egress_main(): everything else is created for the first connection that needs it. */
int inspect_install(struct egress *eg, struct err *e) MUST_CHECK;
int inspect_install_fds(struct egress *eg, int ca_fd, int store_fd, struct err *e) MUST_CHECK; /* -1: none */
void inspect_uninstall(struct egress *eg);
/* Parts that tests call separately. */
int inspect_open(struct inspect **ret, struct egress *eg, int ca_fd, int store_fd, struct err *e) MUST_CHECK;
void inspect_drop_all(struct inspect *in); /* ends every connection, on both sides */
void inspect_close(struct inspect *in);

/* The certificate that the sandbox must trust; creates the CA if necessary. */
int inspect_ca_pem(struct egress *eg, const char **ret, struct err *e) MUST_CHECK;

/* Create TLS and the CA when first needed. */
int inspect_need_tls(struct inspect *in, struct err *e) MUST_CHECK;
void inspect_tick_on(struct inspect *in); /* a timeout is pending now */
int inspect_need_ca(struct inspect *in, struct err *e) MUST_CHECK;

/* Ends the connection: one `close` line. `how` as in flow_end(). */
void inspect_conn_end(struct inspect_conn *c, const char *how);

/* h1_server.c, h2_server.c: take over c->io once the protocol is known. */
int h1_server_open(struct inspect_conn *c) MUST_CHECK;
void h1_server_close(struct inspect_conn *c);
void h1_server_run(struct inspect_conn *c);
void h1_server_tick(struct inspect_conn *c, uint64_t now);
int h2_server_open(struct inspect_conn *c) MUST_CHECK;
void h2_server_close(struct inspect_conn *c);
void h2_server_run(struct inspect_conn *c);
void h2_server_tick(struct inspect_conn *c, uint64_t now);

#endif
