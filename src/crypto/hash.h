/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256, lower-case hex, and BLAKE2b for large data. SHA-256 needs no set-up call, so it is cheap enough
 * for every audit event. */
#ifndef CRYPTO_HASH_H
#define CRYPTO_HASH_H

#include "base/err.h"

#include <stddef.h>

#define HASH_LEN 32
#define HASH_HEX_LEN 64

/* BLAKE2b-256 over data that arrives in pieces. */
struct hash_blake {
	_Alignas(64) unsigned char state[384];
};

void hash_blake_begin(struct hash_blake *h);
void hash_blake_add(struct hash_blake *h, const void *data, size_t len);
void hash_blake_end(struct hash_blake *h, unsigned char ret[HASH_LEN]);

/* BLAKE2b-256 of one buffer. */
void hash_blake_once(const void *data, size_t len, unsigned char ret[HASH_LEN]);

void hash_sha256(const void *data, size_t len, unsigned char ret[HASH_LEN]);

/* SHA-256 over data that arrives in pieces. */
struct hash_stream {
	_Alignas(16) unsigned char state[128];
};
void hash_stream_init(struct hash_stream *h);
void hash_stream_add(struct hash_stream *h, const void *data, size_t len);
void hash_stream_end(struct hash_stream *h, unsigned char ret[HASH_LEN]);

/* SHA-256 as hex digits and a NUL, as sha256sum prints it. */
void hash_sha256_hex(const void *data, size_t len, char ret[HASH_HEX_LEN + 1]);

/* Writes 2 * len digits and a NUL. */
void hash_hex(const unsigned char *data, size_t len, char *ret);

/* Decodes exactly 2 * len lower-case digits; `hex` need not be NUL-terminated. -EINVAL for any other
 * character. */
int hash_unhex(const char *hex, size_t len, unsigned char *ret) MUST_CHECK;

#endif
