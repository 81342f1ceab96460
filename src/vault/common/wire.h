/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Consecutive little-endian fields in the caller's memory: the encoding of grants, messages and the sealed file.
 * Errors are sticky, so that a whole record is read or written and checked once. Pure.
 */
#ifndef VAULT_WIRE_H
#define VAULT_WIRE_H

#include "codec/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct wire_in {
	const uint8_t *p;
	size_t left;
	bool bad;
};

uint64_t wire_get(struct wire_in *in, unsigned bytes); /* 1, 2, 4 or 8 */
struct slice wire_get_bytes(struct wire_in *in, size_t len);

/* A text of up to 255 bytes after its length byte, into a buffer of `size` bytes, NUL-terminated; bad if it
 * does not fit or contains a NUL. */
void wire_get_text(struct wire_in *in, char *out, size_t size);

/* Without memory (p is NULL) it only counts the bytes. */
struct wire_out {
	uint8_t *p;
	size_t cap, len;
	bool bad; /* it did not fit */
};

void wire_put(struct wire_out *out, uint64_t v, unsigned bytes);
void wire_put_bytes(struct wire_out *out, const void *data, size_t len);
void wire_put_text(struct wire_out *out, const char *s);

#endif
