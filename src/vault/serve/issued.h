/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The credentials that servers have issued to one sandbox: what coffer-egress took out of their answers, and the placeholders
 * that went inside instead. In coffer-vault only; keep.h has the file in which they outlive it, sealed.
 *
 * Invariants
 *  D1  One comes from an issuer that the starter has granted, as a member that this names; the issuer's bindings say where it
 *      may be sent, never the client.
 *  D2  There are at most ISSUED_EACH of one member of one issuer: the oldest goes when there is another. One that the request
 *      carried goes when its answer has a new one in its place. What has expired goes.
 *  D3  The same value again is the same credential, with the same placeholder.
 */
#ifndef VAULT_ISSUED_H
#define VAULT_ISSUED_H

#include "crypto/secmem.h"
#include "vault/common/grants.h"
#include "vault/common/vaultproto.h"

#define ISSUED_MAX 32
#define ISSUED_EACH 4
#define ISSUED_VALUE_MAX (16u << 10)

struct issued {
	struct vault_grant grant; /* GRANT_ISSUED */
	char member[ISSUE_MEMBER_MAX + 1];
	enum issue_how how;
	struct secmem value;
};

struct issued_list {
	struct issued *v[ISSUED_MAX]; /* oldest first */
	size_t n;
};

void issued_release(struct issued_list *l);
const struct issued *issued_find(const struct issued_list *l, uint32_t handle);
/* What has expired by `now` (s). */
void issued_expire(struct issued_list *l, uint64_t now);

/* One of a client's VAULT_CAPTURE. *ret lives until the list is changed; *ret_dropped is the one whose place it has taken, 0: none.
 * Negative with *ret_why. */
int issued_take(struct issued_list *l, const struct vault_grants *g, const struct vault_msg *m,
		uint32_t *handles, uint64_t now, const struct issued **ret, uint32_t *ret_dropped,
		const char **ret_why) MUST_CHECK;

/* Those of `from` whose issuer is granted again, as it was, under another handle. The rest stays in `from`. */
void issued_inherit(struct issued_list *l, const struct vault_grants *g, struct issued_list *from,
		    const struct vault_grants *from_g);

/* The issuer that is granted word for word as `was`; NULL: none is. */
const struct vault_grant *issued_issuer(const struct vault_grants *g, const struct vault_grant *was);
/* One that was issued before, under the placeholder that it had. 1: it is there; 0: it cannot be taken up. */
/* NOLINTNEXTLINE(readability-function-size): as many parts as it has */
int issued_again(struct issued_list *l, const struct vault_grants *g, const struct vault_grant *issuer,
		 const char *member, enum issue_how how, uint64_t expires, struct slice placeholder,
		 struct slice value, uint32_t *handles) MUST_CHECK;

/* A placeholder that is no part of another's. `keep` bytes at the value's beginning are kept. */
void issued_placeholder(const struct vault_grants *g, const struct issued_list *l, struct vault_grant *ret,
			const struct secmem *value, size_t keep);

#endif
