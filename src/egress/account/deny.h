/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Refusals that an agent, and the person who watches it, can read: one rendering for connections and for
 * requests. Pure.
 *
 * The body is JSON and always has the same keys, in this order: error ("denied"), message (one line for
 * people), host, port, method, path, rule, reason, how_to_ask. A key that does not apply is null.
 */
#ifndef EGRESS_DENY_H
#define EGRESS_DENY_H

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>

struct denial {
	unsigned status; /* 0: 403 */
	const char *host;
	uint16_t port;
	const char *method; /* NULL: the connection was refused before it sent a request */
	const char *path;
	const char *rule; /* NULL: no rule matched, the default decided */
	const char *reason;
	const char *hint; /* how to request access; NULL: the usual text */
};

/* One line, without a newline: "coffer: GET http://example.com/ is denied: …". */
void deny_line(struct buf *out, const struct denial *d);

/* The body. */
void deny_json(struct buf *out, const struct denial *d);

/*
 * A whole HTTP/1.1 response that closes the connection: status, Content-Type, Content-Length, Coffer-Denied,
 * the body.
 */
void deny_http1(struct buf *out, const struct denial *d, bool head_only);

#endif
