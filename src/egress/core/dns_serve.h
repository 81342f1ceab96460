/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sandbox's resolver: one query in, one answer out, whatever address it was sent to.
 *
 * Invariants
 *  R1  A name that the policy denies is NXDOMAIN, and nothing of it goes upstream. One that it allows gets its synthetic
 *      address once coffer-dial has said that it exists; from then on it is answered from the table.
 *  R2  A only. Every other type of a name that exists is an empty answer, so that nothing but names and our own
 *      addresses reaches a sandbox; PTR of one of those is its name.
 *  R3  An answer leaves behind its journal line (egress.h, E1). The first lookup of each name that the policy allows has its
 *      line before anything of it goes upstream: `allow`, `first`, and no address, for there is none yet. The ledger is asked
 *      before that, and may let it wait. A lookup that fails or is denied by what dial says has one line more, also `first`.
 *  R4  Bounded: DNS_PENDING_MAX names at coffer-dial, DNS_WAITERS_MAX queries that wait, DNS_RESOLVE_RATE new names a
 *      second; beyond that SERVFAIL. A name that is asked for again while it is pending waits with the first.
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
#define DNS_TTL 60 /* of our own addresses, which never change; short, so that a policy's change is felt */
#define DNS_TTL_NEGATIVE 5 /* of a denial: it may be allowed in a moment */

struct dns_client; /* who asked: a datagram's sender or a connection */

/* Where the answer goes: `send` is called once. */
struct dns_client_ops {
	void (*send)(struct dns_client *c, const uint8_t *msg, size_t len);
	size_t (*max)(const struct dns_client *c, const struct dns_query *q); /* of an answer */
	struct dns_client *(*keep)(struct dns_client *c); /* a copy that lasts; NULL: no memory */
	void (*drop)(struct dns_client *c);		  /* that copy */
};

struct dns_client {
	const struct dns_client_ops *ops;
	struct dns_serve *dns;
};

int dns_serve_new(struct egress *eg, struct err *e) MUST_CHECK; /* eg->dns */
void dns_serve_free(struct egress *eg);

/* One message from inside. */
void dns_serve_query(struct dns_serve *s, struct dns_client *c, const uint8_t *msg, size_t len);

/* Once a second. */
void dns_serve_tick(struct dns_serve *s);

/* dns_udp.c and dns_tcp.c; `fd` stays open until the end. */
int dns_udp_open(struct dns_serve *s, int fd, bool v6, struct err *e) MUST_CHECK;
void dns_udp_flush(struct dns_serve *s,
		   int status); /* after the journal's commit; status < 0: nothing is sent */
int dns_tcp_open(struct dns_serve *s, int fd, struct err *e) MUST_CHECK;
void dns_tcp_flush(struct dns_serve *s, int status);
void dns_tcp_tick(struct dns_serve *s);

struct egress *dns_serve_egress(struct dns_serve *s);
struct dns_udp **dns_serve_udp(struct dns_serve *s);
struct dns_tcp **dns_serve_tcp(struct dns_serve *s);
void dns_udp_free(struct dns_serve *s);
void dns_tcp_free(struct dns_serve *s);

#endif
