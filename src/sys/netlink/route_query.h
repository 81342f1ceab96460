/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queries the kernel's routing for one destination at a time: does a packet to it leave this host? The source address that the
 * kernel would choose does not tell: a secondary address, and a local route with `src`, have another address as their source.
 * No packet is sent, and no privilege is needed.
 */
#ifndef SYS_ROUTE_QUERY_H
#define SYS_ROUTE_QUERY_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

struct route_query {
	int fd; /* -1: not open; CLOEXEC */
	uint32_t seq;
};

#define ROUTE_QUERY_INIT ((struct route_query){ .fd = -1 })

/* In the caller's network namespace. Needs socket(); a query needs only sendto() and recvfrom(). */
int route_query_open(struct route_query *q, struct err *e) MUST_CHECK;
void route_query_close(struct route_query *q);

/*
 * The type of the route that this process's packets to `dst` (4 or 16 bytes, by family) take: RTN_UNICAST, RTN_LOCAL, …; never
 * RTN_UNSPEC. -ENETUNREACH and the like: there is no route. Any other negative errno: the kernel did not tell.
 */
int route_query_type(struct route_query *q, int family, const void *dst) MUST_CHECK;

/* One datagram of the kernel's: the same for the query with this number; 0: it has no response to that. Pure. */
int route_response_type(const void *data, size_t len, uint32_t seq) MUST_CHECK;

#endif
