/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ed25519 signatures. A private key is a seed of 32 bytes; the public key is derived from it.
 * The owner of a struct sign_key wipes it when done: `CLEANUP(sign_key_wipe) struct sign_key k;`.
 */
#ifndef CRYPTO_SIGN_H
#define CRYPTO_SIGN_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

#define SIGN_SEED_LEN 32
#define SIGN_PUB_LEN 32
#define SIGN_SIG_LEN 64

struct sign_key {
	unsigned char seed[SIGN_SEED_LEN];
	unsigned char pub[SIGN_PUB_LEN];
};

/* A new key from the kernel's random numbers. */
int sign_key_new(struct sign_key *ret) MUST_CHECK;

/* Derives the public half from the seed. */
int sign_key_from_seed(struct sign_key *k, const unsigned char seed[SIGN_SEED_LEN]) MUST_CHECK;
void sign_key_wipe(struct sign_key *k);

int sign_make(const struct sign_key *k, const void *data, size_t len,
	      unsigned char ret[SIGN_SIG_LEN]) MUST_CHECK;
bool sign_is_valid(const unsigned char pub[SIGN_PUB_LEN], const void *data, size_t len,
		   const unsigned char sig[SIGN_SIG_LEN]);

#endif
