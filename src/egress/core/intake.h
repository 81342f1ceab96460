/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the sandbox's connections and DNS queries come from, and where the replies to datagrams go: the wall.
 *
 * Invariants
 *  I1  A kind of wall only takes in and hands out. It judges nothing: its connections go to intake_take(),
 *      those to port 53 to dns_tcp_take(), and its datagrams to dns_serve_query().
 *  I2  The address and port that a program inside connected to decide, and nothing else that the wall tells.
 *  I3  A connection that cannot be kept is ended at once, never left to time out.
 */
#ifndef EGRESS_INTAKE_H
#define EGRESS_INTAKE_H

#include "egress/core/egress.h"

struct intake {
	/* Before confinement; `mask` tells which descriptors of fds.h are real. */
	int (*open)(struct egress *eg, uint32_t mask, struct err *e);
	/* After the journal's commit: sends the replies that wait for it; status < 0: drops them. */
	void (*reply)(struct egress *eg, int status);
	/* Takes in nothing more. */
	void (*close)(struct egress *eg);
};

/* Sockets in the wall's namespace: accept.c, dns_udp.c, dns_tcp.c. */
extern const struct intake intake_sockets;
/* Messages of a forwarder, for a wall elsewhere: intake_messages.c, dns_tcp.c. */
extern const struct intake intake_messages;

/* Opens the kind of wall that the mask has, and sets eg->intake. -EINVAL: it has both kinds, or neither. */
int intake_open(struct egress *eg, uint32_t mask, struct err *e) MUST_CHECK;

/* For a kind of wall: counts a new connection. False: there is no room for it, intake_turn_away() it. */
bool intake_has_room(struct egress *eg);

/* The same where no descriptor was free for it. */
void intake_no_descriptor(struct egress *eg);

/* Judges a connection that was made to asked:port. Takes fd. `handed`: it came in a message (flow.h). */
void intake_take(struct egress *eg, int fd, const struct addr *asked, uint16_t port, bool handed);

/* Resets a connection and closes it. */
void intake_turn_away(int fd);

#endif
