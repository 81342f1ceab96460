/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP methods as a set of bits: every commonly used method of the IANA registry has one; all others share the last,
 * which only "*" contains. GET includes HEAD: it is the same request without the response's body.
 *
 * WEBSOCKET stands for a request that upgrades the connection to a websocket. On the wire it is a GET, and the traffic after it
 * is not judged: to be allowed it must be named, and neither GET nor "*" includes it. A rule that denies or asks about
 * GET or "*" applies to it, too (method_strictly()). No real request has it as its method.
 */
#ifndef POLICY_METHOD_H
#define POLICY_METHOD_H

#include "base/buf.h"
#include "base/err.h"
#include "codec/slice.h"

#include <stdint.h>

typedef uint64_t method_set; /* a number instead of a struct, so that sets can be compared and combined */

#define METHOD_WEBSOCKET_NAME "WEBSOCKET"
#define METHOD_WEBSOCKET (UINT64_C(1) << 24)
#define METHOD_ALL (UINT64_MAX & ~METHOD_WEBSOCKET)

/* Parses "GET", "GET,POST", "*", "*,WEBSOCKET". -EINVAL with the nearest known method. */
int method_parse(const char *s, size_t len, method_set *ret, struct err *e) MUST_CHECK;

/* The bit of a method from the wire; the shared one if it is unknown. */
method_set method_bit(struct slice method);

/* The set as denying and asking entries read it. */
method_set method_strictly(method_set bit);

void method_format(method_set set, struct buf *out);

/* Can method_parse() produce such a set? */
bool method_is_valid(method_set set);

#endif
