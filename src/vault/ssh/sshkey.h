/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A parsed private key for SSH: OpenSSH's own format, PKCS#8 and the older PEM forms of RSA and EC, all unencrypted.
 * Only coffer-vault has one.
 *
 * Invariants
 *  K1  Every part of the private key points into locked memory that the struct owns; nothing is copied elsewhere.
 *  K2  A key is read to its last byte: padding, lengths and the public part beside the private one must be
 *      right, otherwise the key is refused with the reason. No byte of the key is in a message.
 */
#ifndef VAULT_SSHKEY_H
#define VAULT_SSHKEY_H

#include "base/err.h"
#include "codec/slice.h"
#include "crypto/secmem.h"

#define SSHKEY_BLOB_MAX 1100	  /* of a public key: RSA with 8192 bits */
#define SSHKEY_PRINT_LEN (7 + 43) /* "SHA256:" and the digest in base64 without padding */

enum sshkey_kind { SSHKEY_ED25519, SSHKEY_P256, SSHKEY_RSA, SSHKEY_KINDS };

struct sshkey {
	enum sshkey_kind kind;
	struct secmem mem; /* the file, decoded */
	struct slice seed; /* ED25519: 32 bytes */
	struct slice d;	   /* P256, RSA: the private number */
	struct slice q;	   /* P256: the public point, uncompressed */
	struct slice n, e; /* RSA */
	size_t blob_len;   /* the public key in SSH's wire format */
	uint8_t blob[SSHKEY_BLOB_MAX];
};

#define SSHKEY_INIT ((struct sshkey){ 0 })

int sshkey_parse(const void *text, size_t len, struct sshkey *ret, struct err *e) MUST_CHECK;
void sshkey_release(struct sshkey *k);

/* "ssh-ed25519", "ecdsa-sha2-nistp256", "ssh-rsa" */
const char *sshkey_type(enum sshkey_kind k);

/* The fingerprint of a public key, "SHA256:…", as ssh-keygen -l prints it. */
void sshkey_print(struct slice blob, char out[SSHKEY_PRINT_LEN + 1]);

#endif
