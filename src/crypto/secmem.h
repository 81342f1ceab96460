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

/* Before all else: sets the library up and takes as much of RLIMIT_MEMLOCK as may be had. -ENOMEM when not a page can be
 * locked, with what to do. */
int secmem_begin(struct err *e) MUST_CHECK;

/* `cap` bytes, none in use. */
int secmem_new(struct secmem *m, size_t cap, struct err *e) MUST_CHECK;

/* Wipes and frees. */
void secmem_release(struct secmem *m);

/* Wipes the bytes and keeps the memory. */
void secmem_clear(struct secmem *m);

/* -ENOSPC when it does not fit: it never grows by itself, so that nothing is copied unseen. */
int secmem_add(struct secmem *m, const void *data, size_t len) MUST_CHECK;

/* In constant time for equal lengths. */
bool secmem_eq(const struct secmem *a, const void *b, size_t len);

/* For bytes that stood in ordinary memory for a moment. */
void secmem_wipe(void *p, size_t len);

#endif
