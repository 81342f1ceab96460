/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sealing bytes with a key: XChaCha20-Poly1305 with a random nonce for each message. The caller's associated data (`about`)
 * is authenticated with the bytes. A key comes from a file, or from a passphrase by Argon2id.
 */
#ifndef CRYPTO_SEAL_H
#define CRYPTO_SEAL_H

#include "base/err.h"
#include "crypto/secmem.h"

#include <stddef.h>
#include <stdint.h>

#define SEAL_KEY_LEN 32
#define SEAL_NONCE_LEN 24
#define SEAL_TAG_LEN 16
#define SEAL_SALT_LEN 16

/* RFC 9106's second recommendation: three passes over 64 MiB. */
#define SEAL_PASSES 3
#define SEAL_MEMORY_KIB (64u << 10)
/* Bounds on the cost that a file may demand: less gives no protection, more lets a forged file exhaust the
 * machine. */
#define SEAL_PASSES_MAX 16
#define SEAL_MEMORY_KIB_MIN (8u << 10)
#define SEAL_MEMORY_KIB_MAX (1024u << 10)

/* Argon2id's parameters. */
struct seal_cost {
	uint8_t salt[SEAL_SALT_LEN];
	uint32_t passes;
	uint32_t memory_kib;
};

int seal_key_new(struct secmem *ret, struct err *e) MUST_CHECK;

/* A new random salt, and the cost above. */
void seal_cost_new(struct seal_cost *ret);

/* -ENOMEM when there is less memory than the cost demands. */
int seal_key_from_passphrase(struct secmem *ret, const void *text, size_t len, const struct seal_cost *cost,
			     struct err *e) MUST_CHECK;

/* Derives a key for one purpose from another key; `context` has 8 characters. */
int seal_key_derive(struct secmem *ret, const struct secmem *key, const char *context,
		    struct err *e) MUST_CHECK;

void seal_nonce_new(uint8_t ret[SEAL_NONCE_LEN]);

/* Encrypts; `out` receives len + SEAL_TAG_LEN bytes. */
void seal_close(uint8_t *out, const void *data, size_t len, const void *about, size_t about_len,
		const uint8_t nonce[SEAL_NONCE_LEN], const struct secmem *key);

/* Decrypts; `out` receives len - SEAL_TAG_LEN bytes. -EBADMSG unless key, nonce, bytes and associated data
 * are those that were given to seal_close(). */
int seal_open(uint8_t *out, const void *sealed, size_t len, const void *about, size_t about_len,
	      const uint8_t nonce[SEAL_NONCE_LEN], const struct secmem *key) MUST_CHECK;

/* A check value of a key: it tells a wrong key from a changed file and reveals nothing about the key. */
#define SEAL_CHECK_LEN 16
void seal_key_check(const struct secmem *key, const void *about, size_t about_len,
		    uint8_t ret[SEAL_CHECK_LEN]);

#endif
