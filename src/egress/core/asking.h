/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking a person: what is held until the guard has an answer (doc/adr/0017). coffer-egress keeps no answer and no grant: each
 * act that a rule wants asked is a question to the guard, which answers at once where somebody has said so before.
 *
 * Invariants
 *  K1  done(allow) is called with what the guard said to this ticket, once, and never after asking_drop(). No guard, no answer,
 *      too many that wait: a denial.
 *  K2  Who was allowed says what became of it, once: asking_settle(). Until then the guard counts it as used.
 *  K3  At most ASKING_MAX wait at once.
 *  K4  What became of the last ASKING_PAST_MAX is kept for whoever is inside to read, for not every client can be told why: one whose
 *      connection is refused sees an alert. It is kept to be shown and for nothing else. The same again takes no second place.
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

/* NULL: it cannot be asked, and *ret_why says why. m->ticket and m->generation are set here. */
struct asking *asking_begin(struct egress *eg, struct askmsg *m, asking_fn *done, void *ctx,
			    const char **ret_why);
/* For a rule (ASKMSG_WIDEN): told the question's id as soon as there is one. */
void asking_want_id(struct asking *a, void (*named)(void *ctx, const char *id));
/* Nobody waits for it any more; NULL is fine. */
void asking_drop(struct asking *a);
/* What was allowed is on its way, or was given up before anything of it was. ticket 0 is fine. */
void asking_settle(struct egress *eg, uint64_t ticket, bool sent);

/* The guard's answer. An unknown ticket is one whose owner has gone. */
void asking_answered(struct egress *eg, const struct ctl_answer *a);
/* It waits, under this id. */
void asking_named(struct egress *eg, const struct ctl_answer *a);
/* Those that wait, and K4, newest first: for http://coffer.internal/. */
void asking_describe(const struct egress *eg, struct json *j);
void asking_describe_text(const struct egress *eg, struct buf *out);
void asking_close(struct egress *eg);

#endif
