/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The body of a POST to http://coffer.internal/v1/access: {"rule": "api.example.com", "reason": "…", "wait":
 * 60}. Hostile bytes; pure.
 *
 * `rule` is printable ASCII; the guard decides whether it is a valid rule. `reason` is any text, shown to
 * people only after it was made harmless. `wait` is the number of seconds to wait for an answer. Unknown and
 * duplicate members are refused.
 */
#ifndef EGRESS_ACCESS_BODY_H
#define EGRESS_ACCESS_BODY_H

#include "base/err.h"

#include <stddef.h>

#define ACCESS_BODY_MAX (8u << 10)
#define ACCESS_RULE_MAX 512
#define ACCESS_REASON_MAX 1000
#define ACCESS_WAIT_MAX 300 /* s */

struct access_body {
	char rule[ACCESS_RULE_MAX + 1];
	char reason[ACCESS_REASON_MAX + 1]; /* UTF-8 */
	unsigned wait;
};

/* -EINVAL, and a message for the client. */
int access_body_parse(const char *data, size_t len, struct access_body *ret, struct err *e) MUST_CHECK;

#endif
