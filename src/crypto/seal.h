/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sealing bytes with a key: XChaCha20-Poly1305, a random nonce for each time, and everything that is known about the
 * bytes bound to them. A key comes from a file, or from a passphrase by Argon2id.
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
/* What is believed from a file: less is no protection, more is somebody's wish to use up the machine. */
#define SEAL_PASSES_MAX 16
#define SEAL_MEMORY_KIB_MIN (8u << 10)
#define SEAL_MEMORY_KIB_MAX (1024u << 10)

/* What the key is stretched with. */
struct seal_cost {
	uint8_t salt[SEAL_SALT_LEN];
	uint32_t passes;
	uint32_t memory_kib;
};

int seal_key_new(struct secmem *ret, struct err *e) MUST_CHECK;

/* A fresh salt and the cost above. */
void seal_cost_new(struct seal_cost *ret);

/* -ENOMEM when there is not that much memory. */
int seal_key_from_passphrase(struct secmem *ret, const void *text, size_t len, const struct seal_cost *cost,
			     struct err *e) MUST_CHECK;

/* A key for one use from another: `context` has 8 characters. */
int seal_key_derive(struct secmem *ret, const struct secmem *key, const char *context,
		    struct err *e) MUST_CHECK;

void seal_nonce_new(uint8_t ret[SEAL_NONCE_LEN]);

/* `out` gets len + SEAL_TAG_LEN bytes. */
void seal_close(uint8_t *out, const void *data, size_t len, const void *about, size_t about_len,
		const uint8_t nonce[SEAL_NONCE_LEN], const struct secmem *key);

/* `out` gets len - SEAL_TAG_LEN bytes. -EBADMSG when key, nonce, bytes or what is about them are not those of seal_close(). */
int seal_open(uint8_t *out, const void *sealed, size_t len, const void *about, size_t about_len,
	      const uint8_t nonce[SEAL_NONCE_LEN], const struct secmem *key) MUST_CHECK;

/* Of a key: tells a wrong key from a changed file without saying anything of the key. */
#define SEAL_CHECK_LEN 16
void seal_key_check(const struct secmem *key, const void *about, size_t about_len,
		    uint8_t ret[SEAL_CHECK_LEN]);

#endif
