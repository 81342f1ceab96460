/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Issued credentials (issued.h) stored beyond the life of one coffer-vault: sealed, in a file that the requester of the grant
 * has opened. It belongs to a named home, and then serves the next run with that home; or it has no name, and lasts as
 * long as the run. It has two places for the same contents, KEEP_PLACE apart. Each, little-endian:
 *
 *	 0  8  "COFFERK1"		24 24  nonce
 *	 8  8  number of save	48  …  sealed, with its tag; the first 24 bytes are authenticated with it
 *	16  8  length of that
 *
 * Invariants
 *  K1  A save goes to the place that does not have the newest valid save, and is on the disk before it counts. Killed at any
 *      moment, one of the two is valid.
 *  K2  A stored credential is used only for an issuer that is granted now exactly as it was then; that issuer says where it
 *      may be sent. Records of other issuers stay in the file unchanged.
 *  K3  A file that is damaged, or sealed with another key, counts as empty: no grant fails because of it.
 *  K4  A client cannot make the vault write as often as it likes: KEEP_BURST times at once, then once in KEEP_EVERY. Pending
 *      changes are written when that allows it, and when the channel ends.
 */
#ifndef VAULT_KEEP_H
#define VAULT_KEEP_H

#include "vault/serve/issued.h"

#define KEEP_PLACE (1u << 20)
#define KEEP_HEAD_LEN 48
#define KEEP_MAX (KEEP_PLACE - KEEP_HEAD_LEN - 16u) /* bytes before sealing */
#define KEEP_BURST 32
#define KEEP_EVERY 500 /* ms */

struct keep;

/* Takes ownership of fd, which may be open for reading only: then nothing is saved. The key is the vault's
 * and must outlive it. NULL without memory, and fd is closed. */
struct keep *keep_new(int fd, const struct secmem *key);
/* Does not save. */
void keep_free(struct keep *k);

/* Adds the credentials of the file that g grants, that have not expired and are not in l already. */
void keep_load(struct keep *k, struct issued_list *l, const struct vault_grants *g, uint32_t *handles,
	       uint64_t now);

/* The list has changed: saves it now, or in a later keep_tick() because of K4. False: it cannot be stored.
 * `mono` in ns. k may be NULL: false. */
bool keep_changed(struct keep *k, const struct issued_list *l, const struct vault_grants *g, uint64_t mono);
/* Saves a pending change if K4 allows it; `end`: in any case. True while a change is pending. */
bool keep_tick(struct keep *k, const struct issued_list *l, const struct vault_grants *g, uint64_t mono,
	       bool end);

#endif
