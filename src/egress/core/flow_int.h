/* SPDX-License-Identifier: Apache-2.0 */
/* What the files that carry a flow from one state to the next share: accept.c, peek.c, flow.c, relay.c. */
#ifndef EGRESS_FLOW_INT_H
#define EGRESS_FLOW_INT_H

#include "egress/account/deny.h"
#include "egress/core/flow.h"

#include <limits.h>

#define FLOW_YOUNG_MAX 2048	   /* without their first bytes; the oldest makes room for the next */
#define FLOW_DRAIN_MAX (64u << 10) /* bytes of a refused client's that are read past */

/* A new one; takes fd. NULL when there is no memory, and fd is closed. */
struct flow *flow_new(struct egress *eg, int fd, const struct addr *asked, uint16_t port);

/* What the policy in force says about it, quietly (policy.h); counts nothing. */
void flow_judge(const struct flow *f, struct policy_verdict *ret);

/* The `open` line. `seen` is another name in the first bytes, or NULL. */
void flow_journal_open(struct flow *f, const struct policy_verdict *v, bool allow, const char *why,
		       const char *seen);

/*
 * Allowed: limits, the `open` line, then dial, or hand over. The verdict is policy_connect()'s, depth that which holds.
 * The flow may be gone afterwards.
 */
void flow_open(struct flow *f, const struct policy_verdict *v);

/*
 * Refused: the `open` line, then a reset; or where the client speaks HTTP or TLS and would understand, a 403 or an alert.
 * The flow is gone or in FLOW_DENY afterwards.
 */
enum flow_refusal { FLOW_REFUSE_RESET, FLOW_REFUSE_TLS, FLOW_REFUSE_HTTP };
void flow_refuse(struct flow *f, const struct policy_verdict *v, enum flow_refusal how, unsigned status,
		 const char *why, const char *seen);

/* The text of a refusal, or of an answer of our own: sends it, then ends the flow when the client has read it. */
void flow_say(struct flow *f, const void *text, size_t len);

void flow_set_young(struct flow *f, bool young);
void flow_set_timeout(struct flow *f, unsigned seconds);

/* peek.c: the first bytes. Ready to be called at once after accept(). */
void peek_begin(struct flow *f, const struct policy_verdict *v);
/* The same for one that is refused already, on a port where the client will understand why. */
void peek_refused(struct flow *f, const struct policy_verdict *v);
void peek_timeout(struct flow *f);

/* relay.c: how a socket is armed once and for all, also before there is a server. */
#define RELAY_EVENTS ((uint32_t)(EPOLLIN | EPOLLRDHUP | EPOLLET))

/* The server is waited for: what the client does meanwhile is noted, and nothing is read. */
void relay_wait(struct flow *f);
/* The server is there. Takes fd. */
void relay_begin(struct flow *f, int fd);
void relay_release(struct flow *f); /* pipes and what is held */
void relay_soon(struct timer *t);   /* eg->soon */
void relay_refill(struct timer *t); /* eg->refill */

/* page.c: http://coffer.internal/. */
void page_begin(struct flow *f);
void page_timeout(struct flow *f); /* in FLOW_PAGE */

/* accept.c */
int accept_open(struct egress *eg, int fd, struct err *e) MUST_CHECK;
void accept_close(struct egress *eg);

#endif
