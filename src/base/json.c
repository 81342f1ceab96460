/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The JSON writer of json.h. It escapes as it copies, so that no string, however hostile, can end its own quotes, break
 * the line or send a control sequence to the terminal of a reader. Keys are constants of ours and are not escaped.
 */
#include "base/json.h"

#include "base/str.h"

#include <string.h>

static void json_begin_value(struct json *j, const char *key)
{
	size_t len = key ? strlen(key) : 0, n = 0;
	char *p = buf_reserve(j->out, len + 4);

	if (!p)
		return;
	if (j->comma)
		p[n++] = ',';
	j->comma = true;
	if (key) {
		p[n++] = '"';
		memcpy(p + n, key, len);
		n += len;
		p[n++] = '"';
		p[n++] = ':';
	}
	p[n] = '\0';
	j->out->len += n;
}

void json_obj(struct json *j, const char *key)
{
	json_begin_value(j, key);
	buf_addc(j->out, '{');
	j->comma = false;
}

void json_arr(struct json *j, const char *key)
{
	json_begin_value(j, key);
	buf_addc(j->out, '[');
	j->comma = false;
}

void json_end_obj(struct json *j)
{
	buf_addc(j->out, '}');
	j->comma = true;
}

void json_end_arr(struct json *j)
{
	buf_addc(j->out, ']');
	j->comma = true;
}

/* The length of the valid UTF-8 sequence above ASCII at p; 0 when there is no valid one. */
static size_t utf8_len(const unsigned char *p, size_t len)
{
	size_t n = p[0] >= 0xf0 && p[0] <= 0xf4 ? 4 : p[0] >= 0xe0 ? 3 : 2;

	if (p[0] < 0xc2 || p[0] > 0xf4 || len < n)
		return 0;
	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	}
	if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf0 && p[1] < 0x90) ||
	    (p[0] == 0xf4 && p[1] > 0x8f))
		return 0;
	return n;
}

bool json_is_utf8(const char *s)
{
	const unsigned char *p = (const unsigned char *)s;
	size_t len = strlen(s);

	while (len) {
		size_t n = *p < 0x80 ? 1 : utf8_len(p, len);

		if (!n)
			return false;
		p += n;
		len -= n;
	}
	return true;
}

static void add_ascii_escaped(struct buf *b, unsigned char c)
{
	if (c == '"' || c == '\\') {
		buf_addc(b, '\\');
		buf_addc(b, (char)c);
	} else if (c == '\n') {
		buf_adds(b, "\\n");
	} else if (c == '\t') {
		buf_adds(b, "\\t");
	} else if (c < 0x20 || c == 0x7f) {
		buf_addf(b, "\\u%04x", c);
	} else {
		buf_addc(b, (char)c);
	}
}

/* The number of bytes at p that need no escape. */
static size_t unescaped_len(const unsigned char *p, size_t len)
{
	size_t n = 0;

	while (n < len && p[n] >= 0x20 && p[n] < 0x7f && p[n] != '"' && p[n] != '\\')
		n++;
	return n;
}

/* Adds one character above ASCII and returns its length. JSON is also read on terminals, so characters that steer a
 * terminal are escaped. */
static size_t add_utf8_escaped(struct buf *b, const unsigned char *p, size_t len)
{
	size_t n = utf8_len(p, len);
	uint32_t cp = n == 2 ? p[0] & 0x1fu : p[0] & 0x0fu;

	if (n == 0) {
		buf_adds(b, "\\ufffd");
		return 1;
	}
	for (size_t i = 1; i < n; i++)
		cp = cp << 6 | (p[i] & 0x3fu);
	if (n < 4 && str_steers_terminal(cp))
		buf_addf(b, "\\u%04x", cp);
	else
		buf_add(b, p, n);
	return n;
}

void json_strn(struct json *j, const char *key, const char *s, size_t len)
{
	const unsigned char *p = (const unsigned char *)s;
	struct buf *b = j->out;

	json_begin_value(j, key);
	buf_addc(b, '"');
	while (len) {
		size_t n = unescaped_len(p, len);

		if (n) {
			buf_add(b, p, n);
		} else if (*p < 0x80) {
			add_ascii_escaped(b, *p);
			n = 1;
		} else {
			n = add_utf8_escaped(b, p, len);
		}
		p += n;
		len -= n;
	}
	buf_addc(b, '"');
}

void json_str(struct json *j, const char *key, const char *s)
{
	if (s)
		json_strn(j, key, s, strlen(s));
	else
		json_none(j, key);
}

void json_bytes(struct json *j, const char *key, const char *s, size_t len)
{
	const unsigned char *p = (const unsigned char *)s;

	json_begin_value(j, key);
	buf_addc(j->out, '"');
	for (size_t i = 0; i < len; i++) {
		if (p[i] < 0x80)
			add_ascii_escaped(j->out, p[i]);
		else
			buf_addf(j->out, "\\u%04x", p[i]);
	}
	buf_addc(j->out, '"');
}

void json_u64(struct json *j, const char *key, uint64_t v)
{
	json_begin_value(j, key);
	buf_addu(j->out, v);
}

void json_milli(struct json *j, const char *key, uint64_t thousandths)
{
	json_begin_value(j, key);
	buf_addf(j->out, "%llu.%03llu", (unsigned long long)thousandths / 1000,
		 (unsigned long long)thousandths % 1000);
}

void json_i64(struct json *j, const char *key, int64_t v)
{
	json_begin_value(j, key);
	if (v < 0)
		buf_addc(j->out, '-');
	buf_addu(j->out, v < 0 ? -(uint64_t)v : (uint64_t)v);
}

void json_bool(struct json *j, const char *key, bool v)
{
	json_begin_value(j, key);
	buf_adds(j->out, v ? "true" : "false");
}

void json_none(struct json *j, const char *key)
{
	json_begin_value(j, key);
	buf_adds(j->out, "null");
}
