/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of a wall that stands elsewhere, on another machine: between coffer-egress and the forwarder, the
 * process here that speaks for that wall. One SOCK_SEQPACKET, EGRESS_FD_WALL, in the host's byte order (both
 * run on one machine, from one build). Pure.
 *
 *  type            sent by    after the head                     descriptors  meaning
 *  WALLMSG_STREAM  forwarder  nothing                            1            a program connected to `to`
 *  WALLMSG_QUERY   forwarder  0 to WALLMSG_DATAGRAM_MAX bytes    0            a program sent a datagram to `to`
 *  WALLMSG_REPLY   egress     1 to DNS_REPLY_MAX bytes           0            a datagram for the program at `to`
 *
 * Invariants
 *  M1  A message has exactly the size that its head says, the number of descriptors of its type, a known type
 *      and family, and zeroes where nothing is used. Both addresses are of that family. Anything else is
 *      -EPROTO, and ends the forwarder: egress takes nothing more from it, and resets all of its connections.
 *  M2  A forwarder says no more than the wall's own sockets would. `to` decides, as getsockname() of an
 *      accepted connection does: port 53 is DNS, whatever the address; every other connection is to an address
 *      that a wall has a route for. `from` decides nothing; a reply goes back to it.
 *  M3  A descriptor is a stream: a TCP socket, or a UNIX one that the forwarder relays. Any other kind ends the
 *      forwarder; one that is not connected (any more) is only closed. The forwarder may keep a copy and set
 *      options of it at any time, so egress makes no call on it that could wait.
 *  M4  Neither side waits for the other. A reply that the socket has no room for is lost, as any datagram may
 *      be. A connection that egress has no room for is reset.
 */
#ifndef EGRESS_WALLMSG_H
#define EGRESS_WALLMSG_H

#include "codec/net/addr.h"
#include "codec/net/dns.h"

#include <assert.h>

#define WALLMSG_DATAGRAM_MAX DNS_QUERY_MAX /* a forwarder drops a longer datagram */
#define WALLMSG_DNS_PORT 53

enum wallmsg_type {
	WALLMSG_STREAM = 1,
	WALLMSG_QUERY,
	WALLMSG_REPLY,
};

enum wallmsg_family {
	WALLMSG_V4 = 4,
	WALLMSG_V6 = 6,
};

struct wallmsg_peer {
	struct addr addr;
	uint16_t port;
	uint8_t zero[2];
};

struct wallmsg_head {
	uint32_t type;
	uint16_t len;	/* of the datagram after the head */
	uint8_t family; /* of both addresses */
	uint8_t zero;
	struct wallmsg_peer from, to;
};

static_assert(sizeof(struct wallmsg_peer) == 20, "no padding");
static_assert(sizeof(struct wallmsg_head) == 48, "no padding");

/*
 * Checks one received message, with that many descriptors, by M1 and M2. The datagram of a WALLMSG_QUERY is the
 * ret->len bytes after the head. -EPROTO.
 */
int wallmsg_parse(const void *data, size_t len, unsigned n_fds, struct wallmsg_head *ret) MUST_CHECK;

/* The head of a reply of `len` bytes to a query. */
struct wallmsg_head wallmsg_reply(const struct wallmsg_head *query, size_t len);

#endif
