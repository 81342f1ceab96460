/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What well-known credentials look like. Two uses: a placeholder that programs take for the real thing, and a search for
 * credentials in files, whether the vault knows them or not. Pure.
 *
 * Invariants
 *  S1  A placeholder has nothing of the secret but its length and a prefix that stands in the table below (a vendor's, and
 *      so public); all else is random. At least SHAPE_RANDOM_MIN characters of it are random letters and digits.
 *  S2  It is as long as the secret, but at least SHAPE_MIN and at most SHAPE_MAX (mark.h may make a short one longer); its characters are [A-Za-z0-9._:-], of
 *      them only those kinds that the secret itself has where that leaves enough to choose from.
 */
#ifndef VAULT_SHAPE_H
#define VAULT_SHAPE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHAPE_MIN 24
#define SHAPE_MAX 1024
#define SHAPE_RANDOM_MIN 16
#define SHAPE_SEED_LEN 32

struct shape {
	const char *prefix; /* NULL: told by other means */
	const char *what;   /* for people: "a GitHub token" */
	const char *env;    /* the variable that programs look for it under; NULL when there is none */
	const char *host;   /* where it is used; NULL when that is not one host */
};

/* The shape of one whole value, NULL when it is none of the table. */
const struct shape *shape_of(const char *value, size_t len);

/* How much of a value is what its vendor begins all of them with (of a bot's token its number); 0: nothing. */
size_t shape_prefix(const char *value, size_t len);

/* A placeholder for this secret from a seed of the caller's, which must be fresh and random. `out` has room for SHAPE_MAX + 1
 * and gets a NUL. Returns the length. */
size_t shape_placeholder(const void *secret, size_t len, const uint8_t seed[SHAPE_SEED_LEN],
			 char out[SHAPE_MAX + 1]);

struct shape_hit {
	const struct shape *shape;
	size_t at, len; /* of the credential in the text */
};

/* The first credential in some text from offset `from` on; false when there is none. Any bytes may be given. `at` plus `len`
 * is where to go on. Values that are plainly examples (all one character, "xxxx", "example") are passed over. */
bool shape_find(const char *text, size_t len, size_t from, struct shape_hit *ret);

/* The longest credential that is told from its surroundings: how much of the end of one piece the next must begin with. */
#define SHAPE_FIND_MAX 1024

#endif
