/* SPDX-License-Identifier: Apache-2.0 */
/* The lexer of GraphQL documents: one token per call, with a budget of tokens. Copies nothing. */
#include "codec/body/graphql_lex.h"

#include "base/hex.h"

static void token_is_malformed(struct gql_lex *l, const char *why)
{
	l->token = GQL_BAD;
	l->why = why;
}

static bool is_name_start(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_number_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* The byte n places after the current one; 0, which no valid document contains, past the end. */
static char peek(const struct gql_lex *l, size_t n)
{
	if (l->len - l->at <= n)
		return 0;
	return l->s[l->at + n];
}

static bool is_source(char c)
{
	return (unsigned char)c >= 0x20 || c == '\t' || c == '\n' || c == '\r';
}

static void skip_ignored(struct gql_lex *l)
{
	while (l->at < l->len) {
		char c = l->s[l->at];

		if (c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == ',') {
			l->at++;
		} else if (c == '#') {
			while (l->at < l->len && l->s[l->at] != '\n' && l->s[l->at] != '\r' &&
			       is_source(l->s[l->at]))
				l->at++;
		} else if (l->len - l->at >= 3 && memcmp(l->s + l->at, "\xef\xbb\xbf", 3) == 0) {
			l->at += 3;
		} else {
			return;
		}
	}
}

static size_t digits(struct gql_lex *l)
{
	size_t start = l->at;

	while (is_number_digit(peek(l, 0)))
		l->at++;
	return l->at - start;
}

static void take_number(struct gql_lex *l)
{
	bool zero, ok;

	l->at += peek(l, 0) == '-';
	zero = peek(l, 0) == '0';
	ok = zero ? digits(l) == 1 : digits(l) > 0;
	if (ok && peek(l, 0) == '.') {
		l->at++;
		ok = digits(l) > 0;
	}
	if (ok && (peek(l, 0) | 0x20) == 'e') {
		l->at++;
		l->at += peek(l, 0) == '+' || peek(l, 0) == '-';
		ok = digits(l) > 0;
	}
	if (!ok || is_name_start(peek(l, 0)) || peek(l, 0) == '.')
		token_is_malformed(l, "a number is malformed");
}

/* Takes the rest of an escape after "\u": four hex digits, or one to eight in braces. */
static bool take_unicode(struct gql_lex *l)
{
	bool braces = peek(l, 0) == '{';
	size_t n = 0;

	l->at += braces;
	while (n < (braces ? 8 : 4) && hex_digit(peek(l, 0)) >= 0) {
		l->at++;
		n++;
	}
	if (!braces)
		return n == 4;
	return n > 0 && peek(l, 0) == '}' && ++l->at;
}

static bool take_escape(struct gql_lex *l)
{
	char c = peek(l, 0);

	if (c == 0)
		return false;
	l->at++;
	if (c == 'u')
		return take_unicode(l);
	return strchr("\"\\/bfnrt", c);
}

static void take_string(struct gql_lex *l)
{
	for (l->at++; l->at < l->len; l->at++) {
		char c = l->s[l->at];

		if (c == '"') {
			l->at++;
			return;
		}
		if (c == '\n' || c == '\r' || !is_source(c))
			break;
		if (c == '\\') {
			l->at++;
			if (!take_escape(l)) {
				token_is_malformed(l, "a string has an invalid escape");
				return;
			}
			l->at--;
		}
	}
	token_is_malformed(l, "a string does not end on its line");
}

static void take_block_string(struct gql_lex *l)
{
	for (l->at += 3; l->at < l->len && is_source(l->s[l->at]); l->at++) {
		if (l->len - l->at >= 4 && memcmp(l->s + l->at, "\\\"\"\"", 4) == 0) {
			l->at += 3;
		} else if (l->len - l->at >= 3 && memcmp(l->s + l->at, "\"\"\"", 3) == 0) {
			l->at += 3;
			return;
		}
	}
	token_is_malformed(l, "a block string does not end");
}

static void take_name(struct gql_lex *l)
{
	while (is_name_start(peek(l, 0)) || is_number_digit(peek(l, 0)))
		l->at++;
}

static void take_next_token(struct gql_lex *l, char c)
{
	if (is_name_start(c)) {
		l->token = GQL_NAME;
		take_name(l);
	} else if (c == '-' || is_number_digit(c)) {
		l->token = GQL_NUMBER;
		take_number(l);
	} else if (c == '"') {
		l->token = GQL_STRING;
		if (peek(l, 1) == '"' && peek(l, 2) == '"')
			take_block_string(l);
		else
			take_string(l);
	} else if (c == '.' && peek(l, 1) == '.' && peek(l, 2) == '.') {
		l->token = GQL_SPREAD;
		l->at += 3;
	} else if (c && strchr("!$&():=@[]{|}", c)) {
		l->token = GQL_PUNCT;
		l->at++;
	} else {
		token_is_malformed(l, "an unexpected character");
	}
}

void gql_next(struct gql_lex *l)
{
	size_t start;

	if (l->token == GQL_BAD)
		return;
	skip_ignored(l);
	start = l->at;
	l->text = SLICE_NONE;
	if (l->at == l->len) {
		l->token = GQL_END;
		return;
	}
	if (l->left == 0) {
		l->too_many = true;
		token_is_malformed(l, "it has too many tokens");
		return;
	}
	l->left--;
	take_next_token(l, l->s[l->at]);
	l->text = (struct slice){ l->s + start, l->at - start };
}
