/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removes the credentials from a git configuration. Works on logical lines (a backslash at the end joins the next one), so
 * that a value over several lines is seen as a whole; a line without secrets is copied byte for byte. Pure.
 */
#include "workspace/view/secret.h"

#include "base/cleanup.h"
#include "base/str.h"

#include <strings.h>

#define REDACTED "REDACTED"

/* Keys whose whole value is removed. */
static const char *const secret_keys[] = {
	"extraheader", "password", "smtppass", "token",	 "oauth-token", "oauthtoken",
	"apikey",      "api-key",  "pass",     "secret", "privatekey",	"cookie",
};

static bool is_config_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* One logical line from `at` on: returns its end in the text; `joined` gets it without the joining backslashes. */
static size_t next_logical_line(const char *text, size_t len, size_t at, struct buf *joined)
{
	buf_clear(joined);
	while (at < len) {
		const char *nl = memchr(text + at, '\n', len - at);
		size_t end = nl ? (size_t)(nl - text) : len;
		size_t back = end, slashes = 0;

		while (back > at && text[back - 1] == '\r')
			back--;
		while (back - slashes > at && text[back - slashes - 1] == '\\')
			slashes++;
		if (!nl || slashes % 2 == 0) {
			buf_add(joined, text + at, end - at);
			return nl ? end + 1 : end;
		}
		buf_add(joined, text + at, back - 1 - at);
		at = end + 1;
	}
	return len;
}

/* Skips "[section "name"]", which may precede a key on the same line; a "]" in quotes does not end it. */
static size_t skip_section(const char *s, size_t len)
{
	bool quoted = false;
	size_t i = 0;

	while (i < len && is_config_space(s[i]))
		i++;
	if (i == len || s[i] != '[')
		return 0;
	for (; i < len; i++) {
		if (quoted && s[i] == '\\')
			i++;
		else if (s[i] == '"')
			quoted = !quoted;
		else if (s[i] == ']' && !quoted)
			return i + 1;
	}
	return 0;
}

/* The key of "  key = value" when it is one of the table: the length up to and with "=". */
static size_t secret_key_length(const struct buf *line)
{
	const char *s = buf_cstr(line);
	size_t i = skip_section(s, line->len), start, len;

	while (i < line->len && is_config_space(s[i]))
		i++;
	start = i;
	while (i < line->len && s[i] != '=' && !is_config_space(s[i]))
		i++;
	len = i - start;
	while (i < line->len && is_config_space(s[i]))
		i++;
	if (i >= line->len || s[i] != '=')
		return 0;
	for (size_t k = 0; k < ARRAY_SIZE(secret_keys); k++) {
		if (len == strlen(secret_keys[k]) && strncasecmp(s + start, secret_keys[k], len) == 0)
			return i + 1;
	}
	return 0;
}

/* user:password before an "@"; for http a user alone is usually a token. `ssh://git@host` stays. */
static bool is_credential(const char *scheme_end, const char *line, const char *user, size_t len)
{
	const char *s = scheme_end;

	if (memchr(user, ':', len))
		return true;
	while (s > line && ((s[-1] >= 'a' && s[-1] <= 'z') || (s[-1] >= 'A' && s[-1] <= 'Z')))
		s--;
	return strncasecmp(s, "http", 4) == 0;
}

/* Copies a line without the user part of each URL in it that is a credential. */
static bool redact_urls(const struct buf *line, struct buf *out)
{
	const char *s = buf_cstr(line), *end = s + line->len, *p = s;
	bool changed = false;

	for (;;) {
		const char *colon = memmem(p, (size_t)(end - p), "://", 3), *user, *stop, *sign;

		if (!colon)
			break;
		user = colon + 3;
		for (stop = user; stop < end && !strchr("/?#", *stop);)
			stop++;
		sign = memrchr(user, '@', (size_t)(stop - user));
		buf_add(out, p, (size_t)(user - p));
		p = user;
		if (sign && is_credential(colon, s, user, (size_t)(sign - user))) {
			buf_adds(out, REDACTED);
			p = sign;
			changed = true;
		}
	}
	buf_add(out, p, (size_t)(end - p));
	return changed;
}

/* A logical line without its credentials; false when it held none. URLs come first, since one may precede a key. */
static bool redact_line(const struct buf *line, struct buf *out)
{
	bool changed = redact_urls(line, out);
	size_t key = secret_key_length(out);

	if (!key)
		return changed;
	out->len = key;
	buf_adds(out, " " REDACTED);
	return true;
}

void secret_redact_git(const char *text, size_t len, struct buf *out, bool *ret_changed)
{
	autobuf struct buf line = BUF_INIT, clean = BUF_INIT;

	*ret_changed = false;
	for (size_t at = 0, next; at < len; at = next) {
		next = next_logical_line(text, len, at, &line);
		buf_clear(&clean);
		if (!redact_line(&line, &clean)) {
			buf_add(out, text + at, next - at);
			continue;
		}
		*ret_changed = true;
		buf_add(out, clean.data, clean.len);
		if (text[next - 1] == '\n')
			buf_addc(out, '\n');
	}
	if (buf_error(&line) || buf_error(&clean))
		out->error = -ENOMEM;
}
