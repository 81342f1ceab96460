/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What servers issued to a sandbox (issued.h), kept beyond the life of one coffer-vault: sealed, in a file that whoever asks
 * for the grant has opened. It is one of a named home, and then good for the next run with that home; or it has no
 * name, and lasts as long as the run. In it are two places for the same, KEEP_PLACE apart. Each, little-endian:
 *
 *	 0  8  "COFFERK1"	24 24  nonce
 *	 8  8  which save	48  …  sealed, with its tag; the first 24 bytes are bound to it
 *	16  8  length of that
 *
 * Invariants
 *  K1  A save goes to the place that does not have the newest whole one, and is on the disk before it counts. Killed at any moment,
 *      one of the two is whole.
 *  K2  What is read is good only for an issuer that is granted now word for word as it was then; that issuer says where it
 *      may be sent. What is of others stays in the file as it is.
 *  K3  What is damaged, or sealed with another key, is nothing: no grant fails for it.
 *  K4  No client makes us write as often as it likes: KEEP_BURST times at once, then once in KEEP_EVERY. What was not written yet
 *      is when there is time, and when the channel ends.
 */
#ifndef VAULT_KEEP_H
#define VAULT_KEEP_H

#include "vault/serve/issued.h"

#define KEEP_PLACE (1u << 20)
#define KEEP_HEAD_LEN 48
#define KEEP_MAX (KEEP_PLACE - KEEP_HEAD_LEN - 16u) /* bytes before they are sealed */
#define KEEP_BURST 32
#define KEEP_EVERY 500 /* ms */

struct keep;

/* Takes fd, which may be open for reading only: then nothing is saved. The key is the vault's, and must outlive it. NULL without memory,
 * and fd is closed. */
struct keep *keep_new(int fd, const struct secmem *key);
/* Without saving. */
void keep_free(struct keep *k);

/* Adds to l what is in the file, is granted by g, has not expired, and is not in l already. */
void keep_load(struct keep *k, struct issued_list *l, const struct vault_grants *g, uint32_t *handles,
	       uint64_t now);

/* The list has changed: it is saved now, or by the next keep_tick() after K4. False: it cannot be kept. `mono` in ns. NULL k: the same. */
bool keep_changed(struct keep *k, const struct issued_list *l, const struct vault_grants *g, uint64_t mono);
/* Saves what waits, if it is time; `end`: in any case. True when something still waits. */
bool keep_tick(struct keep *k, const struct issued_list *l, const struct vault_grants *g, uint64_t mono,
	       bool end);

#endif
