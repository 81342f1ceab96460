/* SPDX-License-Identifier: Apache-2.0 */
/* Capabilities: names, and giving up all but a few for good. */
#ifndef SYS_CAPS_H
#define SYS_CAPS_H

#include "base/err.h"

#include <stdint.h>

/* "net_raw", "CAP_NET_RAW" (any case) to its bit; an unknown one is -EINVAL and names the nearest. */
int caps_parse(const char *name, uint64_t *ret_mask, struct err *e) MUST_CHECK;
const char *caps_name(int cap); /* "net_raw"; NULL past the last */

/*
 * Drops everything but `keep` from the bounding, permitted, effective, inheritable and ambient sets, locks
 * the securebits so that uid 0 means nothing, and puts `keep` into the ambient set, from where it reaches
 * whatever is executed. Call as the last identity; needs SETPCAP, which the first process of a user
 * namespace has, and all of `keep`. Doing it again with the same is fine.
 */
int caps_drop_all_but(uint64_t keep, struct err *e) MUST_CHECK;

/*
 * The same in two steps. caps_limit() is the bounding set, which takes nothing away from this process: only
 * what it executes can never have more. The kernel has no call for all at once, and each takes more than a
 * microsecond, so a child that has to wait for its parent anyway does it meanwhile. caps_give_up() is all
 * the rest, and comes last.
 */
int caps_limit(uint64_t keep, struct err *e) MUST_CHECK;
int caps_give_up(uint64_t keep, struct err *e) MUST_CHECK;

/* Gives up every capability in any set of this process, and the powers of uid 0 with them. Does nothing when none is held. */
int caps_give_up_all(struct err *e) MUST_CHECK;

/* Effective capabilities of this process. */
int caps_effective(uint64_t *ret, struct err *e) MUST_CHECK;

#endif
