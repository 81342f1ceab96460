/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buf_release(struct buf *b)
{
	free(b->data);
	*b = BUF_INIT;
}

void buf_clear(struct buf *b)
{
	b->len = 0;
	b->error = 0;
	if (b->data)
		b->data[0] = '\0';
}

char *buf_reserve(struct buf *b, size_t len)
{
	size_t want = b->cap ? b->cap : 256;
	char *data;

	if (b->error)
		return NULL;
	if (len > SIZE_MAX / 4 || b->len > SIZE_MAX / 4) {
		b->error = -ENOMEM;
		return NULL;
	}
	while (want < b->len + len + 1)
		want *= 2;
	if (want != b->cap) {
		data = realloc(b->data, want);
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
	buf_add(b, &c, 1);
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
