/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Credentials in a file: what looks like one (shape.h), found here, and what is in the vault in whatever form, found by the
 * vault, which is handed the file. Neither is ever shown: only what it is, and where.
 */
#ifndef VAULT_LEAK_H
#define VAULT_LEAK_H

#include "crypto/hash.h"
#include "vault/client/client.h"

struct leak {
	const char *name; /* of a secret of the vault, else NULL */
	const char *what; /* the form that it has there, or what it looks like */
	uint64_t at;	  /* byte of the file */
	/* Of what looks like one: whether it is the same as another is all that this is good for. */
	unsigned char digest[HASH_LEN];
};

typedef int leak_found(const struct leak *l, void *ctx);

/* p may be NULL: only shapes. At most `most` of each kind are told. fd is a regular file, open for reading. */
int leak_find(int fd, struct vault_proc *p, unsigned most, leak_found *found, void *ctx,
	      struct err *e) MUST_CHECK;

#endif
