/* SPDX-License-Identifier: Apache-2.0 */
/* Lays out columns of text for people. Cells are made safe for a terminal as they are added; colours are not
 * supported. */
#include "cli/core/table.h"

#include "base/cleanup.h"
#include "codec/term/termrows.h"
#include "policy/shorten.h"

#include <errno.h>

#define GAP 2

static bool is_utf8_start(char c)
{
	return ((unsigned char)c & 0xc0) != 0x80;
}

size_t table_width(const char *s)
{
	size_t n = 0;

	for (; *s; s++)
		n += is_utf8_start(*s);
	return n;
}

/* The number of bytes that the first n characters take. */
static size_t utf8_prefix_bytes(const char *s, size_t n)
{
	const char *p = s;

	for (; *p; p++) {
		if (is_utf8_start(*p) && n-- == 0)
			break;
	}
	return (size_t)(p - s);
}

int table_add(struct table *t, const char *text, size_t max)
{
	autobuf struct buf safe = BUF_INIT, cut = BUF_INIT;

	str_add_safe(&safe, text, strlen(text), false);
	if (max > 0 && table_width(buf_cstr(&safe)) > max)
		/* shorten_text() counts bytes: max - 1 characters in bytes, and the ellipsis, one character
		 * of three bytes. */
		shorten_text(buf_cstr(&safe), utf8_prefix_bytes(buf_cstr(&safe), max - 1) + strlen("…"), "…",
			     &cut);
	else
		buf_adds(&cut, buf_cstr(&safe));
	if (buf_error(&safe) || buf_error(&cut))
		return -ENOMEM;
	return strv_add(&t->cells, buf_cstr(&cut));
}

void table_format(const struct table *t, struct buf *out)
{
	size_t widest[TABLE_COLUMNS_MAX] = { 0 }, before = 0;

	BUG_ON(t->columns == 0 || t->columns > TABLE_COLUMNS_MAX);
	for (size_t i = 0; i < t->cells.n; i++) {
		size_t w = table_width(t->cells.v[i]);

		if (w > widest[i % t->columns])
			widest[i % t->columns] = w;
	}
	for (size_t i = 0; i + 1 < t->columns; i++)
		before += widest[i] + GAP;
	for (size_t i = 0; i < t->cells.n; i++) {
		size_t column = i % t->columns;

		if (column + 1 < t->columns || !t->width)
			buf_adds(out, t->cells.v[i]);
		else
			shorten_text(t->cells.v[i], t->width > before + 1 ? t->width - 1 - before : 0, "…",
				     out);
		if (column + 1 == t->columns)
			buf_addc(out, '\n');
		else
			buf_addf(out, "%*s", (int)(widest[column] + GAP - table_width(t->cells.v[i])), "");
	}
}

void table_release(struct table *t)
{
	strv_release(&t->cells);
}
