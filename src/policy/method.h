/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP methods as a set of bits: every method of the IANA registry that people use has one, all others share the last,
 * which only "*" holds. GET holds HEAD as well: it is the same request without the answer's body.
 *
 * WEBSOCKET is the word for a request that turns the connection into a websocket. On the wire it is a GET, and what follows it goes both
 * ways and is not judged: to allow it, it is named, and neither GET nor "*" holds it. What forbids or asks
 * for GET or "*" forbids and asks for it too (method_strictly()). No request has it for its method.
 */
#ifndef POLICY_METHOD_H
#define POLICY_METHOD_H

#include "base/buf.h"
#include "base/err.h"
#include "codec/slice.h"

#include <stdint.h>

typedef uint64_t method_set; /* a number and no struct, so that sets compare as sets do */

#define METHOD_WEBSOCKET_NAME "WEBSOCKET"
#define METHOD_WEBSOCKET (UINT64_C(1) << 24)
#define METHOD_ALL (UINT64_MAX & ~METHOD_WEBSOCKET)

/* "GET", "GET,POST", "*", "*,WEBSOCKET". -EINVAL with the nearest known method. */
int method_parse(const char *s, size_t len, method_set *ret, struct err *e) MUST_CHECK;

/* The one bit of a method as it came over the wire; the shared one when it is not known. */
method_set method_bit(struct slice method);

/* As entries that forbid or ask read it. */
method_set method_strictly(method_set bit);

void method_format(method_set set, struct buf *out);

/* May such a set come out of method_parse()? */
bool method_is_valid(method_set set);

#endif
