/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Authenticated encryption and key derivation over libsodium. Holds no key: callers pass keys in locked
 * memory and wipe them.
 */

#include "crypto/seal.h"

#include "base/cleanup.h"

#include <assert.h>
#include <errno.h>
#include <sodium.h>
#include <string.h>

static_assert(SEAL_KEY_LEN == crypto_aead_xchacha20poly1305_ietf_KEYBYTES, "as the library has it");
static_assert(SEAL_KEY_LEN == crypto_kdf_KEYBYTES, "one key for both");
static_assert(SEAL_NONCE_LEN == crypto_aead_xchacha20poly1305_ietf_NPUBBYTES, "as the library has it");
static_assert(SEAL_TAG_LEN == crypto_aead_xchacha20poly1305_ietf_ABYTES, "as the library has it");
static_assert(SEAL_SALT_LEN == crypto_pwhash_SALTBYTES, "as the library has it");
static_assert(SEAL_CHECK_LEN >= crypto_generichash_BYTES_MIN, "as the library has it");

int seal_key_new(struct secmem *ret, struct err *e)
{
	int r = secmem_new(ret, SEAL_KEY_LEN, e);

	if (r < 0)
		return r;
	randombytes_buf(ret->p, SEAL_KEY_LEN);
	ret->len = SEAL_KEY_LEN;
	return 0;
}

void seal_cost_new(struct seal_cost *ret)
{
	*ret = (struct seal_cost){ .passes = SEAL_PASSES, .memory_kib = SEAL_MEMORY_KIB };
	randombytes_buf(ret->salt, sizeof(ret->salt));
}

int seal_key_from_passphrase(struct secmem *ret, const void *text, size_t len, const struct seal_cost *cost,
			     struct err *e)
{
	autosecmem struct secmem key = SECMEM_INIT;
	int r = secmem_new(&key, SEAL_KEY_LEN, e);

	if (r < 0)
		return r;
	if (cost->passes < 1 || cost->passes > SEAL_PASSES_MAX || cost->memory_kib < SEAL_MEMORY_KIB_MIN ||
	    cost->memory_kib > SEAL_MEMORY_KIB_MAX)
		return err_set(e, -EBADMSG, "the cost of the passphrase is out of bounds");
	if (crypto_pwhash(key.p, SEAL_KEY_LEN, text, len, cost->salt, cost->passes,
			  (size_t)cost->memory_kib << 10, crypto_pwhash_ALG_ARGON2ID13) != 0)
		return err_set(e, -ENOMEM,
			       "not enough memory to make a key of the passphrase: it takes %u MiB",
			       cost->memory_kib >> 10);
	key.len = SEAL_KEY_LEN;
	*ret = key;
	key = SECMEM_INIT;
	return 0;
}

int seal_key_derive(struct secmem *ret, const struct secmem *key, const char *context, struct err *e)
{
	autosecmem struct secmem out = SECMEM_INIT;
	int r = secmem_new(&out, SEAL_KEY_LEN, e);

	if (r < 0)
		return r;
	BUG_ON(key->len != SEAL_KEY_LEN || strlen(context) != crypto_kdf_CONTEXTBYTES);
	if (crypto_kdf_derive_from_key(out.p, SEAL_KEY_LEN, 1, context, key->p) != 0)
		return err_set(e, -EIO, "cannot derive a key");
	out.len = SEAL_KEY_LEN;
	*ret = out;
	out = SECMEM_INIT;
	return 0;
}

void seal_nonce_new(uint8_t ret[SEAL_NONCE_LEN])
{
	randombytes_buf(ret, SEAL_NONCE_LEN);
}

void seal_close(uint8_t *out, const void *data, size_t len, const void *about, size_t about_len,
		const uint8_t nonce[SEAL_NONCE_LEN], const struct secmem *key)
{
	unsigned long long n = 0;

	BUG_ON(key->len != SEAL_KEY_LEN);
	BUG_ON(crypto_aead_xchacha20poly1305_ietf_encrypt(out, &n, data, len, about, about_len, NULL, nonce,
							  key->p) != 0);
	BUG_ON(n != len + SEAL_TAG_LEN);
}

int seal_open(uint8_t *out, const void *sealed, size_t len, const void *about, size_t about_len,
	      const uint8_t nonce[SEAL_NONCE_LEN], const struct secmem *key)
{
	unsigned long long n = 0;

	BUG_ON(key->len != SEAL_KEY_LEN);
	if (len < SEAL_TAG_LEN || crypto_aead_xchacha20poly1305_ietf_decrypt(
					  out, &n, NULL, sealed, len, about, about_len, nonce, key->p) != 0)
		return -EBADMSG;
	return 0;
}

void seal_key_check(const struct secmem *key, const void *about, size_t about_len,
		    uint8_t ret[SEAL_CHECK_LEN])
{
	uint8_t sub[SEAL_KEY_LEN];

	BUG_ON(key->len != SEAL_KEY_LEN);
	BUG_ON(crypto_kdf_derive_from_key(sub, sizeof(sub), 2, "cofcheck", key->p) != 0);
	BUG_ON(crypto_generichash(ret, SEAL_CHECK_LEN, about, about_len, sub, sizeof(sub)) != 0);
	sodium_memzero(sub, sizeof(sub));
}
