/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the wall refused: the kernel's log of packets (NFLOG) in the sandbox's namespace, counted by protocol, port and
 * address and written once a second. The packets are whatever the sandbox sent.
 */
#ifndef EGRESS_NFLOG_H
#define EGRESS_NFLOG_H

#include "codec/net/addr.h"
#include "egress/core/egress.h"

struct nflog_packet {
	uint8_t proto; /* of IP */
	uint16_t port; /* destination of TCP, UDP, SCTP …; 0: none, or cut off */
	struct addr to;
	uint32_t seq; /* its number, from 0, counting those that the socket had no room for */
	bool has_seq;
};

/* One IP packet, cut anywhere. -EBADMSG when it is none. Pure. */
int nflog_parse_packet(const uint8_t *data, size_t len, struct nflog_packet *ret) MUST_CHECK;

/* The packets in one read of the netlink socket, each told to fn. Pure. */
void nflog_parse(const uint8_t *data, size_t len, void (*fn)(void *ctx, const struct nflog_packet *p),
		 void *ctx);

/* eg->nflog; fd is bound already. */
int nflog_open(struct egress *eg, int fd, struct err *e) MUST_CHECK;
void nflog_tick(struct egress *eg); /* writes what was counted */
void nflog_close(struct egress *eg);

#endif
