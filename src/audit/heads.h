/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signed heads: at intervals the log's key signs "event SEQ has the hash HASH". A head that was copied off
 * the machine proves later what the log contained. The files: key (Ed25519 seed, hex, 0600), key.pub, and heads with one
 * line for each head. Callers hold the log's lock.
 */
#ifndef AUDIT_HEADS_H
#define AUDIT_HEADS_H

#include "audit/anchor.h"
#include "base/err.h"
#include "crypto/hash.h"
#include "crypto/sign.h"

#include <stdbool.h>
#include <stdint.h>

#define HEADS_NAME "heads"
#define HEADS_KEY "key"
#define HEADS_PUB "key.pub"
#define HEADS_PUB_HEX 64
#define HEADS_LINE_MAX 512

struct head {
	char log[ANCHOR_LOG_LEN + 1];
	uint64_t seq;
	char hash[HASH_HEX_LEN + 1];
	char key[HEADS_PUB_HEX + 1];
	char sig[2 * SIGN_SIG_LEN + 1];
};

/* The public half of the existing key. -ENOENT if there is none, -EBADMSG if it is damaged. */
int heads_key_pub(int dir_fd, char ret_pub[HEADS_PUB_HEX + 1]) MUST_CHECK;

/* The same; creates the pair if there is none that can be used and `may_make` is set. 1: created one,
 * otherwise 0. */
int heads_key_ensure(int dir_fd, bool may_make, char ret_pub[HEADS_PUB_HEX + 1], struct err *e) MUST_CHECK;

/* Appends a head for the event that the anchor names. */
int heads_sign(int dir_fd, const struct anchor *an, struct err *e) MUST_CHECK;

/* Drops the heads of events up to `through`, which were pruned. */
int heads_prune(int dir_fd, uint64_t through, struct err *e) MUST_CHECK;

/* Parses one line without its newline. -EINVAL if it is not a head. Does not check the signature. */
int head_parse(const char *text, size_t len, struct head *ret) MUST_CHECK;

/* Was it signed with the key that it names? */
bool head_is_signed(const struct head *h);

#endif
