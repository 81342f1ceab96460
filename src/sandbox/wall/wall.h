/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wall: a network namespace that leads nowhere, in which every address is local, and the sockets that answer there.
 *
 * What a program connects to is accepted on a socket that was made in its own namespace and handed out: getsockname() of
 * the accepted connection is the address and port that the program asked for. There is no wire, no forwarding, no NAT and
 * no rule of the host's, so it needs no privilege but root of a user namespace of our own.
 *
 * Invariants
 *  W1  The namespace has no interface whose other end is outside the sandbox: a packet that no rule foresaw has nowhere
 *      to go. The rules decide only who answers and how fast.
 *  W2  The namespace belongs to the outer user namespace. In the command's, even all capabilities give no raw or packet
 *      socket, route, rule, interface or transparent socket.
 *  W3  Every TCP connection to an address that is not the sandbox's own ends at tcp4 or tcp6, or, to port 53, at
 *      dns_tcp4 or dns_tcp6; no socket inside can stand before them.
 *  W4  What has no socket here is refused at once (reset or ICMP), never dropped, and copied to nflog.
 *  W5  Nothing in it tracks connections, and nobody inside chooses whom the host's neighbour table knows: what a sandbox
 *      can hold of the host's memory through it is the sockets' queues.
 */
#ifndef SANDBOX_WALL_H
#define SANDBOX_WALL_H

#include "base/err.h"
#include "sandbox/spec/spec.h"

#include <stddef.h>

/* All non-blocking and CLOEXEC; -1: there is none (IPv6 on a kernel without, nflog on a kernel without). */
struct wall {
	int tcp4,
		tcp6; /* listening, IP_TRANSPARENT: every port but 53, every address but the sandbox's own */
	int dns_udp4,
		dns_udp6; /* port 53 of every address; IP_PKTINFO / IPV6_RECVPKTINFO say which, and must be given back */
	int dns_tcp4, dns_tcp6; /* listening, port 53 of every address */
	int nflog; /* netlink, bound to WALL_NFLOG_GROUP: the head of each packet that was refused */
};

#define WALL_FDS 7 /* how many there are, in the order of the struct */
#define WALL_INIT ((struct wall){ -1, -1, -1, -1, -1, -1, -1 })

/* Whoever waits to be accepted holds some 100 KiB that nobody is charged for. */
#define WALL_BACKLOG 1024
#define WALL_NFLOG_GROUP 1
#define WALL_NFLOG_BYTES 64 /* of each packet: both headers */

/* What stands in resolv.conf inside; whatever other address is asked on port 53 answers as well. */
#define WALL_NAMESERVER "10.0.2.3"
/* The sandbox's own address: not the gateway's, connections to it stay inside. */
#define WALL_ADDR "10.0.2.15"

int *wall_fds(struct wall *w); /* as an array of WALL_FDS */
void wall_release(struct wall *w);

/*
 * Builds it in the network namespace that the process is in, which must be new, by a process with all capabilities over
 * it. `guest`: for a gVisor whose own network stack is the sandbox's; the process is in a second new namespace afterwards,
 * which gVisor takes over, joined to the first by a pair of interfaces.
 */
int wall_build(struct wall *ret, bool guest, struct err *e) MUST_CHECK;

/* One message with those sockets that there are, over a SOCK_SEQPACKET socket: WALL_WORD bytes. */
#define WALL_WORD 1
int wall_send(int sock, const struct wall *w) MUST_CHECK;

/* What such a message brought. The descriptors are used up, also by an error. */
int wall_unpack(const void *word, const int *fds, size_t n, struct wall *ret) MUST_CHECK;

#endif
