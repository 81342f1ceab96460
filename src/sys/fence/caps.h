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
 * Drops everything but `keep` from the bounding, permitted, effective, inheritable and ambient sets, locks the
 * securebits so that uid 0 has no power of its own, and puts `keep` into the ambient set, so that executed programs
 * get it. Call after the last change of identity. Needs SETPCAP, which the first process of a user namespace has, and
 * all of `keep`. A second call with the same `keep` succeeds.
 */
int caps_drop_all_but(uint64_t keep, struct err *e) MUST_CHECK;

/*
 * The same in two steps. caps_limit() reduces the bounding set, which limits the programs that this process executes,
 * but takes nothing away from the process itself. The kernel needs one call for each capability, of more than a
 * microsecond, so a child calls it while it waits for its parent anyway. caps_give_up() does the rest, and must come
 * last.
 */
int caps_limit(uint64_t keep, struct err *e) MUST_CHECK;
int caps_give_up(uint64_t keep, struct err *e) MUST_CHECK;

/* Gives up every capability in any set of this process, and the powers of uid 0 with them. Does nothing when none is held. */
int caps_give_up_all(struct err *e) MUST_CHECK;

/* Effective capabilities of this process. */
int caps_effective(uint64_t *ret, struct err *e) MUST_CHECK;

#endif
