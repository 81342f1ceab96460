/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 and BLAKE2b over libsodium, and lower-case hex. Keeps no state of its own and does no I/O. */

#include "crypto/hash.h"

#include "base/hex.h"

#include <assert.h>
#include <errno.h>
#include <sodium.h>

static_assert(HASH_LEN == crypto_hash_sha256_BYTES, "SHA-256 has 32 bytes");

static_assert(HASH_LEN == crypto_generichash_BYTES, "BLAKE2b is used with 32 bytes");
static_assert(sizeof(struct hash_blake) >= sizeof(crypto_generichash_state),
	      "a stream holds the library's state");
// NOLINTNEXTLINE(misc-redundant-expression): equal today
static_assert(_Alignof(struct hash_blake) >= _Alignof(crypto_generichash_state), "and aligns it");

static crypto_generichash_state *blake_state(struct hash_blake *h)
{
	return (crypto_generichash_state *)(void *)h->state;
}

void hash_blake_begin(struct hash_blake *h)
{
	/* sodium_init() selects the fastest implementation for this processor; only the first call does
	 * work. */
	BUG_ON(sodium_init() < 0);
	crypto_generichash_init(blake_state(h), NULL, 0, HASH_LEN);
}

void hash_blake_add(struct hash_blake *h, const void *data, size_t len)
{
	crypto_generichash_update(blake_state(h), data, len);
}

void hash_blake_end(struct hash_blake *h, unsigned char ret[HASH_LEN])
{
	crypto_generichash_final(blake_state(h), ret, HASH_LEN);
}

void hash_blake_once(const void *data, size_t len, unsigned char ret[HASH_LEN])
{
	struct hash_blake h;

	hash_blake_begin(&h);
	hash_blake_add(&h, data, len);
	hash_blake_end(&h, ret);
}

void hash_hex(const unsigned char *data, size_t len, char *ret)
{
	for (size_t i = 0; i < len; i++) {
		ret[2 * i] = HEX_LOWER[data[i] >> 4];
		ret[2 * i + 1] = HEX_LOWER[data[i] & 15];
	}
	ret[2 * len] = '\0';
}

int hash_unhex(const char *hex, size_t len, unsigned char *ret)
{
	for (size_t i = 0; i < 2 * len; i++) {
		if (hex_digit(hex[i]) < 0 || (hex[i] >= 'A' && hex[i] <= 'F'))
			return -EINVAL;
	}
	for (size_t i = 0; i < len; i++)
		ret[i] = (unsigned char)hex_byte(hex + 2 * i);
	return 0;
}

void hash_sha256(const void *data, size_t len, unsigned char ret[HASH_LEN])
{
	crypto_hash_sha256(ret, data, len);
}

static_assert(sizeof(crypto_hash_sha256_state) <= sizeof(struct hash_stream), "the state has room");

static crypto_hash_sha256_state *sha256_state(struct hash_stream *h)
{
	return (crypto_hash_sha256_state *)(void *)h->state;
}

void hash_stream_init(struct hash_stream *h)
{
	crypto_hash_sha256_init(sha256_state(h));
}

void hash_stream_add(struct hash_stream *h, const void *data, size_t len)
{
	crypto_hash_sha256_update(sha256_state(h), data, len);
}

void hash_stream_end(struct hash_stream *h, unsigned char ret[HASH_LEN])
{
	crypto_hash_sha256_final(sha256_state(h), ret);
}

void hash_sha256_hex(const void *data, size_t len, char ret[HASH_HEX_LEN + 1])
{
	unsigned char raw[HASH_LEN];

	hash_sha256(data, len, raw);
	hash_hex(raw, sizeof(raw), ret);
}
