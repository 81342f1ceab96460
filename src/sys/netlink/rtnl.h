/* SPDX-License-Identifier: Apache-2.0 */
/* Interfaces, addresses, routes and neighbours: requests for an nl (netlink.h) on NETLINK_ROUTE. Interfaces are given by
 * their index; lo has 1 in every network namespace. */
#ifndef SYS_RTNL_H
#define SYS_RTNL_H

#include "sys/netlink/netlink.h"

#include <netinet/in.h>

#define RTNL_LO 1

/* One end of a pair of interfaces. */
struct rtnl_end {
	const char *name;
	uint32_t index;	    /* 0: the kernel chooses one */
	const uint8_t *mac; /* six bytes; NULL: the kernel chooses */
	int netns;	    /* descriptor of the namespace that it is put into; -1: the current one */
};

void rtnl_veth(struct nl *n, const struct rtnl_end *a, const struct rtnl_end *b);

/* Brings the interface up, and sets the IFF_* of `flags`. */
void rtnl_up(struct nl *n, const char *what, uint32_t index, uint32_t flags);

/* Disables automatic IPv6 addresses, so that the interface sends nothing when it comes up. Call before rtnl_up(). */
void rtnl_quiet(struct nl *n, uint32_t index);

/* An address with a prefix of 32 bits: no network route comes with it. */
void rtnl_addr4(struct nl *n, uint32_t index, struct in_addr addr);

struct rtnl_route {
	uint8_t family;		     /* AF_INET or AF_INET6, of all addresses */
	uint8_t type;		     /* RTN_* */
	uint8_t table;		     /* RT_TABLE_* */
	uint8_t len;		     /* of the prefix; 0: everything */
	const void *dst, *via, *src; /* NULL: none */
	uint32_t oif;		     /* 0: none */
	bool onlink;		     /* the gateway is directly reachable, even if no route says so */
};

void rtnl_route(struct nl *n, const char *what, const struct rtnl_route *r);

/* A permanent neighbour: no ARP request is sent for it, and it never expires. */
void rtnl_neigh4(struct nl *n, uint32_t index, struct in_addr addr, const uint8_t mac[6]);

#endif
