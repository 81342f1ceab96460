/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The credentials that servers have issued to one sandbox: coffer-egress took them out of responses and put
 * placeholders there instead. In coffer-vault only; keep.h stores them, sealed, in a file that outlives the process.
 *
 * Invariants
 *  D1  A credential comes from an issuer that the starter has granted, as a member that the issuer names; the issuer's bindings
 *      say where it may be sent, never the client.
 *  D2  There are at most ISSUED_EACH of one member of one issuer: a new one replaces the oldest. If the request carried one, the
 *      new one in its response replaces that. Expired ones are dropped.
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
/* Drops those that have expired by `now` (s). */
void issued_expire(struct issued_list *l, uint64_t now);

/* Handles a client's VAULT_CAPTURE. *ret is valid until the list changes; *ret_dropped is the handle of the
 * one it replaces, 0: none. Negative, with *ret_why. */
int issued_capture(struct issued_list *l, const struct vault_grants *g, const struct vault_msg *m,
		   uint32_t *handles, uint64_t now, const struct issued **ret, uint32_t *ret_dropped,
		   const char **ret_why) MUST_CHECK;

/* Moves those of `from` whose issuer is granted again with the same bindings, under a new handle. The others
 * stay in `from`. */
void issued_inherit(struct issued_list *l, const struct vault_grants *g, struct issued_list *from,
		    const struct vault_grants *from_g);
/* Undoes it: moves the first n of l, which must be those that were inherited from `to`, back to it. */
void issued_give_back(struct issued_list *l, const struct vault_grants *g, size_t n, struct issued_list *to,
		      const struct vault_grants *to_g);

/* The issuer of g that is identical to `was`; NULL: none is. */
const struct vault_grant *issued_find_issuer(const struct vault_grants *g, const struct vault_grant *was);
/* Restores one that was issued before, under its old placeholder. 1: done; 0: it cannot be used. */
/* NOLINTNEXTLINE(readability-function-size): as many parts as it has */
int issued_restore(struct issued_list *l, const struct vault_grants *g, const struct vault_grant *issuer,
		   const char *member, enum issue_how how, uint64_t expires, struct slice placeholder,
		   struct slice value, uint32_t *handles) MUST_CHECK;

/* Makes a placeholder that neither contains nor is part of another. Keeps the first `keep` bytes of the
 * value. */
void issued_placeholder(const struct vault_grants *g, const struct issued_list *l, struct vault_grant *ret,
			const struct secmem *value, size_t keep);

#endif
