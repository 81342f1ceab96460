/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one sandbox may use of the vault: for each secret a handle, a placeholder and where it may be sent. There is no
 * secret in it. The vault makes it when a sandbox is granted secrets; the guard puts it packed into a memfd, and
 * coffer-egress reads it from there.
 *
 * The same struct asks for a grant: handle 0, no placeholder, and as bindings what the policy or command line narrows the
 * secret to (none: all that it is bound to). `env` is then the variable that the sandbox will find the placeholder
 * under; it comes back unchanged.
 *
 * An entry is one of three kinds. An *issuer* has no secret and no placeholder: it says at which endpoint a server issues
 * credentials (issue.h), and its bindings what these are good for; those in a body are the endpoint's own. An *issued* one is
 * what came of it; nobody asks for one.
 *
 * Invariants
 *  G1  Packed bytes are fully checked: names, hosts, paths in their canonical form, no byte left over, no two entries with
 *      one handle or one placeholder, none whose placeholder is part of another's. Anything else is -EBADMSG.
 *  G2  A placeholder is 24 to GRANTS_PLACEHOLDER_MAX characters of [A-Za-z0-9._:-] (shape.h), so that it stands
 *      unchanged in a header, a cookie, a query, a path and JSON.
 *  G3  A granted entry has a handle other than 0 and at least one binding; an issuer has one when it is asked for, too.
 */
#ifndef VAULT_GRANTS_H
#define VAULT_GRANTS_H

#include "base/buf.h"
#include "vault/common/binding.h"
#include "vault/common/issue.h"

#define GRANTS_MAX 64
#define GRANTS_BINDINGS_MAX 16
#define GRANTS_NAME_MAX 63 /* of a secret and of a variable */
#define GRANTS_PLACEHOLDER_MIN 24
#define GRANTS_PLACEHOLDER_MAX 4096
#define GRANTS_PACK_MAX (160u << 10)
#define GRANT_LIFE_MAX (3650ull * 86400) /* s: of an issued one */

enum grant_kind { GRANT_SECRET, GRANT_ISSUER, GRANT_ISSUED, GRANT_KIND_COUNT };

struct vault_grant {
	uint8_t kind;	 /* enum grant_kind */
	uint32_t handle; /* what egress names it by when it asks for the bytes */
	char name[GRANTS_NAME_MAX + 1];
	char env[GRANTS_NAME_MAX + 1]; /* may be empty */
	size_t placeholder_len;
	char placeholder[GRANTS_PLACEHOLDER_MAX + 1];
	size_t n_bindings;
	struct binding bindings[GRANTS_BINDINGS_MAX];
	char issue[ISSUE_TEXT_MAX + 1]; /* GRANT_ISSUER */
	uint32_t of;			/* GRANT_ISSUED: the issuer's handle */
	uint64_t expires;		/* GRANT_ISSUED: s since the epoch; 0: never */
};

struct vault_grants {
	struct vault_grant *v;
	size_t n;
};

#define GRANTS_INIT ((struct vault_grants){ 0 })

void grants_release(struct vault_grants *g);
#define autogrants CLEANUP(grants_release)

/* The bindings of what an issuer issues: in a body at the endpoint, or all the others. */
void grants_issue_bindings(const struct vault_grant *issuer, enum issue_how how, struct vault_grant *ret);

/* One more, all zero, to be filled in; NULL past GRANTS_MAX or without memory. Pointers to earlier ones end here. */
struct vault_grant *grants_add(struct vault_grants *g) MUST_CHECK;

/* GRANTS_ASKED: entries that ask (see above); else granted ones (G3). */
enum grants_kind { GRANTS_GRANTED, GRANTS_ASKED };

/* -E2BIG past GRANTS_PACK_MAX, -EBADMSG for what unpacking would refuse. */
int grants_pack(const struct vault_grants *g, enum grants_kind kind, struct buf *out) MUST_CHECK;
int grants_unpack(struct vault_grants *ret, enum grants_kind kind, const void *data, size_t len) MUST_CHECK;

/* G2 */
bool grants_is_placeholder(const char *s, size_t len);

/* Bindings alone, as they stand in messages and in the sealed file. */
int bindings_pack(const struct binding *v, size_t n, struct buf *out) MUST_CHECK;
int bindings_unpack(struct binding v[GRANTS_BINDINGS_MAX], size_t *ret_n, const void *data,
		    size_t len) MUST_CHECK;

/* The first placeholder in some text: which grant's, and where. NULL when there is none. */
const struct vault_grant *grants_find_placeholder(const struct vault_grants *g, const char *text, size_t len,
						  size_t *ret_at);

const struct vault_grant *grants_by_handle(const struct vault_grants *g, uint32_t handle);
const struct vault_grant *grants_by_name(const struct vault_grants *g, const char *name);

/* The binding by which it may be sent there in this way; NULL when there is none. With BINDING_AS_ANY in whatever way; `word`
 * is the header's (lower case), parameter's or cookie's name, NULL where there is none. */
const struct binding *grants_binding(const struct vault_grant *g, const char *host, uint16_t port,
				     struct slice path, enum binding_as as, const char *word);

#endif
