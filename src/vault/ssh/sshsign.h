/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signing with a private key, and checking a host's signature. ed25519 by libsodium, in locked memory throughout; RSA and
 * ECDSA by OpenSSL, whose copies of the numbers are in ordinary memory of coffer-vault while it signs; OpenSSL wipes them.
 *
 * Callers pass only public keys that were sealed with a binding (sshhosts.h): a stranger's key is never parsed.
 */
#ifndef VAULT_SSHSIGN_H
#define VAULT_SSHSIGN_H

#include "vault/ssh/sshkey.h"

#include <stdbool.h>

#define SSHSIGN_MAX 1100 /* of a signature with its algorithm name: RSA with 8192 bits */

/* Flags of the agent protocol for RSA. */
#define SSHSIGN_SHA256 2u
#define SSHSIGN_SHA512 4u

/* Call before the process is confined: OpenSSL must not read a file later. */
void sshsign_begin(void);

/* The algorithm's name for these flags; NULL if there is none: RSA with SHA-1 is not supported. */
const char *sshsign_algorithm(enum sshkey_kind kind, unsigned flags);

/* Writes algorithm and signature, each as an SSH string. -EIO on failure. */
int sshsign(const struct sshkey *k, unsigned flags, struct slice data, uint8_t out[SSHSIGN_MAX],
	    size_t *ret_len) MUST_CHECK;

/* Is it a signature of that public key over data? Keys: ed25519, ECDSA with P-256, P-384, P-521, RSA with
 * SHA-2. */
bool sshsign_check(struct slice blob, struct slice signature, struct slice data);

#endif
