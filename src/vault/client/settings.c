/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recognises names and texts of credentials, and removes them from JSON. settings_toml.c does the same for
 * TOML. When in doubt, a value counts as a credential. Pure. It is a filter, not a proof.
 */
#include "vault/client/settings.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "vault/common/shape.h"

#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define DEPTH_MAX 64
#define ASSIGNED_MAX 256 /* bytes of a value that are examined */
#define SETTINGS_VARIABLE "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"

bool settings_is_credential_file(const char *name)
{
	static const char *const never[] = {
		"auth.json",	  "*credentials*", "oauth*",   "google_accounts*",
		"auth-profiles*", ".env",	   ".env.*",   "*.env",
		"*.pem",	  "*.key",	   "*.p12",    "*.pfx",
		"id_*",		  ".netrc",	   ".npmrc",   ".git-credentials",
		"hosts.yml",	  "*token*",	   "*secret*", "*cookie*",
	};

	for (size_t i = 0; i < ARRAY_SIZE(never); i++) {
		if (fnmatch(never[i], name, FNM_CASEFOLD) == 0)
			return true;
	}
	return false;
}

static bool has_any_word(const char *s, size_t len, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		size_t k = strlen(words[i]);

		for (size_t at = 0; at + k <= len; at++) {
			if (memcmp(s + at, words[i], k) == 0)
				return true;
		}
	}
	return false;
}

static bool ends_with(const char *s, size_t len, const char *end)
{
	size_t n = strlen(end);

	return len >= n && strncasecmp(s + len - n, end, n) == 0;
}

/* dbPass, storageKey: a separate word at the end, in camel case. */
static bool ends_in_word(const char *s, size_t len, const char *word)
{
	size_t n = strlen(word);

	return len > n && memcmp(s + len - n, word, n) == 0 && islower((unsigned char)s[len - n - 1]);
}

/* Does the name end like that of a credential? */
static bool ends_like_credential(const char *name, size_t len)
{
	static const char *const ends[] = { "_key",  "-key", "_pat", "-pat",  "_pass",
					    "-pass", "_pwd", "-pwd", "_auth", "-auth" };
	static const char *const words[] = { "Key", "Pat", "Pass", "Pwd" };

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		if (ends_with(name, len, ends[i]))
			return true;
	}
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (ends_in_word(name, len, words[i]))
			return true;
	}
	return len == 4 && strncasecmp(name, "pass", 4) == 0;
}

/* A name of a variable is not a credential. */
static bool names_variable(const char *name, size_t len)
{
	return ends_with(name, len, "env_var") || ends_with(name, len, "env_key") ||
	       ends_with(name, len, "envVar");
}

bool settings_is_headers_name(const char *name, size_t len)
{
	/* env_http_headers maps headers to names of variables. */
	return ends_with(name, len, "headers") && !ends_with(name, len, "env_http_headers");
}

bool settings_is_header_value(const char *s, size_t len)
{
	size_t n = 0;
	bool digit = false;

	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)s[i];

		if (!isalnum(c) && c != '+' && c != '/' && c != '_') {
			n = 0;
			digit = false;
			continue;
		}
		digit = digit || isdigit(c);
		if (++n >= 12 && digit)
			return true;
	}
	return false;
}

/* The letter in lower case, or the digit; 0 for any other character. */
static char lower_alnum(char c)
{
	if (c >= 'A' && c <= 'Z')
		return (char)(c - 'A' + 'a');
	return (char)((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ? c : 0);
}

/* The letters and digits of a name, as many as fit. */
static size_t normalize_name(const char *name, size_t len, char *out, size_t max)
{
	size_t n = 0;

	for (size_t i = 0; i < len && n < max; i++) {
		out[n] = lower_alnum(name[i]);
		n += out[n] != 0;
	}
	return n;
}

bool settings_is_credential_name(const char *name, size_t len)
{
	static const char *const words[] = { "apikey",	   "token",	 "secret",	  "passw",
					     "passphrase", "credential", "authorization", "oauth",
					     "cookie",	   "bearer",	 "privatekey",	  "accesskey",
					     "authheader", "authkey",	 "sessionkey" };
	char plain[128];
	size_t n = 0;

	if (names_variable(name, len))
		return false;
	if (ends_like_credential(name, len))
		return true;
	n = normalize_name(name, len, plain, sizeof(plain));
	/* A name too long to be searched counts as a credential's. */
	return n == sizeof(plain) || has_any_word(plain, n, words, ARRAY_SIZE(words));
}

/* ${NAME} or $NAME and nothing else. */
static bool is_variable_reference(const char *s, size_t len)
{
	bool braces = len > 3 && s[1] == '{' && s[len - 1] == '}';
	size_t i = braces ? 2 : 1, end = braces ? len - 1 : len;

	if (len < 2 || s[0] != '$')
		return false;
	for (; i < end; i++) {
		if (!isalnum((unsigned char)s[i]) && s[i] != '_')
			return false;
	}
	return true;
}

static bool is_small_number(const char *s, size_t len)
{
	size_t n = 0;

	while (n < len && isdigit((unsigned char)s[n]))
		n++;
	return len > 0 && n == len && len <= 8;
}

static bool has_digit(const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (isdigit((unsigned char)s[i]))
			return true;
	}
	return false;
}

static bool is_value_char(char c)
{
	return isalnum((unsigned char)c) || (c && strchr("+/=._~-", c));
}

/* Is there a value after such a word? Something must separate the two, unless the word ends in a sign. */
static bool has_value_after(const char *s, size_t len, bool sign, bool strict)
{
	const bool needs_gap = !sign;
	size_t i = 0, n = 0;

	for (; i < len && s[i] && strchr("\"':= \t", s[i]); i++)
		sign = sign || s[i] == '=' || s[i] == ':';
	if ((needs_gap && i == 0) || (strict && !sign))
		return false;
	/* Bounded, because this runs for each word of a text, and a value may contain all of these words. */
	while (n < ASSIGNED_MAX && i + n < len && is_value_char(s[i + n]))
		n++;
	/* Words of prose have no digits. */
	return n >= (strict ? 16 : 8) && has_digit(s + i, n);
}

/*
 * "Bearer abcdefgh", "token=abcdefgh", "--api-key abcdefgh" within a line: a word, then a value that is not a variable. In prose
 * (`strict`) a sign must separate the two, and the value must be longer.
 */
static bool has_assignment(const char *s, size_t len, bool strict)
{
	static const char *const words[] = {
		"bearer",	 "token",   "password", "passwd",     "secret",	   "apikey",
		"api-key",	 "api_key", "pwd",	"accountkey", "accesskey", "access_key",
		"authorization", "?key=",   "&key=",	"?sig=",      "&sig=",	   "basic"
	};
	const size_t n_words = ARRAY_SIZE(words) - (strict ? 1 : 0);

	for (size_t w = 0; w < n_words; w++) {
		size_t k = strlen(words[w]);
		bool has_sign = words[w][k - 1] == '=';

		for (size_t at = 0; at + k < len; at++) {
			size_t i = at + k;

			if (strncasecmp(s + at, words[w], k) != 0)
				continue;
			if (has_value_after(s + i, len - i, has_sign, strict))
				return true;
		}
	}
	return false;
}

bool settings_is_credential_text(const char *text, size_t len)
{
	struct shape_hit h;

	return shape_find(text, len, 0, &h) || has_assignment(text, len, false);
}

/* --- JSON --------------------------------------------------------------------------------------------------------- */

static bool is_plain_json(const json_t *v)
{
	if (json_is_string(v))
		return is_variable_reference(json_string_value(v), json_string_length(v)) ||
		       is_small_number(json_string_value(v), json_string_length(v));
	return !json_is_object(v) && !json_is_array(v);
}

static bool is_credential_string(const json_t *v)
{
	return json_is_string(v) && settings_is_credential_text(json_string_value(v), json_string_length(v));
}

/* "--api-key": the next argument is a credential. "--api-key=x" is one itself, and so is "API_KEY=x". */
static bool is_credential_argument(const json_t *v, bool *ret_whole)
{
	const char *s = json_is_string(v) ? json_string_value(v) : "";
	size_t n = strcspn(s, "="), rest = strlen(s + n);

	*ret_whole = s[n] == '=';
	if (s[0] == '-')
		return settings_is_credential_name(s, n) || (n == 8 && memcmp(s, "--header", 8) == 0);
	return rest > 1 && strspn(s, SETTINGS_VARIABLE) == n && settings_is_credential_name(s, n) &&
	       !is_variable_reference(s + n + 1, rest - 1) && !is_small_number(s + n + 1, rest - 1);
}

// NOLINTNEXTLINE(misc-no-recursion): no deeper than DEPTH_MAX
static int clean_value(json_t *v, bool headers, unsigned depth, size_t *left_out);

// NOLINTNEXTLINE(misc-no-recursion): clean_value() bounds it
static int clean_array(json_t *v, unsigned depth, size_t *left_out)
{
	for (size_t i = 0; i < json_array_size(v);) {
		json_t *item = json_array_get(v, i);
		bool whole = false, option = is_credential_argument(item, &whole);
		int r;

		if (option || is_credential_string(item)) {
			json_array_remove(v, i);
			if (option && !whole && json_is_string(json_array_get(v, i)))
				json_array_remove(v, i);
			++*left_out;
			continue;
		}
		r = clean_value(item, false, depth, left_out);
		if (r < 0)
			return r;
		i++;
	}
	return 0;
}

static bool is_credential_header(const json_t *v)
{
	return json_is_string(v) && settings_is_header_value(json_string_value(v), json_string_length(v));
}

/* `headers`: its members are request headers, any of which may be a credential. */
// NOLINTNEXTLINE(misc-no-recursion): clean_value() bounds it
static int clean_object(json_t *v, bool headers, unsigned depth, size_t *left_out)
{
	const char *key;
	json_t *item;
	void *next;

	json_object_foreach_safe(v, next, key, item)
	{
		int r;

		if ((settings_is_credential_name(key, strlen(key)) && !is_plain_json(item)) ||
		    ((headers || settings_is_headers_name(key, strlen(key))) && is_credential_header(item)) ||
		    is_credential_string(item) || settings_is_credential_text(key, strlen(key))) {
			json_object_del(v, key);
			++*left_out;
			continue;
		}
		r = clean_value(item, settings_is_headers_name(key, strlen(key)), depth, left_out);
		if (r < 0)
			return r;
	}
	return 0;
}

// NOLINTNEXTLINE(misc-no-recursion): no deeper than DEPTH_MAX
static int clean_value(json_t *v, bool headers, unsigned depth, size_t *left_out)
{
	if (depth == DEPTH_MAX)
		return -EBADMSG;
	if (json_is_object(v))
		return clean_object(v, headers, depth + 1, left_out);
	return json_is_array(v) ? clean_array(v, depth + 1, left_out) : 0;
}

static int append_dump(const char *text, size_t len, void *out)
{
	buf_add(out, text, len);
	return 0;
}

static int clean_json(const char *text, size_t len, struct buf *out, size_t *left_out, struct err *e)
{
	json_error_t why;
	json_t *v = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
	int r = v ? clean_value(v, false, 0, left_out) : -EBADMSG;

	if (r == 0 && json_dump_callback(v, append_dump, out, JSON_INDENT(2)) < 0)
		r = -ENOMEM;
	buf_addc(out, '\n');
	json_decref(v);
	if (!v)
		return err_set(e, -EBADMSG, "line %d is not JSON", why.line);
	return r < 0 ? err_set(e, r, r == -ENOMEM ? "out of memory" : "it is nested too deeply") : 0;
}

int settings_clean(const char *name, const char *text, size_t len, struct buf *out, size_t *ret_left_out,
		   struct err *e)
{
	struct shape_hit h;
	size_t left_out = 0;
	int r = 0;

	if (len > SETTINGS_FILE_MAX)
		return err_set(e, -EFBIG, "it is larger than %u KiB", SETTINGS_FILE_MAX >> 10);
	if (str_ends(name, ".json"))
		r = clean_json(text, len, out, &left_out, e);
	else if (str_ends(name, ".toml"))
		r = settings_clean_toml(text, len, out, &left_out, e);
	else if (shape_find(text, len, 0, &h))
		r = err_set(e, -EACCES, "there is %s in it", h.shape->what);
	else if (has_assignment(text, len, true))
		r = err_set(e, -EACCES, "there is a key, token or password in it");
	else
		buf_add(out, text, len);
	if (r == 0 && buf_error(out))
		r = err_set(e, -ENOMEM, "out of memory");
	*ret_left_out = left_out;
	return r;
}
