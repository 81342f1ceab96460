/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The secrets that one sandbox may use: for each a handle, a placeholder and the places where it may be sent. It contains no
 * secret itself. The vault makes it when secrets are granted to a sandbox; the guard puts it, packed, into a memfd, and coffer-egress
 * reads it from there.
 *
 * The same struct is a grant request: handle 0, no placeholder, and as bindings those to which the policy or command line
 * narrows the secret (none: all of its own). `env` is the variable that will hold the placeholder inside the sandbox; it is
 * returned unchanged.
 *
 * A grant has one of three kinds. An *issuer* has no secret and no placeholder: it names an endpoint where a server issues
 * credentials (issue.h), and its bindings say where those may be sent; the ones in a body are for the endpoint itself. An *issued*
 * grant is such a credential; it is never requested.
 *
 * Invariants
 *  G1  Packed bytes are fully checked: names, hosts, paths in their canonical form, no trailing byte, no two grants with
 *      the same handle or placeholder, no placeholder that is part of another. Otherwise -EBADMSG.
 *  G2  A placeholder has 24 to GRANTS_PLACEHOLDER_MAX characters of [A-Za-z0-9._:-] (shape.h), so that headers, cookies,
 *      queries, paths and JSON carry it unchanged.
 *  G3  A grant has a nonzero handle and at least one binding; a request for an issuer has at least one binding, too.
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
#define GRANT_LIFE_MAX (3650ull * 86400) /* s; lifetime of an issued credential */

enum grant_kind { GRANT_SECRET, GRANT_ISSUER, GRANT_ISSUED, GRANT_KIND_COUNT };

struct vault_grant {
	uint8_t kind;	 /* enum grant_kind */
	uint32_t handle; /* egress passes it when it asks for the secret's bytes */
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

/* The bindings of a credential that an issuer issues: for a refresh token those in a body, for others all the
 * rest. */
void grants_issue_bindings(const struct vault_grant *issuer, enum issue_how how, struct vault_grant *ret);

/* Appends one grant, all zero; NULL past GRANTS_MAX or without memory. Invalidates pointers to earlier
 * ones. */
struct vault_grant *grants_add(struct vault_grants *g) MUST_CHECK;

/* GRANTS_ASKED: grant requests (see above); GRANTS_GRANTED: grants (G3). */
enum grants_kind { GRANTS_GRANTED, GRANTS_ASKED };

/* -E2BIG past GRANTS_PACK_MAX, -EBADMSG for grants that unpacking would refuse. */
int grants_pack(const struct vault_grants *g, enum grants_kind kind, struct buf *out) MUST_CHECK;
int grants_unpack(struct vault_grants *ret, enum grants_kind kind, const void *data, size_t len) MUST_CHECK;

/* Does it satisfy G2? */
bool grants_is_placeholder(const char *s, size_t len);

/* Bindings alone, as messages and the sealed file have them. */
int bindings_pack(const struct binding *v, size_t n, struct buf *out) MUST_CHECK;
int bindings_unpack(struct binding v[GRANTS_BINDINGS_MAX], size_t *ret_n, const void *data,
		    size_t len) MUST_CHECK;

/* The first placeholder in a text: its grant, and its offset. NULL when there is none. */
const struct vault_grant *grants_find_placeholder(const struct vault_grants *g, const char *text, size_t len,
						  size_t *ret_at);

/* Do two grants, or requests for them, permit the same: kind, name, issue and bindings, in their order? Handle,
 * placeholder, variable and expiry are not compared. */
bool grants_eq(const struct vault_grant *a, const struct vault_grant *b);

const struct vault_grant *grants_by_handle(const struct vault_grants *g, uint32_t handle);
const struct vault_grant *grants_by_name(const struct vault_grants *g, const char *name);

/* The binding that allows sending it there in this way; NULL when there is none. BINDING_AS_ANY: in any way.
 * `word` is the name of the header (lower case), parameter or cookie, or NULL. */
const struct binding *grants_binding(const struct vault_grant *g, const char *host, uint16_t port,
				     struct slice path, enum binding_as as, const char *word);

#endif
