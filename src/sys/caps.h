/* SPDX-License-Identifier: Apache-2.0 */
/* Capabilities: names, and giving up all but a few for good. */
#ifndef SYS_CAPS_H
#define SYS_CAPS_H

#include "base/err.h"

#include <stdint.h>

/* "net_raw", "CAP_NET_RAW" (any case) to its bit; an unknown one is -EINVAL and names the nearest. */
int caps_parse(const char *name, uint64_t *ret_mask, struct err *e) MUST_CHECK;
const char *caps_name(int cap); /* "net_raw"; NULL past the last */

/* Drops everything but `keep` from the bounding, permitted, effective, inheritable and ambient sets, locks the
 * securebits so that uid 0 means nothing, and puts `keep` into the ambient set. Call as the last identity. */
int caps_drop_all_but(uint64_t keep, struct err *e) MUST_CHECK;

/* Effective capabilities of this process. */
int caps_effective(uint64_t *ret, struct err *e) MUST_CHECK;

#endif
