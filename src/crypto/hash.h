/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 and lower-case hex, and BLAKE2b for much data. Needs no set-up, so it may stand on the way of every event. */
#ifndef CRYPTO_HASH_H
#define CRYPTO_HASH_H

#include "base/err.h"

#include <stddef.h>

#define HASH_LEN 32
#define HASH_HEX_LEN 64

/* BLAKE2b with 256 bits, piece by piece. */
struct hash_blake {
	_Alignas(64) unsigned char state[384];
};

void hash_blake_begin(struct hash_blake *h);
void hash_blake_add(struct hash_blake *h, const void *data, size_t len);
void hash_blake_end(struct hash_blake *h, unsigned char ret[HASH_LEN]);

/* The same of one piece. */
void hash_blake_once(const void *data, size_t len, unsigned char ret[HASH_LEN]);

void hash_sha256(const void *data, size_t len, unsigned char ret[HASH_LEN]);

/* The same over bytes that come in pieces. */
struct hash_stream {
	_Alignas(16) unsigned char state[128];
};
void hash_stream_init(struct hash_stream *h);
void hash_stream_add(struct hash_stream *h, const void *data, size_t len);
void hash_stream_end(struct hash_stream *h, unsigned char ret[HASH_LEN]);

/* The same as text with a NUL: what sha256sum prints. */
void hash_sha256_hex(const void *data, size_t len, char ret[HASH_HEX_LEN + 1]);

/* Writes 2 * len digits and a NUL. */
void hash_hex(const unsigned char *data, size_t len, char *ret);

/* Exactly 2 * len lower-case digits at `hex` (a NUL behind them is not asked for); -EINVAL otherwise. */
int hash_unhex(const char *hex, size_t len, unsigned char *ret) MUST_CHECK;

#endif
