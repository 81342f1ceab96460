/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The growing byte buffer of buf.h. The error is sticky, and the byte after the last one is always NUL. A buffer with
 * `wipe` never leaves a copy of its bytes in memory that it gives back. Must not use explicit_bzero(): some programs
 * link this file without the C library that has it.
 */
#include "base/buf.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Like explicit_bzero(), which is missing in programs that are linked without the C library: the empty asm keeps the
 * compiler from removing the memset(). */
static void wipe_memory(void *p, size_t len)
{
	memset(p, 0, len);
	__asm__ volatile("" : : "r"(p) : "memory");
}

void buf_release(struct buf *b)
{
	if (b->wipe && b->data)
		wipe_memory(b->data, b->cap);
	free(b->data);
	*b = (struct buf){ .wipe = b->wipe };
}

void buf_clear(struct buf *b)
{
	if (b->wipe && b->data)
		wipe_memory(b->data, b->len);
	b->len = 0;
	b->error = 0;
	if (b->data)
		b->data[0] = '\0';
}

/* With `wipe`, copies by hand: realloc() may free the old block without zeroing it. */
static char *buf_move_to_larger(const struct buf *b, size_t want)
{
	char *data;

	if (!b->wipe)
		return realloc(b->data, want);
	data = malloc(want);
	if (data && b->data) {
		memcpy(data, b->data, b->len + 1);
		wipe_memory(b->data, b->cap);
		free(b->data);
	}
	return data;
}

char *buf_reserve(struct buf *b, size_t len)
{
	size_t want = b->cap ? b->cap : 256;
	char *data;

	if (b->error)
		return NULL;
	if (len < b->cap - b->len)
		return b->data + b->len;
	if (len > SIZE_MAX / 4 || b->len > SIZE_MAX / 4) {
		b->error = -ENOMEM;
		return NULL;
	}
	while (want < b->len + len + 1)
		want *= 2;
	if (want != b->cap) {
		data = buf_move_to_larger(b, want);
		if (!data) {
			b->error = -ENOMEM;
			return NULL;
		}
		b->data = data;
		b->cap = want;
	}
	return b->data + b->len;
}

void buf_add(struct buf *b, const void *data, size_t len)
{
	char *p = buf_reserve(b, len);

	if (!p)
		return;
	if (len)
		memcpy(p, data, len);
	b->len += len;
	b->data[b->len] = '\0';
}

void buf_adds(struct buf *b, const char *s)
{
	buf_add(b, s, strlen(s));
}

void buf_addc(struct buf *b, char c)
{
	char *p = buf_reserve(b, 1);

	if (!p)
		return;
	p[0] = c;
	p[1] = '\0';
	b->len++;
}

void buf_addu(struct buf *b, uint64_t v)
{
	char digits[20];
	size_t i = sizeof(digits);

	do {
		digits[--i] = (char)('0' + v % 10);
		v /= 10;
	} while (v);
	buf_add(b, digits + i, sizeof(digits) - i);
}

void buf_vaddf(struct buf *b, const char *fmt, va_list ap)
{
	va_list again;
	char *p;
	int n;

	va_copy(again, ap);
	n = vsnprintf(NULL, 0, fmt, again);
	va_end(again);
	if (n < 0) {
		b->error = -EINVAL;
		return;
	}
	p = buf_reserve(b, (size_t)n);
	if (!p)
		return;
	vsnprintf(p, (size_t)n + 1, fmt, ap);
	b->len += (size_t)n;
}

void buf_addf(struct buf *b, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	buf_vaddf(b, fmt, ap);
	va_end(ap);
}

void buf_consume(struct buf *b, size_t len)
{
	if (len > b->len)
		BUG("buf_consume past the end");
	memmove(b->data, b->data + len, b->len - len);
	b->len -= len;
	if (b->wipe)
		wipe_memory(b->data + b->len, len);
	b->data[b->len] = '\0';
}

char *buf_take(struct buf *b)
{
	char *data;

	if (!b->data)
		buf_add(b, "", 0);
	if (b->error)
		return NULL;
	data = b->data;
	*b = BUF_INIT;
	return data;
}
