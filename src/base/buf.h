/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A growing byte buffer with a sticky error.
 *
 * Adding to a buffer that has failed does nothing, so a caller builds a whole message and checks once with
 * buf_error(). The bytes are always followed by a NUL that does not count in `len`.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include "base/cleanup.h"
#include "base/err.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
	char *data; /* NULL until something was added; use buf_cstr() to read it as a string */
	size_t len;
	size_t cap;
	int error; /* 0, or -ENOMEM */
	bool wipe; /* for secrets: memory is zeroed before it is freed or reused. Stays set */
};

#define BUF_INIT ((struct buf){ 0 })

void buf_release(struct buf *b);
void buf_clear(struct buf *b); /* drops the bytes and the error, keeps the memory */
void buf_add(struct buf *b, const void *data, size_t len);
void buf_adds(struct buf *b, const char *s);
void buf_addc(struct buf *b, char c);
void buf_addu(struct buf *b, uint64_t v); /* decimal */
void buf_addf(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
void buf_vaddf(struct buf *b, const char *fmt, va_list ap) PRINTF_LIKE(2, 0);

/* Makes room for `len` more bytes at the end; the caller fills them and adds to b->len. NULL on failure. */
char *buf_reserve(struct buf *b, size_t len) MUST_CHECK;

/* Drops the first `len` bytes. */
void buf_consume(struct buf *b, size_t len);

static inline int buf_error(const struct buf *b)
{
	return b->error;
}

static inline const char *buf_cstr(const struct buf *b)
{
	return b->data ? b->data : "";
}

/* The bytes as a malloc()ed string that the caller owns; the buffer is empty afterwards. NULL on error. */
char *buf_take(struct buf *b) MUST_CHECK;

#define autobuf CLEANUP(buf_release)

#endif
