/* SPDX-License-Identifier: Apache-2.0 */
/* One channel of c-ares on our loop: its sockets, its clock, its servers. For resolve.c only. */
#ifndef DIAL_RESOLVE_ARES_H
#define DIAL_RESOLVE_ARES_H

#include "dial/connect/resolve.h"

#include <ares.h>

#define ARES_LINK_SOCKETS (RESOLVE_SERVERS_MAX * (size_t)2) /* one for each server and protocol */

struct ares_link {
	struct loop *loop;
	ares_channel ares;
	size_t open;			      /* queries, counted by the caller */
	struct watch sock[ARES_LINK_SOCKETS]; /* of c-ares; fd is -1 where there is none */
	struct timer tick;		      /* armed while there are queries */
};

int ares_link_open(struct ares_link *l, struct loop *loop, struct err *e) MUST_CHECK;
void ares_link_close(struct ares_link *l); /* fails waiting queries; also for a link that was never opened */

/* Only while no query is open. Returns a status of c-ares. */
int ares_link_servers(struct ares_link *l, const struct resolve_server *s, size_t n) MUST_CHECK;

/* A query was sent: c-ares must be called regularly until it is answered. */
void ares_link_tick(struct ares_link *l);

/* Call before the first is opened: is the randomness that c-ares needs available? */
int ares_link_check_random(struct err *e) MUST_CHECK;

#endif
