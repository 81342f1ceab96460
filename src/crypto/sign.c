/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ed25519 over libsodium. The expanded secret key exists only during a call and is wiped; callers keep the
 * seed.
 */

#include "crypto/sign.h"

#include <assert.h>
#include <errno.h>
#include <sodium.h>
#include <string.h>
#include <sys/random.h>

static_assert(SIGN_SEED_LEN == crypto_sign_SEEDBYTES, "Ed25519 seed");
static_assert(SIGN_PUB_LEN == crypto_sign_PUBLICKEYBYTES, "Ed25519 public key");
static_assert(SIGN_SIG_LEN == crypto_sign_BYTES, "Ed25519 signature");

int sign_key_from_seed(struct sign_key *k, const unsigned char seed[SIGN_SEED_LEN])
{
	unsigned char secret[crypto_sign_SECRETKEYBYTES];

	if (sodium_init() < 0)
		return -EIO;
	memmove(k->seed, seed, SIGN_SEED_LEN);
	crypto_sign_seed_keypair(k->pub, secret, k->seed);
	sodium_memzero(secret, sizeof(secret));
	return 0;
}

int sign_key_new(struct sign_key *ret)
{
	unsigned char seed[SIGN_SEED_LEN];
	int r;

	if (getrandom(seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
		return -EIO;
	r = sign_key_from_seed(ret, seed);
	sodium_memzero(seed, sizeof(seed));
	return r;
}

void sign_key_wipe(struct sign_key *k)
{
	sodium_memzero(k, sizeof(*k));
}

int sign_make(const struct sign_key *k, const void *data, size_t len, unsigned char ret[SIGN_SIG_LEN])
{
	unsigned char secret[crypto_sign_SECRETKEYBYTES], pub[SIGN_PUB_LEN];
	int r;

	if (sodium_init() < 0)
		return -EIO;
	crypto_sign_seed_keypair(pub, secret, k->seed);
	r = crypto_sign_detached(ret, NULL, data, len, secret) ? -EIO : 0;
	sodium_memzero(secret, sizeof(secret));
	return r;
}

bool sign_is_valid(const unsigned char pub[SIGN_PUB_LEN], const void *data, size_t len,
		   const unsigned char sig[SIGN_SIG_LEN])
{
	return sodium_init() >= 0 && crypto_sign_verify_detached(sig, data, len, pub) == 0;
}
