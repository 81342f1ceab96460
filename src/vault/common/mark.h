/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mark that all placeholders of one state directory have in their middle. By it coffer-egress tells a placeholder that is not
 * this sandbox's (of an earlier run, another home, a secret that was not granted) from any other word. Pure. doc/adr/0027 has
 * the reasons.
 *
 * Invariants
 *  M1  A mark is a word of at least MARK_BITS bits, derived from the state directory's seed (32 random bytes), one for each set
 *      of characters that placeholders use. Two state directories have different marks. Without the seed or a placeholder
 *      of the directory, a word matches one by chance once in 2^MARK_BITS.
 *  M2  It reveals nothing of a secret, a home or a run, and grants nothing: a request that has a mark outside of a
 *      placeholder of its own sandbox is refused, and nothing else follows from it.
 *  M3  Marking keeps a placeholder's character set and its prefix, and leaves at least SHAPE_RANDOM_MIN random
 *      characters besides the mark: a placeholder that is too short for both becomes longer.
 */
#ifndef VAULT_MARK_H
#define VAULT_MARK_H

#include "vault/common/grants.h"

#include <stdint.h>

#define MARK_SEED_LEN 32
#define MARK_KINDS 9
#define MARK_MAX 13
#define MARK_BITS 41

struct marks {
	char v[MARK_KINDS][MARK_MAX + 1];
};

/* The file with the seed, next to the vault. */
#define MARK_FILE "mark"

void marks_make(const uint8_t seed[MARK_SEED_LEN], struct marks *ret);
static inline bool marks_any(const struct marks *m)
{
	return m->v[0][0];
}
/* Are the marks all empty, or each a word of its length and character set? */
bool marks_are_good(const struct marks *m);

/* Writes the mark of its character set into a new placeholder. Returns the new length. */
size_t marks_put(const struct marks *m, char text[GRANTS_PLACEHOLDER_MAX + 1], size_t len);
bool marks_has(const struct marks *m, const char *text, size_t len);

#endif
