/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sandbox's resolver: one query in, one reply out, whatever address it was sent to.
 *
 * Invariants
 *  R1  A name that the policy denies gets NXDOMAIN, and nothing of it is sent upstream. An allowed name gets
 *      its synthetic address once coffer-dial has confirmed that it exists; from then on the reply comes from
 *      the table.
 *  R2  A records only. Every other type of an existing name gets an empty reply, so that a sandbox sees only
 *      names and our own addresses; PTR of such an address is its name.
 *  R3  A reply is sent after its journal line (egress.E1). The first lookup of each allowed name has its line
 *      before anything of it is sent upstream: `allow`, `first`, and no address, since none is known yet. The
 *      ledger is checked before that, and may delay it. A lookup that fails, or that dial denies, has one
 *      more line, also `first`.
 *  R4  Bounded: DNS_PENDING_MAX names at coffer-dial, DNS_WAITERS_MAX waiting queries, DNS_RESOLVE_RATE new
 *      names per second; beyond that SERVFAIL. A query for a pending name waits together with the first.
 */
#ifndef EGRESS_DNS_SERVE_H
#define EGRESS_DNS_SERVE_H

#include "codec/net/dns.h"
#include "egress/core/egress.h"

#include <netinet/in.h>

#define DNS_PENDING_MAX 1024
#define DNS_WAITERS_MAX 4096
#define DNS_RESOLVE_RATE 200
#define DNS_RESOLVE_BURST 1000
#define DNS_TTL \
	60 /* of synthetic addresses, which never change; short, so that a change of policy takes effect */
#define DNS_TTL_NEGATIVE 5 /* of a denial: the name may be allowed a moment later */

struct dns_client; /* the sender of a query: a UDP peer or a TCP connection */

/* Delivers replies: `send` is called once. */
struct dns_client_ops {
	void (*send)(struct dns_client *c, const uint8_t *msg, size_t len);
	size_t (*max)(const struct dns_client *c, const struct dns_query *q); /* largest size of a reply */
	struct dns_client *(*keep)(struct dns_client *c); /* a copy that persists; NULL: no memory */
	void (*drop)(struct dns_client *c);		  /* frees that copy */
};

struct dns_client {
	const struct dns_client_ops *ops;
	struct dns_serve *dns;
};

int dns_serve_new(struct egress *eg, struct err *e) MUST_CHECK; /* sets eg->dns */
void dns_serve_free(struct egress *eg);

/* Handles one query from inside. */
void dns_serve_query(struct dns_serve *s, struct dns_client *c, const uint8_t *msg, size_t len);

/* Once a second. */
void dns_serve_tick(struct dns_serve *s);

/* dns_udp.c and dns_tcp.c, the wall's sockets; `fd` stays open until they are freed. */
int dns_udp_open(struct dns_serve *s, int fd, bool v6, struct err *e) MUST_CHECK;
void dns_udp_flush(struct dns_serve *s,
		   int status); /* after the journal's commit; status < 0: nothing is sent */
int dns_tcp_open(struct dns_serve *s, int fd, struct err *e) MUST_CHECK;
/* A connection from inside; takes fd. `handed`: it came in a message, and its sender may have a copy. */
void dns_tcp_take(struct dns_serve *s, int fd, bool handed);
void dns_tcp_close_all(struct dns_serve *s); /* the connections, not the sockets that listen */
void dns_tcp_flush(struct dns_serve *s, int status);
void dns_tcp_tick(struct dns_serve *s);

struct egress *dns_serve_egress(struct dns_serve *s);
struct dns_udp **dns_serve_udp(struct dns_serve *s);
struct dns_tcp **dns_serve_tcp(struct dns_serve *s);
void dns_udp_free(struct dns_serve *s);
void dns_tcp_free(struct dns_serve *s);

#endif
