/* SPDX-License-Identifier: Apache-2.0 */
/* What askserve.c, which keeps the list, and askserve_client.c, which speaks on the socket, have of each other. */
#ifndef APPROVAL_ASKSERVE_INT_H
#define APPROVAL_ASKSERVE_INT_H

#include "approval/server/askserve.h"

/* askserve.c: after whatever may have changed the list; and before whatever may use what a session was granted. */
void askserve_settle(struct askserve *s);
void askserve_look_at_session(struct askserve *s);
/* A rule in its one spelling, which *canon keeps; 0 for any other question. It belongs to no generation: it is checked against
 * the policy when it is granted. */
int askserve_check_widen(struct askserve *s, struct ask_question *q, struct buf *canon,
			 struct err *e) MUST_CHECK;

/* askserve_client.c: callbacks of the loop, what the list has for clients, and the end of them all. */
void askserve_on_listen(struct watch *w, uint32_t events);
void askserve_on_again(struct timer *t);
void askserve_tell_client(struct askserve *s, uint64_t waiter, bool allow, const char *id, const char *why);
void askserve_tell_followers(struct askserve *s, const struct ask *a);
void askserve_let_go(struct askserve *s);

#endif
