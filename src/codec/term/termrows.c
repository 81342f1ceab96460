/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lays out text, which may be an attacker's, in rows of a known width, so that no part of it can imitate a row of ours
 * (termrows.T1 to termrows.T4).
 */
#include "codec/term/termrows.h"

#include "base/err.h"
#include "base/str.h"

#include <stdint.h>
#include <string.h>

#define SPACES 2      /* termrows.T4: more adjacent spaces are shown as a count */
#define EMPTY_LINES 2 /* termrows.T4: more adjacent empty lines are shown as a count */

unsigned termrows_cols(unsigned cols)
{
	if (cols == 0)
		return TERMROWS_COLS;
	return cols < TERMROWS_MIN ? TERMROWS_MIN : cols > 1000 ? 1000 : cols;
}

/* ---- termrows.T3: characters that are shown as they are. ---- */

/* Decodes a character of str_add_safe()'s output, which is valid UTF-8. */
static size_t decode_utf8(const char *s, uint32_t *ret)
{
	const unsigned char *p = (const unsigned char *)s;
	size_t n = *p < 0x80 ? 1 : *p < 0xe0 ? 2 : *p < 0xf0 ? 3 : 4;

	*ret = n == 1 ? *p : *p & (0x7fu >> n);
	for (size_t i = 1; i < n; i++)
		*ret = *ret << 6 | (p[i] & 0x3fu);
	return n;
}

/*
 * termrows.T3: letters of scripts that are written from left to right without joining, ideographs, and their
 * punctuation.
 */
static bool is_itself(uint32_t cp)
{
	static const struct {
		uint32_t first, last;
	} ranges[] = {
		{ 0x20, 0x7e },	    { 0xa1, 0xac },	{ 0xae, 0x2af },    { 0x386, 0x3ff },
		{ 0x400, 0x482 },   { 0x48a, 0x52f },	{ 0x1e00, 0x1eff }, { 0x2010, 0x2027 },
		{ 0x20ac, 0x20ac }, { 0x2400, 0x2426 }, { 0x3001, 0x3003 }, { 0x3005, 0x3011 },
		{ 0x3041, 0x3096 }, { 0x309d, 0x30ff }, { 0x3400, 0x4dbf }, { 0x4e00, 0x9fff },
		{ 0xac00, 0xd7a3 }, { 0xff01, 0xff5e }, { 0xfffd, 0xfffd },
	};

	for (size_t i = 0; i < ARRAY_SIZE(ranges); i++) {
		if (cp >= ranges[i].first && cp <= ranges[i].last)
			return true;
	}
	return false;
}

/* How text is shown. FOLD: many spaces as a count. QUOTED: in ASCII, without double quotes. INDENT: with FOLD, up to
 * TERMROWS_INDENT spaces at the start of the text are shown as they are. */
enum { FOLD = 1, QUOTED = 2, INDENT = 4 };

static size_t add_spaces(struct buf *out, const char *s, bool fold, size_t max)
{
	size_t n = strspn(s, " ");

	if (fold && n > max)
		buf_addf(out, "[%zu spaces]", n);
	else
		buf_add(out, s, n);
	return n;
}

static void add_plain(struct buf *out, const char *s, size_t len, unsigned how)
{
	autobuf struct buf safe = BUF_INIT;
	uint32_t cp;

	str_add_safe(&safe, s, len, false);
	for (const char *p = buf_cstr(&safe); *p;) {
		size_t n = decode_utf8(p, &cp);

		if (cp == ' ')
			n = add_spaces(out, p, how & FOLD,
				       how & INDENT && p == safe.data ? TERMROWS_INDENT : SPACES);
		else if (cp == '"' && how & QUOTED)
			buf_addc(out, '\'');
		else if (!is_itself(cp) || (cp > 0x7e && how & QUOTED))
			buf_addf(out, "\\u{%04x}", cp);
		else
			buf_add(out, p, n);
		p += n;
	}
	/* A text that was cut for want of memory must not be shown: pass the error on. */
	if (buf_error(&safe))
		out->error = buf_error(&safe);
}

void termrows_plain(struct buf *out, const char *s, size_t len)
{
	add_plain(out, s, len, FOLD);
}

void termrows_quote(struct buf *out, const char *s, size_t len)
{
	buf_addc(out, '"');
	add_plain(out, s, len, FOLD | QUOTED);
	buf_addc(out, '"');
}

/* ---- Rows. ---- */

size_t termrows_fit(const char *s, size_t cells)
{
	size_t n = strnlen(s, cells + 1);

	if (n <= cells)
		return n;
	for (n = cells; n && ((unsigned char)s[n] & 0xc0) == 0x80; n--)
		;
	return n;
}

void termrows_cut(struct buf *out, const char *s, size_t cells)
{
	static const char more[] = "…";

	if (strlen(s) <= cells) {
		buf_adds(out, s);
		return;
	}
	buf_add(out, s, cells > strlen(more) ? termrows_fit(s, cells - strlen(more)) : 0);
	buf_adds(out, more);
}

void termrows_wrap(struct buf *out, unsigned cols, size_t used, const char *next, const char *text)
{
	BUG_ON(cols < TERMROWS_MIN || strlen(next) + 5 > cols);
	do {
		/* termrows.T2: the last column stays free, because some terminals wrap the cursor after it. */
		size_t n = termrows_fit(text, used + 1 < cols ? cols - 1 - used : 0);

		buf_add(out, text, n);
		buf_addc(out, '\n');
		text += n;
		used = strlen(next);
		if (*text)
			buf_adds(out, next);
	} while (*text);
}

void termrows_add(struct buf *out, unsigned cols, const char *label, const char *value)
{
	autobuf struct buf plain = BUF_INIT;

	BUG_ON(strlen(label) > TERMROWS_LABEL || cols < TERMROWS_MIN);
	if (!value[0])
		return;
	add_plain(&plain, value, strlen(value), FOLD);
	buf_addf(out, "%-*s", TERMROWS_GUTTER, label);
	termrows_wrap(out, cols, TERMROWS_GUTTER, TERMROWS_MARK, buf_cstr(&plain));
	if (buf_error(&plain))
		out->error = buf_error(&plain);
}

static void add_marked(struct buf *out, unsigned cols, const char *s, size_t len, unsigned how)
{
	autobuf struct buf plain = BUF_INIT;

	BUG_ON(cols < TERMROWS_MIN);
	add_plain(&plain, s, len, how);
	buf_adds(out, TERMROWS_MARK);
	termrows_wrap(out, cols, strlen(TERMROWS_MARK), TERMROWS_MARK, buf_cstr(&plain));
	if (buf_error(&plain))
		out->error = buf_error(&plain);
}

void termrows_more(struct buf *out, unsigned cols, const char *value)
{
	add_marked(out, cols, value, strlen(value), FOLD);
}

/* The length of the line at s: up to its newline, or to the end of the text. */
static size_t line_len(const char *s, size_t len)
{
	const char *nl = memchr(s, '\n', len);

	return nl ? (size_t)(nl - s) : len;
}

/* The number of lines at the start that are empty or only spaces; *ret_end is the offset after them. */
static size_t count_empty(const char *s, size_t len, size_t *ret_end)
{
	size_t n = 0, at = 0;

	while (at < len) {
		size_t line = line_len(s + at, len - at), k = 0;

		while (k < line && s[at + k] == ' ')
			k++;
		if (k < line)
			break;
		at += line + (at + line < len);
		n++;
	}
	*ret_end = at;
	return n;
}

size_t termrows_lines(struct buf *out, unsigned cols, const char *text, size_t len, size_t max)
{
	autobuf struct buf rows = BUF_INIT;
	size_t n, shown;

	for (size_t at = 0; at < len;) {
		size_t end, n_empty = count_empty(text + at, len - at, &end);

		if (n_empty > EMPTY_LINES) {
			autobuf struct buf words = BUF_INIT;

			buf_addf(&words, "[%zu empty lines]", n_empty);
			termrows_more(&rows, cols, buf_cstr(&words));
			at += end;
			continue;
		}
		end = line_len(text + at, len - at);
		add_marked(&rows, cols, text + at, end, FOLD | INDENT);
		at += end + 1;
	}
	n = termrows_count(buf_cstr(&rows));
	shown = n < max ? n : max;
	buf_add(out, buf_cstr(&rows), termrows_skip(buf_cstr(&rows), shown));
	if (buf_error(&rows))
		out->error = buf_error(&rows);
	return n - shown;
}

void termrows_text(struct buf *out, unsigned cols, const char *next, const char *text, size_t len)
{
	BUG_ON(cols < TERMROWS_MIN);
	for (size_t at = 0; at < len;) {
		autobuf struct buf plain = BUF_INIT;
		const char *nl = memchr(text + at, '\n', len - at);
		size_t line = nl ? (size_t)(nl - text) - at : len - at;

		add_plain(&plain, text + at, line, 0);
		termrows_wrap(out, cols, 0, next, buf_cstr(&plain));
		if (buf_error(&plain))
			out->error = buf_error(&plain);
		at += line + (nl != NULL);
	}
}

size_t termrows_count(const char *rows)
{
	size_t n = 0;

	for (; (rows = strchr(rows, '\n')); rows++)
		n++;
	return n;
}

size_t termrows_skip(const char *rows, size_t n)
{
	const char *p = rows;

	for (; n && *p; n--) {
		p += strcspn(p, "\n");
		p += *p == '\n';
	}
	return (size_t)(p - rows);
}
