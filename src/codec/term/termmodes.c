/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows the terminal modes that a program sets, from its output, so that they can be restored. Recognises only the
 * modes of its table; every other sequence is ignored.
 */
#include "codec/term/termmodes.h"

#include <assert.h>
#include <string.h>

enum { GROUND, ESCAPE, SEQUENCE, STRING, STRING_ESCAPE };

/*
 * DEC private modes that full-screen programs use, and their defaults. The modes of the alternate screen are first,
 * so that termmodes_restore() switches the screen before it sets modes that a terminal keeps for each screen.
 */
static const struct {
	uint16_t n;
	bool is_default;
} modes[] = {
	{ 1049, false }, { 1047, false }, { 47, false },   { 1, false },    { 5, false },
	{ 7, true },	 { 25, true },	  { 9, false },	   { 1000, false }, { 1002, false },
	{ 1003, false }, { 1004, false }, { 1005, false }, { 1006, false }, { 1007, false },
	{ 1015, false }, { 1016, false }, { 2004, false }, { 2031, false },
};
static_assert(ARRAY_SIZE(modes) <= 32, "a bit for each");

static void set_mode(struct termmodes *t, unsigned n, bool on)
{
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		if (modes[i].n != n)
			continue;
		if (on == modes[i].is_default)
			t->changed &= ~(1u << i);
		else
			t->changed |= 1u << i;
	}
}

/* The next number of a list; false at its end. */
static bool next_number(const char **p, unsigned *ret)
{
	unsigned n = 0;

	if (!**p)
		return false;
	for (; **p >= '0' && **p <= '9'; ++*p)
		n = n < 100000 ? n * 10 + (unsigned)(**p - '0') : n;
	if (**p)
		++*p;
	*ret = n;
	return true;
}

static void set_kitty(struct termmodes *t, unsigned flags)
{
	if (t->n_kitty == 0)
		t->n_kitty = 1;
	t->kitty[t->n_kitty - 1] = (uint8_t)(flags & 31);
}

/*
 * Kitty's keyboard protocol: CSI > flags u pushes flags on a stack, CSI < n u pops n, CSI = flags u replaces the top.
 */
static void take_keys(struct termmodes *t, const char *p)
{
	unsigned n = 0;
	bool any = next_number(&p, &n);

	if (t->held[0] == '<') {
		n = any && n ? n : 1;
		t->n_kitty = (uint8_t)(n < t->n_kitty ? t->n_kitty - n : 0);
		return;
	}
	if (t->held[0] == '>' && t->n_kitty < TERMMODES_KITTY)
		t->n_kitty++;
	set_kitty(t, n);
}

/* Takes a complete control sequence: CSI, the bytes in `held`, and its final byte. */
static void take_sequence(struct termmodes *t, char final)
{
	const char *p;
	unsigned n = 0;

	t->held[t->n_held] = '\0';
	if (!t->n_held)
		return;
	p = t->held + 1;
	if (final == 'u' && strchr("<>=", t->held[0])) {
		take_keys(t, p);
	} else if (t->held[0] == '?' && (final == 'h' || final == 'l')) {
		while (next_number(&p, &n))
			set_mode(t, n, final == 'h');
	} else if (t->held[0] == '>' && final == 'm' && next_number(&p, &n) && n == 4) {
		n = 0;
		(void)next_number(&p, &n);
		t->keys = (uint8_t)(n <= 3 ? n : 0);
	}
}

static void in_escape(struct termmodes *t, unsigned char c)
{
	t->at = GROUND;
	if (c == '[') {
		t->at = SEQUENCE;
		t->n_held = 0;
	} else if (c == ']' || c == 'P' || c == 'X' || c == '^' || c == '_') {
		t->at = STRING;
	} else if (c == '=' || c == '>') {
		t->keypad = c == '=';
	} else if (c == 'c') {
		*t = TERMMODES_INIT;
	} else if (c == 0x1b) {
		t->at = ESCAPE;
	}
}

static void in_sequence(struct termmodes *t, unsigned char c)
{
	if (c >= 0x40 && c <= 0x7e) {
		/* A sequence that does not fit `held` is none of the known ones. */
		if (t->n_held < sizeof(t->held) - 1)
			take_sequence(t, (char)c);
		t->at = GROUND;
	} else if (c == 0x1b) {
		t->at = ESCAPE;
	} else if (c == 0x18 || c == 0x1a) {
		t->at = GROUND;
	} else if (c >= 0x20 && t->n_held < sizeof(t->held) - 1) {
		t->held[t->n_held++] = (char)c;
	}
}

static void take_terminal_byte(struct termmodes *t, unsigned char c)
{
	switch (t->at) {
	case ESCAPE:
		in_escape(t, c);
		break;
	case SEQUENCE:
		in_sequence(t, c);
		break;
	case STRING:
		if (c == 0x1b)
			t->at = STRING_ESCAPE;
		else if (c == 0x07 || c == 0x18 || c == 0x1a)
			t->at = GROUND;
		break;
	case STRING_ESCAPE:
		t->at = ESCAPE;
		in_escape(t, c == '\\' ? 0 : c);
		break;
	default:
		if (c == 0x1b)
			t->at = ESCAPE;
	}
}

void termmodes_feed(struct termmodes *t, const void *data, size_t len)
{
	const unsigned char *p = data, *end = p + len;

	while (p < end) {
		/* Most output is text: skip to the next escape. */
		if (t->at == GROUND) {
			p = memchr(p, 0x1b, (size_t)(end - p));
			if (!p)
				return;
		}
		take_terminal_byte(t, *p++);
	}
}

bool termmodes_is_default(const struct termmodes *t)
{
	return !t->changed && !t->keypad && !t->keys && !(t->n_kitty && t->kitty[t->n_kitty - 1]);
}

void termmodes_restore(const struct termmodes *t, struct buf *out)
{
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		if (t->changed & (1u << i))
			buf_addf(out, "\033[?%u%c", modes[i].n, modes[i].is_default ? 'l' : 'h');
	}
	if (t->keypad)
		buf_adds(out, "\033=");
	if (t->keys)
		buf_addf(out, "\033[>4;%um", t->keys);
	if (t->n_kitty && t->kitty[t->n_kitty - 1])
		buf_addf(out, "\033[=%u;1u", t->kitty[t->n_kitty - 1]);
}
