/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for secrets: locked (never swapped), out of core dumps, between two pages that cannot be touched, wiped when it is
 * freed. Memory that cannot be locked is not given at all.
 *
 * A struct secmem has no way to be printed. It is wiped and freed when its scope ends:
 * `CLEANUP(secmem_release) struct secmem m = SECMEM_INIT;`.
 */
#ifndef CRYPTO_SECMEM_H
#define CRYPTO_SECMEM_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct secmem {
	uint8_t *p; /* NULL when empty */
	size_t len; /* bytes in use */
	size_t cap;
};

#define SECMEM_INIT ((struct secmem){ 0 })
#define autosecmem CLEANUP(secmem_release)

/* Call first: initialises the library and raises RLIMIT_MEMLOCK as far as allowed. -ENOMEM, with a hint, when
 * not one page can be locked. */
int secmem_begin(struct err *e) MUST_CHECK;

/* Allocates `cap` bytes, none of them in use. */
int secmem_new(struct secmem *m, size_t cap, struct err *e) MUST_CHECK;

/* Wipes and frees. */
void secmem_release(struct secmem *m);

/* Wipes the bytes and keeps the memory. */
void secmem_clear(struct secmem *m);

/* -ENOSPC when it does not fit: the buffer never grows, so that no stray copy of a secret remains. */
int secmem_add(struct secmem *m, const void *data, size_t len) MUST_CHECK;

/* Constant time for equal lengths. */
bool secmem_eq(const struct secmem *a, const void *b, size_t len);

/* Wipes bytes that were in ordinary memory. */
void secmem_wipe(void *p, size_t len);

#endif
