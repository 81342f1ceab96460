/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does a request bring a credential that coffer did not insert? For `credentials: only`. Recognised by the
 * names of headers, parameters and members that services take credentials in, and by the shape of well-known
 * tokens (vault/common/shape.h), in headers, path, query and body. A placeholder counts as inserted
 * wherever it is. No I/O.
 *
 * A net, not a proof: a credential of no known shape under an unusual name, or an encoded one, is not
 * recognised.
 */
#ifndef EGRESS_FOREIGN_CRED_H
#define EGRESS_FOREIGN_CRED_H

#include "egress/message/http_msg.h"
#include "vault/common/grants.h"

#define FOREIGN_CRED_WHAT_MAX 160
#define FOREIGN_CRED_TOO_LONG                                                                               \
	"this rule accepts only secrets that coffer inserts, and a body over 1 MiB cannot be searched for " \
	"other credentials"

struct foreign_cred {
	const struct vault_grants *ours; /* NULL: none */
	const char *host;
	uint16_t port;
	char what[FOREIGN_CRED_WHAT_MAX]; /* what was found and where, for people */
};

bool foreign_cred_in_head(struct foreign_cred *t, const struct http_req *q);

/*
 * Must the whole body be held, to be searched? Not that of git's own protocol, which has no place for a
 * credential.
 */
bool foreign_cred_wants_body(const struct http_req *q);
/* Why it cannot be searched; NULL: it can. */
const char *foreign_cred_why_not(const struct http_req *q);
bool foreign_cred_in_body(struct foreign_cred *t, const struct http_req *q, struct slice body);

#endif
