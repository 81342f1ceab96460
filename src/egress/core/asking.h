/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking a person: holds a connection or request until the guard has an answer (doc/adr/0017). coffer-egress
 * stores no answer and no grant: each act for which a rule says ask is sent to the guard, which answers at
 * once where a grant exists.
 *
 * Invariants
 *  K1  done(allow) is called with the guard's answer to this ticket, once, and never after asking_drop().
 *      Without a guard, without an answer, or with too many pending asks the result is a denial.
 *  K2  The owner of an allowed ask reports what happened, once: asking_settle(). Until then the guard counts
 *      it as used.
 *  K3  At most ASKING_MAX asks are pending.
 *  K4  The last ASKING_PAST_MAX results are kept for display inside, since not every client can be told the
 *      reason: one whose connection is refused sees only a TLS alert. They decide nothing. A repetition takes
 *      no second place.
 */
#ifndef EGRESS_ASKING_H
#define EGRESS_ASKING_H

#include "egress/core/egress.h"
#include "egress/wire/askmsg.h"
#include "egress/wire/fds.h"

#define ASKING_MAX 128
#define ASKING_PAST_MAX 16

struct asking;

typedef void asking_fn(void *ctx, bool allow, uint64_t ticket, const char *id, const char *why);

/* Asks. NULL: nobody can be asked, and *ret_why says why. Sets m->ticket and m->generation. */
struct asking *asking_begin(struct egress *eg, struct askmsg *m, asking_fn *done, void *ctx,
			    const char **ret_why);
/* For a rule (ASKMSG_WIDEN): named() gets the id of the ask as soon as it is known. */
void asking_want_id(struct asking *a, void (*named)(void *ctx, const char *id));
/* The owner no longer waits; NULL is allowed. */
void asking_drop(struct asking *a);
/* The allowed act is being sent, or was given up before anything was sent. ticket 0 is allowed. */
void asking_settle(struct egress *eg, uint64_t ticket, bool sent);

/* Delivers the guard's answer. An unknown ticket belonged to an owner that is gone. */
void asking_answered(struct egress *eg, const struct ctl_answer *a);
/* The ask is pending under this id. */
void asking_named(struct egress *eg, const struct ctl_answer *a);
/* Pending asks, and the results of K4, newest first: for http://coffer.internal/. */
void asking_describe(const struct egress *eg, struct json *j);
void asking_describe_text(const struct egress *eg, struct buf *out);
void asking_close(struct egress *eg);

#endif
