/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wall: a network namespace that leads nowhere, in which every address is local, and the sockets that answer there.
 *
 * A program's connection is accepted on a socket that was made in its own namespace and handed out to coffer-egress:
 * getsockname() of the accepted connection is the address and port that the program asked for. There is no interface to the
 * outside, no forwarding, no NAT and no rule in the host's namespace, so it needs no privilege but root of a user namespace.
 *
 * Invariants
 *  W1  The namespace has no interface whose other end is outside the sandbox: a packet that no rule matches has nowhere to
 *      go. The rules decide only which socket answers, and how fast.
 *  W2  The namespace belongs to the outer user namespace. In the command's, even all capabilities give no raw or packet
 *      socket, route, rule, interface or transparent socket.
 *  W3  Every TCP connection to an address that is not the sandbox's own ends at tcp4 or tcp6, or, to port 53, at
 *      dns_tcp4 or dns_tcp6; no socket inside can take it before them.
 *  W4  A packet without a socket here is refused at once (reset or ICMP), never dropped, and copied to nflog.
 *  W5  Nothing in it tracks connections, and no process inside can add entries to the host's neighbour table: the only memory
 *      of the host that a sandbox can hold through it is the queues of the sockets.
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
		dns_udp6; /* port 53 of every address; IP_PKTINFO / IPV6_RECVPKTINFO has the address, which the answer must carry */
	int dns_tcp4, dns_tcp6; /* listening, port 53 of every address */
	int nflog; /* netlink, bound to WALL_NFLOG_GROUP: the head of each packet that was refused */
};

#define WALL_FDS 7 /* how many there are, in the order of the struct */
#define WALL_INIT ((struct wall){ -1, -1, -1, -1, -1, -1, -1 })

/* Each connection that waits to be accepted holds some 100 KiB of memory that is charged to no control group. */
#define WALL_BACKLOG 1024
#define WALL_NFLOG_GROUP 1
#define WALL_NFLOG_BYTES 64 /* of each packet: both headers */

/* The resolver in resolv.conf inside; port 53 of every other address answers too. */
#define WALL_NAMESERVER "10.0.2.3"
/* The sandbox's own address: connections to it stay inside. */
#define WALL_ADDR "10.0.2.15"

int *wall_fds(struct wall *w); /* as an array of WALL_FDS */
void wall_release(struct wall *w);

/*
 * Builds it in the network namespace that the process is in, which must be new, by a process with all capabilities over
 * it. `guest`: for a gVisor whose own network stack is the sandbox's; the process is in a second new namespace afterwards,
 * which gVisor takes over, joined to the first by a pair of interfaces.
 */
int wall_build(struct wall *ret, bool guest, struct err *e) MUST_CHECK;

/* Sends the sockets that exist in one message of WALL_WORD bytes, over a SOCK_SEQPACKET socket. */
#define WALL_WORD 1
int wall_send(int sock, const struct wall *w) MUST_CHECK;

/* Unpacks such a message. Consumes the descriptors, on failure too. */
int wall_unpack(const void *word, const int *fds, size_t n, struct wall *ret) MUST_CHECK;

#endif
