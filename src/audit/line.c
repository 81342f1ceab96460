/* SPDX-License-Identifier: Apache-2.0 */
/* Formats an event as a line of the log, and parses exactly such lines (line.h). Pure. */

#include "audit/line.h"

#include "base/clock.h"
#include "base/str.h"

#include <errno.h>

/* The unparsed rest of a line. */
struct cursor {
	const char *p;
	const char *end;
};

static bool cursor_text(struct cursor *c, const char *text)
{
	size_t n = strlen(text);

	if ((size_t)(c->end - c->p) < n || memcmp(c->p, text, n) != 0)
		return false;
	c->p += n;
	return true;
}

/* Decimal without leading zeros, at most LINE_SEQ_MAX. */
static bool cursor_number(struct cursor *c, uint64_t *ret)
{
	const char *start = c->p;
	uint64_t v = 0;

	while (c->p < c->end && *c->p >= '0' && *c->p <= '9' && c->p - start < 19)
		v = v * 10 + (uint64_t)(*c->p++ - '0');
	if (c->p == start || (*start == '0' && c->p - start > 1) || v > LINE_SEQ_MAX)
		return false;
	*ret = v;
	return true;
}

/* Exactly the bytes of the pattern, in which '0' matches a digit and 'x' a hex digit. */
static bool cursor_pattern(struct cursor *c, const char *pattern, const char **ret)
{
	size_t n = strlen(pattern);

	if ((size_t)(c->end - c->p) < n)
		return false;
	for (size_t i = 0; i < n; i++) {
		char is = c->p[i];
		bool digit = is >= '0' && is <= '9';

		if (pattern[i] == '0'	? !digit
		    : pattern[i] == 'x' ? !digit && !(is >= 'a' && is <= 'f')
					: is != pattern[i])
			return false;
	}
	*ret = c->p;
	c->p += n;
	return true;
}

static bool is_word_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
	       c == '_' || c == '-';
}

/* A word of at most 64 characters that need no escaping, and the quote after it. */
static bool cursor_word(struct cursor *c, const char **ret, size_t *ret_len)
{
	const char *start = c->p;

	while (c->p < c->end && is_word_char(*c->p) && c->p - start < 64)
		c->p++;
	*ret = start;
	*ret_len = (size_t)(c->p - start);
	return *ret_len > 0 && cursor_text(c, "\"");
}

int line_parse(const char *text, size_t len, struct line *ret)
{
	static const char tail_pattern[] =
		",\"prev\":\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}";
	static const size_t tail_len = sizeof(tail_pattern) - 1;
	struct cursor c = { text, text + len }, tail;
	struct line l = { 0 };
	const char *end;

	if (len < tail_len || len > LINE_MAX_LEN)
		return -EINVAL;
	tail = (struct cursor){ text + len - tail_len, text + len };
	if (!cursor_pattern(&tail, tail_pattern, &end))
		return -EINVAL;
	c.end = end;
	if (!cursor_text(&c, "{\"seq\":") || !cursor_number(&c, &l.seq) || l.seq == 0 ||
	    !cursor_text(&c, ",\"time\":\"") || !cursor_pattern(&c, "0000-00-00T00:00:00.000000Z", &l.time) ||
	    !cursor_text(&c, "\",\"boot\":") || !cursor_number(&c, &l.boot) ||
	    !cursor_text(&c, ",\"boot_id\":\"") ||
	    !cursor_pattern(&c, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", &l.boot_id) ||
	    !cursor_text(&c, "\",\"type\":\"") || !cursor_word(&c, &l.type, &l.type_len))
		return -EINVAL;
	if (cursor_text(&c, ",\"sandbox\":\"") && !cursor_word(&c, &l.sandbox, &l.sandbox_len))
		return -EINVAL;
	if (c.p < c.end && !cursor_text(&c, ","))
		return -EINVAL;
	l.fields = c.p;
	l.fields_len = (size_t)(c.end - c.p);
	l.prev = end + strlen(",\"prev\":\"");
	*ret = l;
	return 0;
}

bool line_is_type(const struct line *l, const char *type)
{
	return strlen(type) == l->type_len && memcmp(type, l->type, l->type_len) == 0;
}

bool line_type_is_valid(const char *type)
{
	size_t n = strlen(type);

	if (n == 0 || n > 64)
		return false;
	for (; *type; type++) {
		if (!is_word_char(*type) || (*type >= 'A' && *type <= 'Z'))
			return false;
	}
	return true;
}

static void add_decimal(struct buf *out, uint64_t v)
{
	char digits[20];
	size_t n = sizeof(digits);

	do {
		digits[--n] = (char)('0' + v % 10);
		v /= 10;
	} while (v);
	buf_add(out, digits + n, sizeof(digits) - n);
}

/* Does not use printf(), because every event is formatted here. */
void line_format(const struct line_head *h, const struct buf *fields, struct buf *out)
{
	char time[CLOCK_TEXT_LEN];

	buf_clear(out);
	buf_adds(out, "{\"seq\":");
	add_decimal(out, h->seq);
	buf_adds(out, ",\"time\":\"");
	buf_adds(out, clock_format(h->time, time));
	buf_adds(out, "\",\"boot\":");
	add_decimal(out, h->boot);
	buf_adds(out, ",\"boot_id\":\"");
	buf_adds(out, h->boot_id);
	buf_adds(out, "\",\"type\":\"");
	buf_adds(out, h->type);
	buf_addc(out, '"');
	if (h->sandbox) {
		buf_adds(out, ",\"sandbox\":\"");
		buf_adds(out, h->sandbox);
		buf_addc(out, '"');
	}
	if (fields && fields->len) {
		buf_addc(out, ',');
		buf_add(out, fields->data, fields->len);
	}
	buf_adds(out, ",\"prev\":\"");
	buf_adds(out, h->prev);
	buf_adds(out, "\"}\n");
}
