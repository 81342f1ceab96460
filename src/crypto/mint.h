/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small certificate authority: one P-256 key and certificate, and leaves signed with it, one for each host name.
 *
 * Invariants
 *  M1  The authority's key leaves this object only through mint_pack(). The packed bytes go to a descriptor that only the next
 *      process of the same program reads; the caller wipes them.
 *  M2  A leaf names exactly one host (or address) in its subjectAltName, is valid for TLS servers only, is no authority, and
 *      expires before the authority does.
 *  M3  All leaves of one process share one key. It is not the authority's, and each process generates its own.
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

/* A new authority, valid from a day before now_s (clocks inside may be slow) until `days` after it. */
int mint_new(struct mint **ret, const char *common_name, uint64_t now_s, unsigned days,
	     struct err *e) MUST_CHECK;
void mint_free(struct mint *m);
void mint_freep(struct mint **m);

/* The authority's certificate, for clients that are to trust it. */
const char *mint_pem(const struct mint *m);
X509 *mint_cert(const struct mint *m);

/* Key and certificate as bytes, and back. -EBADMSG for bytes that mint_pack() did not write. */
int mint_pack(const struct mint *m, struct buf *out, struct err *e) MUST_CHECK;
int mint_unpack(struct mint **ret, const void *data, size_t len, struct err *e) MUST_CHECK;

/* A leaf for a canonical host name, or for an address of 4 or 16 bytes. The caller owns *ret. */
int mint_leaf_name(struct mint *m, const char *name, uint64_t now_s, X509 **ret, struct err *e) MUST_CHECK;
int mint_leaf_addr(struct mint *m, const uint8_t *addr, size_t len, uint64_t now_s, X509 **ret,
		   struct err *e) MUST_CHECK;

/* The private key that all leaves share. */
EVP_PKEY *mint_leaf_key(const struct mint *m);

#endif
