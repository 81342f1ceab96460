/* SPDX-License-Identifier: Apache-2.0 */
/* Recognises escapes of single bytes: percent, backslash, and HTML's numbers and names. Pure. */
#include "egress/credential/scrub_escape.h"

#include "base/cleanup.h"
#include "base/hex.h"

#include <stdbool.h>
#include <string.h>

#define NONE (-1)
#define CUT SCRUB_ESCAPE_CUT

/* Two hex digits at p[at]. */
static int hex_pair_at(const unsigned char *p, size_t left, size_t at, size_t *ret_len)
{
	int a = left > at ? hex_digit((char)p[at]) : CUT, b;

	if (a < 0)
		return a;
	b = left > at + 1 ? hex_digit((char)p[at + 1]) : CUT;
	*ret_len = at + 2;
	return b < 0 ? b : a << 4 | b;
}

/* Beyond ASCII a character is more than one byte. */
static int ascii_or_none(int c)
{
	return c < 0x80 ? c : NONE;
}

static int backslash_escape_at(const unsigned char *p, size_t left, size_t *ret_len)
{
	static const char letters[] = "\"'\\/bfnrt", values[] = "\"'\\/\b\f\n\r\t";
	const char *at;

	if (left < 2)
		return CUT;
	if (p[1] == 'x')
		return hex_pair_at(p, left, 2, ret_len);
	if (p[1] == 'u') {
		for (size_t i = 2; i < 4; i++) {
			if (i == left)
				return CUT;
			if (p[i] != '0')
				return NONE;
		}
		return ascii_or_none(hex_pair_at(p, left, 4, ret_len));
	}
	at = p[1] ? strchr(letters, p[1]) : NULL;
	*ret_len = 2;
	return at ? values[at - letters] : NONE;
}

static int html_number_at(const unsigned char *p, size_t left, size_t *ret_len)
{
	size_t at = 2, first;
	bool is_hex = left > 2 && (p[2] | 32) == 'x';
	unsigned c = 0;

	at += is_hex;
	for (first = at; at < left && at < SCRUB_ESCAPE_MAX; at++) {
		int digit = hex_digit((char)p[at]);

		if (digit < 0 || (!is_hex && digit > 9))
			break;
		c = c * (is_hex ? 16 : 10) + (unsigned)digit;
		if (c > 0x7f)
			return NONE;
	}
	if (at == SCRUB_ESCAPE_MAX)
		return NONE;
	if (at == left)
		return CUT;
	*ret_len = at + 1;
	return at > first && p[at] == ';' ? (int)c : NONE;
}

static const struct name {
	const char *name;
	char c;
} names[] = {
	{ "&amp;", '&' },    { "&lt;", '<' },	  { "&gt;", '>' },     { "&quot;", '"' },
	{ "&apos;", '\'' },  { "&plus;", '+' },	  { "&sol;", '/' },    { "&equals;", '=' },
	{ "&lowbar;", '_' }, { "&colon;", ':' },  { "&period;", '.' }, { "&comma;", ',' },
	{ "&semi;", ';' },   { "&excl;", '!' },	  { "&num;", '#' },    { "&dollar;", '$' },
	{ "&percnt;", '%' }, { "&lpar;", '(' },	  { "&rpar;", ')' },   { "&ast;", '*' },
	{ "&quest;", '?' },  { "&commat;", '@' }, { "&lsqb;", '[' },   { "&lbrack;", '[' },
	{ "&bsol;", '\\' },  { "&rsqb;", ']' },	  { "&rbrack;", ']' }, { "&Hat;", '^' },
	{ "&grave;", '`' },  { "&lcub;", '{' },	  { "&lbrace;", '{' }, { "&vert;", '|' },
	{ "&verbar;", '|' }, { "&rcub;", '}' },	  { "&rbrace;", '}' }, { "&AMP;", '&' },
	{ "&LT;", '<' },     { "&GT;", '>' },	  { "&QUOT;", '"' },   { "&NewLine;", '\n' },
	{ "&Tab;", '\t' },
};

static int html_name_at(const unsigned char *p, size_t left, size_t *ret_len)
{
	bool is_cut = false;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		size_t n;

		if (left > 1 && p[1] != (unsigned char)names[i].name[1])
			continue;
		n = strlen(names[i].name);
		if (memcmp(p, names[i].name, n < left ? n : left) != 0)
			continue;
		*ret_len = n;
		if (n <= left)
			return names[i].c;
		is_cut = true;
	}
	return is_cut ? CUT : NONE;
}

int scrub_escape_at(const unsigned char *p, size_t left, size_t *ret_len)
{
	switch (left ? p[0] : 0) {
	case '%':
		return hex_pair_at(p, left, 1, ret_len);
	case '\\':
		return backslash_escape_at(p, left, ret_len);
	case '&':
		return left > 1 && p[1] == '#' ? html_number_at(p, left, ret_len)
					       : html_name_at(p, left, ret_len);
	default:
		return NONE;
	}
}

size_t scrub_escape_letters(unsigned char c, char *out, size_t n, size_t max)
{
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if ((unsigned char)names[i].c != c || (n <= max && memchr(out, names[i].name[1], n)))
			continue;
		if (n < max)
			out[n] = names[i].name[1];
		n += n <= max;
	}
	return n;
}
