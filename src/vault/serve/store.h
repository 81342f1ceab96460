/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The secrets of one vault, in locked memory; only coffer-vault has a store.
 *
 * Invariants
 *  T1  A value has 1 to VAULT_SECRET_MAX bytes without a NUL; fewer than VAULT_STRONG_MIN only if the user confirmed it.
 *  T2  A value with line breaks or other control bytes has only bindings that can carry it (binding_takes_lines()).
 *  T3  Names are unique; at most STORE_MAX entries, STORE_BYTES_MAX bytes of values.
 *  T4  A value with a binding `as ssh` is a private key that can sign; each such binding comes with a key of its host, except
 *      `ssh:unbound`, which needs none. Keys of hosts that nothing is bound to any more are dropped.
 *  T5  An operation that fails leaves the store unchanged.
 *  T6  A value is bound only where the head of a request has room for it (binding_fits()); a file of an earlier version is
 *      accepted as it is.
 */
#ifndef VAULT_STORE_H
#define VAULT_STORE_H

#include "base/err.h"
#include "crypto/secmem.h"
#include "vault/common/grants.h"
#include "vault/common/vaultproto.h"
#include "vault/ssh/sshhosts.h"

#define STORE_MAX 512
#define STORE_BYTES_MAX (1u << 20)
#define STORE_PACK_MAX     \
	(STORE_BYTES_MAX + \
	 STORE_MAX * (GRANTS_BINDINGS_MAX * 800u + VAULT_COMMAND_MAX + SSHHOSTS_PACK_MAX + 256u))

struct store_entry {
	char name[VAULT_NAME_MAX + 1];
	struct secmem value;
	uint64_t created, changed; /* seconds since 1970 */
	uint64_t expires;	   /* the same; 0: never */
	uint64_t every;		   /* seconds between two rotations by `command`; 0: rotated by hand */
	char *command;		   /* NULL: none */
	bool weak;		   /* fewer than VAULT_STRONG_MIN bytes are intended */
	size_t n_bindings;
	struct binding bindings[GRANTS_BINDINGS_MAX];
	struct sshhosts known; /* keys of the hosts that it signs for */
};

struct store {
	struct store_entry **v; /* sorted by name */
	size_t n;
};

#define STORE_INIT ((struct store){ 0 })

void store_release(struct store *s);
struct store_entry *store_find(const struct store *s, const char *name);

struct store_set {
	const char *name;
	unsigned flags; /* VAULT_SET_* */
	uint64_t expires, every;
	const char *command; /* "" or NULL: none */
	uint64_t now;
};

/* Takes ownership of the value on success. With VAULT_SET_ROTATE only value, time of change and expiry (if
 * one is given) change. *ret_fault is the kind of refusal. */
int store_set(struct store *s, const struct store_set *set, struct secmem *value, struct store_entry **ret,
	      enum vault_fault *ret_fault, struct err *e) MUST_CHECK;
int store_rm(struct store *s, const char *name, enum vault_fault *ret_fault, struct err *e) MUST_CHECK;
/* `known`: keys of the binding's host, added to the stored ones; NULL: none, which T4 may refuse. */
int store_bind(struct store_entry *n, const struct binding *b, const struct sshhosts *known,
	       struct err *e) MUST_CHECK;

/* host "": all; port 0: every port. Returns the number removed. */
unsigned store_unbind(struct store_entry *n, const char *host, uint16_t port);

/* "" or NULL removes the command. */
int store_set_schedule(struct store_entry *n, const char *command, uint64_t every, struct err *e) MUST_CHECK;

/* Does it contain bytes that no header can carry? */
bool store_has_lines(const struct secmem *value);

/* The whole store as bytes, and back: -EBADMSG for bytes that store_pack() does not write. */
int store_pack(const struct store *s, struct secmem *ret, struct err *e) MUST_CHECK;
int store_unpack(struct store *ret, const void *data, size_t len, struct err *e) MUST_CHECK;

#endif
