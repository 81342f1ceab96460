/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sealed file: a head in the clear, followed by a sealed store (crypto/seal.h). The head is authenticated together with
 * the sealed bytes, so neither can be exchanged alone. Layout, little-endian:
 *
 *	 0  8  "COFFERV1"	 56  4  passes of Argon2id (0 with a key)
 *	 8  4  version, 1	 60  4  its memory in KiB
 *	12  4  enum vault_key	 64 24  nonce
 *	16  8  save counter	 88 16  check of the key
 *	24 16  random id	104  8  length of the sealed bytes
 *	40 16  salt		112 16  BLAKE2b of the 112 bytes before: tells damage from a wrong key
 *	128 …  sealed, with its tag
 *
 * A wrong key is detected before anything is unsealed: "wrong passphrase" and "the file was changed" mean different things to a
 * person.
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
	struct seal_cost cost; /* VAULT_KEY_PASSPHRASE; otherwise zero */
	uint8_t nonce[SEAL_NONCE_LEN];
	uint8_t check[SEAL_CHECK_LEN];
	uint64_t sealed_len;
};

/* Parses the head of a file of `len` bytes. */
int file_head_parse(const void *data, size_t len, struct file_head *ret, enum vault_fault *ret_fault,
		    struct err *e) MUST_CHECK;

/* A head for a new vault, or for an existing one with a new key. */
void file_head_new(struct file_head *ret, enum vault_key kind);

/* Seals; the head gets a new nonce and the next counter. Appends to out, which then has no secret in the
 * clear. */
int file_seal(struct file_head *h, const struct store *s, const struct secmem *key, struct buf *out,
	      struct err *e) MUST_CHECK;

/* Unseals the bytes of file_seal(), head included. */
int file_open(const void *data, size_t len, const struct secmem *key, struct store *ret,
	      enum vault_fault *ret_fault, struct err *e) MUST_CHECK;

/* Writes, syncs, reads back and unseals: 0 means that the file has exactly the contents of the store. */
int file_save(int fd, struct file_head *h, const struct store *s, const struct secmem *key,
	      enum vault_fault *ret_fault, struct err *e) MUST_CHECK;

/* Reads a whole file by pread(): the descriptor's offset is not used. */
int file_read(int fd, size_t cap, struct buf *out, struct err *e) MUST_CHECK;

#endif
