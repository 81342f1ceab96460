/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sealed file: a head that anybody may read, and behind it a store, sealed (crypto/seal.h). The head is bound to
 * what is sealed, so neither can be exchanged alone. Layout, little-endian:
 *
 *	 0  8  "COFFERV1"	 56  4  passes of Argon2id (0 with a key)
 *	 8  4  version, 1	 60  4  its memory in KiB
 *	12  4  enum vault_key	 64 24  nonce
 *	16  8  how often saved	 88 16  check of the key
 *	24 16  random id	104  8  length of what is sealed
 *	40 16  salt		112 16  BLAKE2b of the 112 bytes before: damage is told from a wrong key
 *	128 …  sealed, with its tag
 *
 * Whether the key is right is known before anything is unsealed: "wrong passphrase" and "the file was changed" are two
 * different things to a person.
 */
#ifndef VAULT_VAULTFILE_H
#define VAULT_VAULTFILE_H

#include "base/buf.h"
#include "crypto/seal.h"
#include "vault/serve/store.h"

#define FILE_HEAD_LEN 128
#define FILE_ID_LEN 16
#define FILE_MAX (FILE_HEAD_LEN + STORE_PACK_MAX + SEAL_TAG_LEN)

struct file_head {
	enum vault_key kind;
	uint64_t counter;
	uint8_t id[FILE_ID_LEN];
	struct seal_cost cost; /* VAULT_KEY_PASSPHRASE; else zero */
	uint8_t nonce[SEAL_NONCE_LEN];
	uint8_t check[SEAL_CHECK_LEN];
	uint64_t sealed_len;
};

/* The head at the start of a file of `len` bytes in all. */
int file_head_parse(const void *data, size_t len, struct file_head *ret, enum vault_fault *ret_fault,
		    struct err *e) MUST_CHECK;

/* A head for a new vault, or for an old one with a new key. */
void file_head_new(struct file_head *ret, enum vault_key kind);

/* Seals; the head gets a new nonce and the next number. Appends to out, which holds nothing secret. */
int file_seal(struct file_head *h, const struct store *s, const struct secmem *key, struct buf *out,
	      struct err *e) MUST_CHECK;

/* Opens what file_seal() wrote, head and all. */
int file_open(const void *data, size_t len, const struct secmem *key, struct store *ret,
	      enum vault_fault *ret_fault, struct err *e) MUST_CHECK;

/* Writes, syncs, reads back and opens: 0 means that what is in the file now is what is in the store. */
int file_save(int fd, struct file_head *h, const struct store *s, const struct secmem *key,
	      enum vault_fault *ret_fault, struct err *e) MUST_CHECK;

/* All of a file, by pread(): the descriptor's place is not used. */
int file_read(int fd, size_t cap, struct buf *out, struct err *e) MUST_CHECK;

#endif
