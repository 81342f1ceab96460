/* SPDX-License-Identifier: Apache-2.0 */
/* One channel of c-ares on our loop: its sockets, its clock, its servers. For resolve.c alone. */
#ifndef DIAL_RESOLVE_ARES_H
#define DIAL_RESOLVE_ARES_H

#include "dial/connect/resolve.h"

#include <ares.h>

#define ARES_LINK_SOCKETS (RESOLVE_SERVERS_MAX * (size_t)2) /* one for each server and protocol */

struct ares_link {
	struct loop *loop;
	ares_channel ares;
	size_t open;			      /* questions, counted by whoever asks */
	struct watch sock[ARES_LINK_SOCKETS]; /* of c-ares; fd is -1 where there is none */
	struct timer tick;		      /* armed while there are questions */
};

int ares_link_open(struct ares_link *l, struct loop *loop, struct err *e) MUST_CHECK;
void ares_link_close(struct ares_link *l); /* whoever waits is told; also of one that never opened */

/* Only when nothing is open. A status of c-ares. */
int ares_link_servers(struct ares_link *l, const struct resolve_server *s, size_t n) MUST_CHECK;

/* A question was asked: c-ares needs to be told of time until it is answered. */
void ares_link_tick(struct ares_link *l);

/* Before the first is opened: is there the randomness that c-ares wants? */
int ares_link_check_random(struct err *e) MUST_CHECK;

#endif
