/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removes credentials from TOML, statement by statement: a table header, or a key with its value, which spans lines while
 * brackets or long strings are open. Statements are kept or dropped as a whole (settings.T1), and so are tables. It is not a full
 * TOML parser: when in doubt, the file is refused.
 */
#include "vault/client/settings.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

struct toml {
	const char *s;
	size_t len, at;
	unsigned line;
};

static bool toml_is_at(const struct toml *t, const char *what)
{
	size_t n = strlen(what);

	return t->len - t->at >= n && memcmp(t->s + t->at, what, n) == 0;
}

/* Copies one character and counts lines. */
static void toml_step(struct toml *t, struct buf *out)
{
	t->line += t->s[t->at] == '\n';
	buf_addc(out, t->s[t->at++]);
}

/* Copies a string with its quotes. False: it is not terminated. */
static bool toml_string(struct toml *t, struct buf *out)
{
	char quote = t->s[t->at];
	const char lots[] = { quote, quote, quote, '\0' }, one[] = { quote, '\0' };
	bool many = toml_is_at(t, lots);
	const char *end = many ? lots : one;

	for (size_t i = 0; i < strlen(end); i++)
		toml_step(t, out);
	while (t->at < t->len && !toml_is_at(t, end)) {
		if (!many && t->s[t->at] == '\n')
			return false;
		if (quote == '"' && t->s[t->at] == '\\') {
			toml_step(t, out);
			if (t->at == t->len)
				return false;
		}
		toml_step(t, out);
	}
	if (t->at == t->len)
		return false;
	for (size_t i = 0; i < strlen(end); i++)
		toml_step(t, out);
	/* A long string may end with up to two more quotes. */
	while (many && t->at < t->len && t->s[t->at] == quote)
		toml_step(t, out);
	return true;
}

static void toml_skip_comment(struct toml *t)
{
	while (t->at < t->len && t->s[t->at] != '\n')
		t->at++;
}

/* By how much a character changes the bracket depth. */
static int bracket_change(char c)
{
	if (c == '[' || c == '{')
		return 1;
	return c == ']' || c == '}' ? -1 : 0;
}

/* Reads one statement up to the end of its last line, without comments (settings.T3). *ret_value: where the
 * value begins; 0: none. */
static int toml_statement(struct toml *t, struct buf *out, size_t *ret_value)
{
	int open = 0;

	buf_clear(out);
	*ret_value = 0;
	while (t->at < t->len) {
		char c = t->s[t->at];

		if (c == '#') {
			toml_skip_comment(t);
			continue;
		}
		if (c == '"' || c == '\'') {
			if (!toml_string(t, out))
				return -EBADMSG;
			continue;
		}
		open += bracket_change(c);
		if (open < 0 || (c < ' ' && c != '\t' && c != '\n' && c != '\r'))
			return -EBADMSG;
		toml_step(t, out);
		if (c == '\n' && open == 0)
			return 0;
		if (c == '=' && open == 0 && !*ret_value)
			*ret_value = out->len;
	}
	return open ? -EBADMSG : 0;
}

/* A name in a key, a table header or an inline table: bare, or quoted. */
static size_t toml_name_at(const char *s, size_t len, size_t at, size_t *ret_from)
{
	int quote = at < len && (s[at] == '"' || s[at] == '\'') ? s[at] : 0;
	size_t n = at + (quote != 0);

	*ret_from = n;
	while (n < len &&
	       (quote ? s[n] != quote : isalnum((unsigned char)s[n]) || s[n] == '_' || s[n] == '-'))
		n++;
	return n;
}

/* Does one of the dotted names satisfy the test? Names may be quoted: mcp_servers."my
 * server".http_headers. */
static bool any_name_fits(const char *s, size_t len, bool (*fits)(const char *name, size_t len))
{
	for (size_t at = 0; at < len;) {
		size_t from, end = toml_name_at(s, len, at, &from);

		if (end > from && fits(s + from, end - from))
			return true;
		at = end > at ? end : at + 1;
		at += end < len && end > from && (s[end] == '"' || s[end] == '\'');
	}
	return false;
}

static bool has_credential_name(const char *s, size_t len)
{
	return any_name_fits(s, len, settings_is_credential_name);
}

/* Is there a credential's name before a "=" in an inline table? Text in strings counts, too: the stricter
 * reading wins. */
static bool assigns_credential(const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		size_t end = i, from;

		if (s[i] != '=')
			continue;
		while (end > 0 && strchr(" \t\"'", s[end - 1]))
			end--;
		from = end;
		while (from > 0 && (isalnum((unsigned char)s[from - 1]) || strchr("_-.", s[from - 1])))
			from--;
		if (end > from && settings_is_credential_name(s + from, end - from))
			return true;
	}
	return false;
}

/* Is there an option with a credential's name among the arguments: args = ["--api-key", "x"]? */
static bool has_credential_option(const char *s, size_t len)
{
	for (size_t i = 0; i + 2 < len; i++) {
		size_t n = i + 1;

		if ((s[i] != '"' && s[i] != '\'') || s[i + 1] != '-')
			continue;
		while (n < len && (isalnum((unsigned char)s[n]) || s[n] == '-' || s[n] == '_'))
			n++;
		if (settings_is_credential_name(s + i + 1, n - i - 1))
			return true;
	}
	return false;
}

/* A number, true or false. */
static bool is_plain_toml(const char *s, size_t len)
{
	while (len && isspace((unsigned char)*s)) {
		s++;
		len--;
	}
	while (len && isspace((unsigned char)s[len - 1]))
		len--;
	if ((len == 4 && memcmp(s, "true", 4) == 0) || (len == 5 && memcmp(s, "false", 5) == 0))
		return true;
	for (size_t i = 0; i < len; i++) {
		if (!isdigit((unsigned char)s[i]) && !strchr("+-._", s[i]))
			return false;
	}
	return len > 0;
}

/* Is one of the names that of a table of request headers? */
static bool has_headers_name(const char *s, size_t len)
{
	return any_name_fits(s, len, settings_is_headers_name);
}

/* `headers`: the current table contains request headers. */
static bool is_statement_kept(const char *s, size_t len, size_t value, bool headers)
{
	const char *v = s + value;
	size_t n = len - value;

	if (settings_is_credential_text(s, len))
		return false;
	if (has_credential_name(s, value))
		return is_plain_toml(v, n);
	headers = headers || has_headers_name(s, value) || memmem(v, n, "--header", 8);
	if (headers && settings_is_header_value(v, n))
		return false;
	return !assigns_credential(v, n) && !has_credential_option(v, n);
}

static bool is_blank_statement(const struct buf *b)
{
	for (size_t i = 0; i < b->len; i++) {
		if (!isspace((unsigned char)b->data[i]))
			return false;
	}
	return true;
}

int settings_clean_toml(const char *text, size_t len, struct buf *out, size_t *left_out, struct err *e)
{
	autobuf struct buf one = BUF_INIT;
	struct toml t = { .s = text, .len = len, .line = 1 };
	bool skipping = false, headers = false;

	while (t.at < t.len) {
		unsigned line = t.line;
		size_t value;
		const char *s;

		if (toml_statement(&t, &one, &value) < 0)
			return err_set(e, -EBADMSG, "line %u is not TOML", line);
		if (buf_error(&one))
			return err_set(e, -ENOMEM, "out of memory");
		if (is_blank_statement(&one))
			continue;
		s = buf_cstr(&one);
		s += strspn(s, " \t\r\n");
		if (*s == '[') {
			skipping = has_credential_name(one.data, one.len) ||
				   settings_is_credential_text(one.data, one.len);
			*left_out += skipping;
			headers = has_headers_name(one.data, one.len);
		} else if (!value) {
			return err_set(e, -EBADMSG, "line %u is not TOML", line);
		}
		if (!skipping && (*s == '[' || is_statement_kept(one.data, one.len, value, headers)))
			buf_add(out, one.data, one.len);
		else if (!skipping)
			++*left_out;
		if (out->len && out->data[out->len - 1] != '\n')
			buf_addc(out, '\n');
	}
	return 0;
}
