/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An event of a run's network on its way into the log: an event of a fixed list, and members of a fixed table, each with a type
 * and a maximum. The reader of the journals packs events. The writer of the log takes them apart as if the packer were hostile,
 * and formats the JSON itself. Pure.
 *
 * Invariants (cited elsewhere as netd_event.E1 ...)
 * E1  Events and members are numbers of the tables here: nothing packed can give the log another type, or a member of the log's
 *     own such as `seq` or `sandbox`.
 * E2  A member comes at most once, and its value has the table's type and is within its maximum. A text holds no NUL.
 * E3  A packed event that breaks E1 or E2, or that is longer than NETD_EVENT_MAX, is refused as a whole.
 */
#ifndef NETD_NETD_EVENT_H
#define NETD_NETD_EVENT_H

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NET_NAME_MAX 255
#define NET_PATH_MAX 1024
#define NETD_EVENT_MAX 4608 /* a whole journal line; a number takes more room packed than its shortest text */

/* Whose journal: that of coffer-egress, or of coffer-dial. */
enum net_from { NET_FROM_EGRESS, NET_FROM_DIAL, NET_FROM_COUNT };

enum net_ev {
	NET_EV_DNS,
	NET_EV_OPEN,
	NET_EV_CLOSE,
	NET_EV_REQUEST,
	NET_EV_RESPONSE,
	NET_EV_SECRET, /* a secret was used for a request */
	NET_EV_ISSUED, /* a server issued a credential, and it was kept */
	NET_EV_DIAL,
	NET_EV_PROXY,
	NET_EV_REFUSED,
	NET_EV_ALERT,
	NET_EV_POLICY,
	NET_EV_GARBLED, /* the program could not write a line as it was, or its line could not be read */
	NET_EV_LINES,	/* number of the events above: those that a journal line may name */
	NET_EV_FOLDED = NET_EV_LINES, /* a count of lines without an event of their own */
	NET_EV_COUNT
};
const char *net_ev_name(enum net_ev ev);     /* "dns", "open", … */
const char *net_ev_log_type(enum net_ev ev); /* "net.dns", "secret.use", … */

/* The members that an event may have. */
enum net_member {
	NET_M_T,
	NET_M_C,
	NET_M_R,
	NET_M_NAME,
	NET_M_SECRET,
	NET_M_HOST,
	NET_M_ADDR,
	NET_M_PORT,
	NET_M_PROTO,
	NET_M_QTYPE,
	NET_M_METHOD,
	NET_M_PATH,
	NET_M_ACT,
	NET_M_DEPTH,
	NET_M_DECISION,
	NET_M_SAID,
	NET_M_ASK,
	NET_M_RULE,
	NET_M_WHY,
	NET_M_GENERATION,
	NET_M_DIGEST,
	NET_M_STATUS,
	NET_M_PROXY,
	NET_M_POOL,
	NET_M_STATE,
	NET_M_UP,
	NET_M_DOWN,
	NET_M_MS,
	NET_M_HOW,
	NET_M_COUNT,
	NET_M_AGAIN,
	NET_M_TOP,
	NET_M_KIND,
	NET_M_TEXT,
	NET_M_SRC,
	NET_M_SEEN,
	NET_M_WOULD_DENY,
	NET_M_FIRST,
	NET_M_LINES, /* number of the members above: those that a journal line may have, beside `ev` */
	NET_M_EV = NET_M_LINES,
	NET_M_OTHERS,
	NET_M_FROM,
	NET_MEMBERS
};

/* The member of a journal line with this name; -EBADMSG: there is none. */
int net_member_find(const char *name, size_t len) MUST_CHECK;

/* What a member's value may be. */
bool net_member_takes_text(enum net_member m, const char *text, size_t len);
bool net_member_takes_number(enum net_member m, int64_t n);
bool net_member_takes_bool(enum net_member m);

/* An event as it is packed. The packer must keep E2; the packed bytes are valid if buf_error() of `out` is 0. */
void netd_event_begin(struct buf *out, enum net_ev ev);
void netd_event_text(struct buf *out, enum net_member m, const char *text, size_t len);
void netd_event_number(struct buf *out, enum net_member m, int64_t n);
void netd_event_bool(struct buf *out, enum net_member m, bool yes);

/*
 * Checks a packed event (E1 to E3) and makes *fields its members as JSON members without braces, in the order in which they were
 * packed. 0, -EBADMSG or -ENOMEM; after an error *fields is not to be used.
 */
int netd_event_format(const void *packed, size_t len, enum net_ev *ret, struct buf *fields) MUST_CHECK;

#endif
