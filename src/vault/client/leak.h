/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Credentials in a file: known shapes (shape.h), found here, and secrets of the vault in any form, found by coffer-vault,
 * which gets the file's descriptor. Their bytes are never reported, only what was found and where.
 */
#ifndef VAULT_LEAK_H
#define VAULT_LEAK_H

#include "crypto/hash.h"
#include "vault/client/client.h"

struct leak {
	const char *name; /* name of a secret of the vault, otherwise NULL */
	const char *what; /* the encoding of the secret, or the kind of credential */
	uint64_t at;	  /* offset in the file */
	/* Of a known shape: only to compare two findings. */
	unsigned char digest[HASH_LEN];
};

typedef int leak_found(const struct leak *l, void *ctx);

/* p may be NULL: shapes only. Reports at most `most` of each kind. fd is a regular file, open for reading. */
int leak_find(int fd, struct vault_proc *p, unsigned most, leak_found *found, void *ctx,
	      struct err *e) MUST_CHECK;

#endif
