/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Credentials without a prefix of their own: keys after a well-known name (aws_secret_access_key = …, AccountKey=…), a bot's
 * token of three parts, a webhook URL, a password in a URL. Each test is as strict as the vendor's format: a file in which
 * one is found is held back.
 */
#include "base/cleanup.h"
#include "vault/common/shape_int.h"

#include <sodium.h>
#include <string.h>
#include <strings.h>

static const struct shape aws_secret = { NULL, "an AWS secret key", "AWS_SECRET_ACCESS_KEY", NULL };
static const struct shape azure_key = { NULL, "an Azure storage key", NULL, NULL };
static const struct shape discord = { NULL, "a Discord bot's token", "DISCORD_TOKEN", "discord.com" };
static const struct shape slack_hook = { NULL, "a Slack webhook", NULL, "hooks.slack.com" };
static const struct shape url_password = { NULL, "a password in a URL", NULL, NULL };

static bool is_text_alnum(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* The number of characters that are letters, digits or in `more`; at most `most` + 1. */
static size_t alnum_span(const char *s, size_t len, const char *more, size_t most)
{
	size_t n = 0;

	while (n < len && n <= most && s[n] && (is_text_alnum(s[n]) || strchr(more, s[n])))
		n++;
	return n;
}

static bool begins_with(const char *s, size_t len, const char *with)
{
	size_t n = strlen(with);

	return len >= n && memcmp(s, with, n) == 0;
}

/* The length of the separator between a name and its value: blanks, quotes and one = or :, as in shells, YAML
 * and JSON. 0: none. */
static size_t assignment_at(const char *s, size_t len)
{
	size_t n = 0;
	bool sign = false;

	while (n < len && n < 16 && s[n] && strchr(" \t\"'=:", s[n])) {
		if ((s[n] == '=' || s[n] == ':') && sign)
			return 0;
		sign = sign || s[n] == '=' || s[n] == ':';
		n++;
	}
	return sign ? n : 0;
}

#define AWS_LEN 40

/* A well-known name, an assignment, and exactly 40 characters. The length, 0: none. */
static size_t aws_secret_at(const char *s, size_t len)
{
	static const char *const names[] = { "aws_secret_access_key", "secretaccesskey",
					     "secret_access_key" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		size_t n = strlen(names[i]), gap;

		if (len < n || strncasecmp(s, names[i], n) != 0)
			continue;
		gap = assignment_at(s + n, len - n);
		n += gap;
		if (!gap || alnum_span(s + n, len - n, "/+", AWS_LEN) != AWS_LEN ||
		    shape_is_example(s + n, AWS_LEN))
			return 0;
		return n + AWS_LEN;
	}
	return 0;
}

#define AZURE_LEN 86

static size_t azure_key_at(const char *s, size_t len)
{
	static const char name[] = "AccountKey=";
	size_t n = sizeof(name) - 1;

	if (!begins_with(s, len, name) || alnum_span(s + n, len - n, "/+", AZURE_LEN) != AZURE_LEN ||
	    !begins_with(s + n + AZURE_LEN, len - n - AZURE_LEN, "==") || shape_is_example(s + n, AZURE_LEN))
		return 0;
	return n + AZURE_LEN + 2;
}

/* The first part is the bot's number in base64. */
static bool is_base64_number(const char *s, size_t len)
{
	unsigned char out[32];
	size_t n = 0;

	if (sodium_base642bin(out, sizeof(out), s, len, NULL, &n, NULL,
			      sodium_base64_VARIANT_URLSAFE_NO_PADDING) < 0)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (out[i] < '0' || out[i] > '9')
			return false;
	}
	return n >= 17 && n <= 20;
}

/* Three parts of known lengths with dots between. The length, 0: none. */
static size_t discord_token_at(const char *s, size_t len)
{
	static const struct {
		size_t least, most;
	} parts[] = { { 23, 28 }, { 6, 6 }, { 27, 38 } };
	size_t n = 0;

	if (!len || !strchr("MNO", *s))
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		size_t k = alnum_span(s + n, len - n, "_-", parts[i].most);

		if (k < parts[i].least || k > parts[i].most || (i == 0 && !is_base64_number(s, k)))
			return 0;
		n += k;
		if (i < 2 && (n >= len || s[n++] != '.'))
			return 0;
	}
	return n;
}

static size_t slack_webhook_at(const char *s, size_t len)
{
	static const char name[] = "https://hooks.slack.com/services/T";
	size_t n = sizeof(name) - 1, from = n;

	if (!begins_with(s, len, name))
		return 0;
	n += alnum_span(s + n, len - n, "", 16);
	if (!begins_with(s + n, len - n, "/B"))
		return 0;
	n += 2 + alnum_span(s + n + 2, len - n - 2, "", 16);
	if (!begins_with(s + n, len - n, "/"))
		return 0;
	n++;
	if (alnum_span(s + n, len - n, "", 32) < 20 || shape_is_example(s + from, n - from + 20))
		return 0;
	return n + alnum_span(s + n, len - n, "", 32);
}

size_t shape_text_at(const char *s, size_t len, const struct shape **ret)
{
	static const struct {
		size_t (*at)(const char *s, size_t len);
		const struct shape *shape;
	} all[] = { { aws_secret_at, &aws_secret },
		    { azure_key_at, &azure_key },
		    { discord_token_at, &discord },
		    { slack_webhook_at, &slack_hook } };

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		size_t n = all[i].at(s, len);

		if (n) {
			*ret = all[i].shape;
			return n;
		}
	}
	return 0;
}

/* --- a password in a URL ---------------------------------------------------------------------------------------------- */

#define USER_MAX 64
#define PASSWORD_MIN 8
#define PASSWORD_MAX 256

/* Characters of the userinfo part of a URL, without those of templates that are filled in later: ${X}, <x>,
 * {x}, %s, ****. */
static size_t userinfo_span(const char *s, size_t len, size_t most)
{
	size_t n = 0;

	while (n < len && n <= most && (unsigned char)s[n] > 0x20 && (unsigned char)s[n] < 0x7f &&
	       !strchr("\"'`<>{}\\^|/?#@:$*()[]", s[n]))
		n++;
	return n;
}

static bool has_example_word(const char *s, size_t len)
{
	static const char *const words[] = { "password", "passwd", "secret", "changeme", "postgres", "%s" };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		for (size_t k = 0; k + strlen(words[i]) <= len; k++) {
			if (strncasecmp(s + k, words[i], strlen(words[i])) == 0)
				return true;
		}
	}
	return false;
}

size_t shape_url_at(const char *s, size_t len, const struct shape **ret)
{
	size_t user, password, from;

	if (!begins_with(s, len, "://"))
		return 0;
	user = userinfo_span(s + 3, len - 3, USER_MAX);
	from = 3 + user + 1;
	if (user > USER_MAX || from >= len || s[from - 1] != ':')
		return 0;
	password = userinfo_span(s + from, len - from, PASSWORD_MAX);
	if (password < PASSWORD_MIN || password > PASSWORD_MAX || from + password + 1 >= len ||
	    s[from + password] != '@' ||
	    !(is_text_alnum(s[from + password + 1]) || s[from + password + 1] == '['))
		return 0;
	if (begins_with(s + from + password + 1, len - from - password - 1, "example") ||
	    has_example_word(s + from, password) || shape_is_example(s + from, password))
		return 0;
	*ret = &url_password;
	return from + password;
}
