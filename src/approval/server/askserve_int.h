/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by askserve.c, which owns the list, and askserve_client.c, which serves the socket. */
#ifndef APPROVAL_ASKSERVE_INT_H
#define APPROVAL_ASKSERVE_INT_H

#include "approval/server/askserve.h"

/* askserve.c: call after any change of the list; call before using grants of a session. */
void askserve_settle(struct askserve *s);
void askserve_check_session(struct askserve *s);
/* Replaces a requested rule by its canonical spelling, stored in *canon; 0 for any other question. A rule has
 * no policy generation: it is checked against the policy in force when it is granted. */
int askserve_check_widen(struct askserve *s, struct ask_question *q, struct buf *canon,
			 struct err *e) MUST_CHECK;

/* askserve_client.c: callbacks of the loop, messages to clients, and disconnecting all of them. */
void askserve_on_listen(struct watch *w, uint32_t events);
void askserve_on_again(struct timer *t);
void askserve_tell_client(struct askserve *s, uint64_t waiter, bool allow, const char *id, const char *why);
void askserve_tell_followers(struct askserve *s, const struct ask *a);
void askserve_drop_clients(struct askserve *s);

#endif
