/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does a request bring a credential that is not the gateway's? For `credentials: only`. It is told by the names of headers,
 * parameters and members that services take credentials in, and by what well-known tokens look like (vault/common/shape.h), in
 * headers, path, query and body. A placeholder is the gateway's wherever it stands. No I/O.
 *
 * A net, not a proof: a credential of no known shape under a name of its own, or one that is encoded, is not seen.
 */
#ifndef EGRESS_THEIRS_H
#define EGRESS_THEIRS_H

#include "egress/message/http_msg.h"
#include "vault/common/grants.h"

#define THEIRS_WHAT_MAX 160
#define THEIRS_TOO_LONG                                                                                  \
	"the rule lets only credentials of the gateway through, and a body over 1 MiB cannot be looked " \
	"into for others"

struct theirs {
	const struct vault_grants *ours; /* NULL: none */
	const char *host;
	uint16_t port;
	char what[THEIRS_WHAT_MAX]; /* what was found and where, in words */
};

bool theirs_in_head(struct theirs *t, const struct http_req *q);

/* Must all of the body be there, to be looked into? Not that of git's own protocol, which has no place for one. */
bool theirs_wants_body(const struct http_req *q);
/* Why it cannot be; NULL: it can. */
const char *theirs_why_not(const struct http_req *q);
bool theirs_in_body(struct theirs *t, const struct http_req *q, struct slice body);

#endif
