/* SPDX-License-Identifier: Apache-2.0 */
/* Reads .env files in place (envfile.h). Expands nothing, and no value ever appears in a message. */

#include "vault/common/envfile.h"

#include <errno.h>
#include <string.h>

void envfile_init(struct envfile *f, char *text, size_t len)
{
	*f = (struct envfile){ .p = text, .end = text + len, .line = 1 };
	if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
		f->p += 3;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static void skip_blanks(struct envfile *f)
{
	while (f->p < f->end && is_blank(*f->p))
		f->p++;
}

static void skip_line(struct envfile *f)
{
	char *nl = memchr(f->p, '\n', (size_t)(f->end - f->p));

	f->p = nl ? nl + 1 : f->end;
	f->line++;
}

static bool is_variable_char(char c, bool first)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
	       (!first && c >= '0' && c <= '9');
}

static bool is_keyword_next(const struct envfile *f, const char *word)
{
	size_t n = strlen(word);

	return (size_t)(f->end - f->p) > n && memcmp(f->p, word, n) == 0 && is_blank(f->p[n]);
}

/* Parses `[export] NAME =`. */
static int parse_name(struct envfile *f, struct envfile_entry *ret, struct err *e)
{
	size_t n = 0;

	if (is_keyword_next(f, "export")) {
		f->p += strlen("export");
		skip_blanks(f);
	}
	while (f->p + n < f->end && is_variable_char(f->p[n], n == 0))
		n++;
	if (n == 0)
		return err_set(e, -EINVAL, "line %u: expected NAME=value", f->line);
	if (n > ENVFILE_NAME_MAX)
		return err_set(e, -EINVAL, "line %u: a name has at most %d characters", f->line,
			       ENVFILE_NAME_MAX);
	memcpy(ret->name, f->p, n);
	ret->name[n] = '\0';
	f->p += n;
	skip_blanks(f);
	if (f->p == f->end || *f->p != '=')
		return err_set(e, -EINVAL, "line %u: expected '=' after %s", f->line, ret->name);
	f->p++;
	skip_blanks(f);
	return 0;
}

/* After a closing quote only blanks and a comment may follow. */
static int finish_quoted(struct envfile *f, struct err *e)
{
	skip_blanks(f);
	if (f->p < f->end && *f->p == '\r')
		f->p++;
	if (f->p < f->end && *f->p != '\n' && *f->p != '#')
		return err_set(e, -EINVAL, "line %u: unexpected text after the closing quote", f->line);
	skip_line(f);
	return 0;
}

static char unescape_char(char c)
{
	switch (c) {
	case 'n':
		return '\n';
	case 'r':
		return '\r';
	case 't':
		return '\t';
	default:
		return c;
	}
}

/* Decodes a quoted value in place; it may span lines. */
static int parse_quoted(struct envfile *f, struct envfile_entry *ret, struct err *e)
{
	char quote = *f->p++, *to = f->p;

	ret->value = f->p;
	for (; f->p < f->end && *f->p != quote; f->p++) {
		if (quote == '"' && *f->p == '\\' && f->p + 1 < f->end && strchr("nrt\"\\$", f->p[1]) &&
		    f->p[1])
			*to++ = unescape_char(*++f->p);
		else
			*to++ = *f->p;
		f->line += *f->p == '\n';
	}
	if (f->p == f->end)
		return err_set(e, -EINVAL, "line %u: a quote is never closed", ret->line);
	ret->len = (size_t)(to - ret->value);
	f->p++;
	return finish_quoted(f, e);
}

/* A bare value ends at the end of the line, or at a # that follows a blank. */
static void parse_bare(struct envfile *f, struct envfile_entry *ret)
{
	size_t n = 0;

	ret->value = f->p;
	while (f->p + n < f->end && f->p[n] != '\n' && !(f->p[n] == '#' && (n == 0 || is_blank(f->p[n - 1]))))
		n++;
	while (n > 0 && (is_blank(f->p[n - 1]) || f->p[n - 1] == '\r'))
		n--;
	ret->len = n;
	f->p += n;
	skip_line(f);
}

int envfile_next(struct envfile *f, struct envfile_entry *ret, struct err *e)
{
	int r;

	for (;;) {
		skip_blanks(f);
		if (f->p == f->end)
			return 0;
		if (*f->p != '#' && *f->p != '\n' && *f->p != '\r')
			break;
		skip_line(f);
	}
	ret->line = f->line;
	r = parse_name(f, ret, e);
	if (r < 0)
		return r;
	if (f->p < f->end && (*f->p == '"' || *f->p == '\''))
		r = parse_quoted(f, ret, e);
	else
		parse_bare(f, ret);
	return r < 0 ? r : 1;
}
