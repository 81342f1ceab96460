/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small certificate authority: one P-256 key and certificate, and leaves signed with it, one for each host name.
 *
 * Invariants
 *  M1  The authority's key never leaves this object but by mint_pack(), which is for a descriptor that only this
 *      program's next incarnation reads; it is wiped with it.
 *  M2  A leaf names exactly one host (or address) in its subjectAltName, serves TLS servers only, is no authority, and
 *      lives no longer than the authority does.
 *  M3  All leaves of one process share one key, which is not the authority's and is made anew in each process.
 */
#ifndef CRYPTO_MINT_H
#define CRYPTO_MINT_H

#include "base/buf.h"
#include "base/err.h"

#include <openssl/ossl_typ.h>
#include <stdint.h>

#define MINT_PACK_MAX 4096
#define MINT_DAYS_MAX 365

struct mint;

/* A fresh authority, valid from a day before now_s (clocks inside may be slow) for `days` from it. */
int mint_new(struct mint **ret, const char *common_name, uint64_t now_s, unsigned days,
	     struct err *e) MUST_CHECK;
void mint_free(struct mint *m);
void mint_freep(struct mint **m);

/* Its certificate, for those who are to trust it. */
const char *mint_pem(const struct mint *m);
X509 *mint_cert(const struct mint *m);

/* Key and certificate as bytes, and back: -EBADMSG for anything that mint_pack() did not write. */
int mint_pack(const struct mint *m, struct buf *out, struct err *e) MUST_CHECK;
int mint_unpack(struct mint **ret, const void *data, size_t len, struct err *e) MUST_CHECK;

/* For a canonical host name, or an address as 4 or 16 bytes. The caller owns *ret. */
int mint_leaf_name(struct mint *m, const char *name, uint64_t now_s, X509 **ret, struct err *e) MUST_CHECK;
int mint_leaf_addr(struct mint *m, const uint8_t *addr, size_t len, uint64_t now_s, X509 **ret,
		   struct err *e) MUST_CHECK;

/* The key of every leaf. */
EVP_PKEY *mint_leaf_key(const struct mint *m);

#endif
