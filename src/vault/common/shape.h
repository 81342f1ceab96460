/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shapes of well-known credentials. Two uses: placeholders that programs accept like the real thing, and the search for
 * credentials in files, whether the vault knows them or not. Pure.
 *
 * Invariants
 *  S1  A placeholder has nothing of the secret but its length and a prefix of the table in shape.c (a vendor's, and
 *      so public); the rest is random. At least SHAPE_RANDOM_MIN of its characters are random letters and digits.
 *  S2  It is as long as the secret, but at least SHAPE_MIN and at most SHAPE_MAX (mark.h may lengthen a short one); its
 *      characters are of [A-Za-z0-9._:-], and only of the classes that the secret has, if those leave enough choice.
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
	const char *prefix; /* NULL: recognised by other means */
	const char *what;   /* for people: "a GitHub token" */
	const char *env;    /* the variable in which programs expect it; NULL: none */
	const char *host;   /* where it is used; NULL if that is not one host */
};

/* The shape of a whole value; NULL if it matches none. */
const struct shape *shape_of(const char *value, size_t len);

/* The length of the vendor's prefix of a value (of a bot's token: its number and colon); 0: none. */
size_t shape_prefix(const char *value, size_t len);

/* Makes a placeholder for this secret from the caller's seed, which must be fresh and random. `out` has room
 * for SHAPE_MAX + 1 bytes and is NUL-terminated. Returns the length. */
size_t shape_placeholder(const void *secret, size_t len, const uint8_t seed[SHAPE_SEED_LEN],
			 char out[SHAPE_MAX + 1]);

struct shape_hit {
	const struct shape *shape;
	size_t at, len; /* of the credential in the text */
};

/* Finds the first credential at or after offset `from`; false if there is none. Accepts any bytes. Continue
 * at `at` plus `len`. Obvious examples (one repeated character, "xxxx", "example") are skipped. */
bool shape_find(const char *text, size_t len, size_t from, struct shape_hit *ret);

/* The longest credential that is recognised: consecutive pieces of a file must overlap by this much. */
#define SHAPE_FIND_MAX 1024

#endif
