/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets that the wall refused: the kernel's packet log (NFLOG) of the sandbox's namespace, counted by
 * protocol, port and address and written once a second. The packets' content is the sandbox's.
 */
#ifndef EGRESS_NFLOG_H
#define EGRESS_NFLOG_H

#include "codec/net/addr.h"
#include "egress/core/egress.h"

struct nflog_packet {
	uint8_t proto; /* of IP */
	uint16_t port; /* destination of TCP, UDP, SCTP …; 0: none, or truncated */
	struct addr to;
	uint32_t seq; /* sequence number, from 0, including packets that the socket had no room for */
	bool has_seq;
};

/* Parses one IP packet, truncated anywhere. -EBADMSG when it is not IP. Pure. */
int nflog_parse_packet(const uint8_t *data, size_t len, struct nflog_packet *ret) MUST_CHECK;

/* Calls fn for each packet in one read of the netlink socket. Pure. */
void nflog_parse(const uint8_t *data, size_t len, void (*fn)(void *ctx, const struct nflog_packet *p),
		 void *ctx);

/* Sets eg->nflog; fd is bound already. */
int egress_nflog_open(struct egress *eg, int fd, struct err *e) MUST_CHECK;
void egress_nflog_tick(struct egress *eg); /* writes the counts */
void egress_nflog_close(struct egress *eg);

#endif
