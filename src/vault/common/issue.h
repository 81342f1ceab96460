/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a server issues credentials, and which members of its response contain them. One line of text, as a grant of kind
 * GRANT_ISSUER has it:
 *
 *	POST auth.example.com:443/oauth/token access_token id_token=claims refresh_token=refresh
 *
 * A method, the endpoint (host, port and a pathpat), then members. A member without a dot matches at any depth of the response;
 * one with dots is a path from the top. Pure.
 *
 * Invariants
 *  I1  There is one spelling: issue_parse() accepts only what issue_format() writes.
 *  I2  An endpoint whose path has a star has no refresh member: a binding is to one path.
 */
#ifndef VAULT_ISSUE_H
#define VAULT_ISSUE_H

#include "base/buf.h"
#include "base/err.h"
#include "codec/net/host.h"
#include "codec/slice.h"
#include "policy/pathpat.h"

#define ISSUE_MEMBERS_MAX 8
#define ISSUE_MEMBER_MAX 31
#define ISSUE_METHOD_MAX 16
#define ISSUE_TEXT_MAX \
	(ISSUE_METHOD_MAX + HOST_MAX + 8 + PATHPAT_MAX + ISSUE_MEMBERS_MAX * (ISSUE_MEMBER_MAX + 9) + 2)

enum issue_how {
	ISSUE_ACCESS, /* good for the hosts that the issuer is bound to */
	ISSUE_CLAIMS, /* the same; a signed token (JWT) keeps the claims that programs read, with another signature */
	ISSUE_REFRESH, /* good for the endpoint only, in a body */
	ISSUE_HOW_COUNT
};

struct issue_member {
	char name[ISSUE_MEMBER_MAX + 1]; /* letters, digits, "_", "-", and "." between those */
	enum issue_how how;
};

struct issue {
	char method[ISSUE_METHOD_MAX + 1];
	struct host host;
	uint16_t port;
	char path[PATHPAT_MAX + 1];
	size_t n; /* at least 1 */
	struct issue_member v[ISSUE_MEMBERS_MAX];
};

int issue_parse(const char *text, struct issue *ret) MUST_CHECK;
void issue_format(const struct issue *s, struct buf *out);
bool issue_is_member(const char *name);

/* NULL: no member of that name. */
const struct issue_member *issue_find(const struct issue *s, struct slice name);

/* Is this request, to the issuer's host, one to the endpoint? Matched loosely: servers differ in which paths
 * they treat as equal. */
bool issue_is_endpoint(const struct issue *s, const char *method, struct slice path);

#endif
