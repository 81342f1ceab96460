/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files that carry a flow from one state to the next: accept.c, intake.c, peek.c, flow.c,
 * relay.c, page.c.
 */
#ifndef EGRESS_FLOW_INT_H
#define EGRESS_FLOW_INT_H

#include "egress/account/deny.h"
#include "egress/core/flow.h"

#include <limits.h>

#define FLOW_YOUNG_MAX 2048	   /* without their first bytes; the oldest is refused for the next */
#define FLOW_DRAIN_MAX (64u << 10) /* bytes of a refused client that are read and discarded */

/* Creates a flow; takes fd. NULL when there is no memory, and fd is closed. */
struct flow *flow_new(struct egress *eg, int fd, const struct addr *asked, uint16_t port);

/* The verdict of the policy in force on it, quietly (policy.h); counts nothing. */
void flow_judge(const struct flow *f, struct policy_verdict *ret);

/* Writes the `open` line. `seen` is a different name in the first bytes, or NULL. */
void flow_journal_open(struct flow *f, const struct policy_verdict *v, bool allow, const char *why,
		       const char *seen);

/*
 * The flow is allowed: checks limits and ledger, writes the `open` line, then dials or hands over to the
 * inspector. The verdict is policy_connect()'s with the effective depth. The flow may be freed afterwards.
 */
void flow_open(struct flow *f, const struct policy_verdict *v);

/*
 * The flow is refused: writes the `open` line, then resets; where the client speaks HTTP or TLS it gets a 403
 * or an alert instead. The flow is freed or in FLOW_DENY afterwards.
 */
enum flow_refusal { FLOW_REFUSE_RESET, FLOW_REFUSE_TLS, FLOW_REFUSE_HTTP };
void flow_refuse(struct flow *f, const struct policy_verdict *v, enum flow_refusal how, unsigned status,
		 const char *why, const char *seen);

/* Sends a refusal or a response of our own, then ends the flow when the client has read it. */
void flow_say(struct flow *f, const void *text, size_t len);

void flow_set_young(struct flow *f, bool young);
void flow_set_timeout(struct flow *f, unsigned seconds);

/* peek.c: reads the first bytes. May be called right after accept(). */
void peek_begin(struct flow *f, const struct policy_verdict *v);
/* The same for a flow that is refused already, on a port where the client will understand the reason. */
void peek_refused(struct flow *f, const struct policy_verdict *v);
void peek_timeout(struct flow *f);

/* relay.c: the events of a socket, armed once, also before there is a server. */
#define RELAY_EVENTS ((uint32_t)(EPOLLIN | EPOLLRDHUP | EPOLLET))

/* Until the server is connected: notes the client's events, and reads nothing. */
void relay_wait(struct flow *f);
/* The server is connected. Takes fd. */
void relay_begin(struct flow *f, int fd);
void relay_release(struct flow *f); /* returns pipes and held bytes */
void relay_soon(struct timer *t);   /* eg->soon */
void relay_refill(struct timer *t); /* eg->refill */

/* page.c: http://coffer.internal/. */
void page_begin(struct flow *f);
void page_timeout(struct flow *f); /* in FLOW_PAGE */

/* accept.c: listens on one socket of the wall. */
int accept_open(struct egress *eg, int fd, struct err *e) MUST_CHECK;

#endif
