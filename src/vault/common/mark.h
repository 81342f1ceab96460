/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mark that placeholders of one state directory have in their middle, by which coffer-egress tells one that is not this
 * sandbox's (of an earlier run, another home, a secret that was not given) from any other word. Pure. doc/adr/0027 has the reasons.
 *
 * Invariants
 *  M1  A mark is a word of MARK_BITS and more, made from the state directory's seed (32 random bytes), one for each kind of
 *      characters that a placeholder may be of. Two state directories have different ones. Whoever does not have the seed or a
 *      placeholder of the directory meets one by chance once in 2^MARK_BITS words.
 *  M2  It says nothing of a secret, a home or a run, and nothing can be had with it: a request that has one outside of a
 *      placeholder of its own sandbox is refused, which is all that comes of it.
 *  M3  A marked placeholder is of the characters that it was of, has the beginning that it had, and at least SHAPE_RANDOM_MIN
 *      random characters beside the mark: one that is too short for both becomes longer.
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

/* The file beside the vault that has the seed. */
#define MARK_FILE "mark"

void marks_make(const uint8_t seed[MARK_SEED_LEN], struct marks *ret);
static inline bool marks_any(const struct marks *m)
{
	return m->v[0][0];
}
/* Words of letters and digits, each at its place; all empty is good, too. */
bool marks_are_good(const struct marks *m);

/* Puts the fitting mark into a fresh placeholder. Returns its length then. */
size_t marks_put(const struct marks *m, char text[GRANTS_PLACEHOLDER_MAX + 1], size_t len);
bool marks_has(const struct marks *m, const char *text, size_t len);

#endif
