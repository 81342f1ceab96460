/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes output of a sandbox harmless for a terminal: passes text and colours, and shows every other control sequence as
 * text. An incomplete sequence at the end of a piece is held until the next one. No sequence but a colour may reach the
 * terminal as it is.
 */
#include "codec/term/termsafe.h"

#include "base/str.h"

#include <string.h>

#define ESC 0x1b

enum seq { SEQ_MORE, SEQ_SGR, SEQ_OTHER };

static bool is_sgr_digit(char c)
{
	return c >= '0' && c <= '9';
}

/*
 * Judges the parameters of an SGR sequence, from p up to the 'm'. False for parameter 8, which hides text; the 8 of a
 * colour number (38;5;8, 48;2;8;8;8) is another one.
 */
static bool sgr_is_harmless(const char *p, const char *m)
{
	unsigned skip = 0;
	bool extended = false;

	while (p < m) {
		unsigned v = 0;

		for (; p < m && is_sgr_digit(*p); p++)
			v = v < 1000 ? v * 10 + (unsigned)(*p - '0') : v;
		p++;
		if (skip) {
			skip--;
		} else if (extended) {
			skip = v == 5 ? 1 : v == 2 ? 3 : 0;
			extended = false;
		} else if (v == 8) {
			return false;
		} else {
			extended = v == 38 || v == 48 || v == 58;
		}
	}
	return true;
}

static bool sgr_is_reset(const char *p, const char *m)
{
	return p == m || (m - p == 1 && *p == '0');
}

/* Classifies the sequence that begins with ESC at s; *ret_len is the length of an SGR sequence. */
static enum seq judge_escape(const char *s, size_t len, size_t *ret_len)
{
	if (len < 2)
		return SEQ_MORE;
	if (s[1] != '[')
		return SEQ_OTHER;
	for (size_t i = 2; i < len; i++) {
		if (s[i] == 'm') {
			*ret_len = i + 1;
			return sgr_is_harmless(s + 2, s + i) ? SEQ_SGR : SEQ_OTHER;
		}
		if (!is_sgr_digit(s[i]) && s[i] != ';')
			return SEQ_OTHER;
		if (i + 1 >= sizeof(((struct termsafe *)0)->held))
			return SEQ_OTHER;
	}
	return SEQ_MORE;
}

/* The number of bytes at the end of s that may be an incomplete UTF-8 character: 0 to 3. */
static size_t partial_utf8(const char *s, size_t len)
{
	for (size_t back = 1; back <= 3 && back <= len; back++) {
		unsigned char c = (unsigned char)s[len - back];

		if ((c & 0xc0) == 0x80)
			continue;
		if (c >= 0xc2 && c <= 0xf4)
			return back < (c < 0xe0 ? 2u : c < 0xf0 ? 3u : 4u) ? back : 0;
		return 0;
	}
	return 0;
}

static void add_span(struct buf *out, const char *s, size_t len)
{
	/* str_add_safe() would escape a carriage return, so it is passed separately. */
	while (len) {
		const char *cr = memchr(s, '\r', len);
		size_t n = cr ? (size_t)(cr - s) : len;

		str_add_safe(out, s, n, true);
		s += n;
		len -= n;
		if (cr) {
			buf_addc(out, '\r');
			s++;
			len--;
		}
	}
}

/* Writes s, but not an incomplete sequence or character at its end unless `last`. Returns the bytes it took. */
static size_t make_safe(struct termsafe *t, struct buf *out, const char *s, size_t len, bool last)
{
	size_t done = 0;

	while (done < len) {
		const char *esc = memchr(s + done, ESC, len - done);
		size_t span = esc ? (size_t)(esc - s) - done : len - done;
		size_t keep = esc || last ? 0 : partial_utf8(s + done, span);
		size_t seq_len = 0;
		enum seq q;

		add_span(out, s + done, span - keep);
		done += span - keep;
		if (!esc)
			return done;
		q = judge_escape(esc, len - done, &seq_len);
		if (q == SEQ_MORE && !last)
			return done;
		if (q == SEQ_SGR) {
			buf_add(out, esc, seq_len);
			t->coloured = !sgr_is_reset(esc + 2, esc + seq_len - 1);
			done += seq_len;
		} else {
			str_add_safe(out, esc, 1, false);
			done++;
		}
	}
	return done;
}

void termsafe_feed(struct termsafe *t, struct buf *out, const void *data, size_t len)
{
	const char *p = data;

	/* Complete the held sequence byte by byte: it is short, and rarely there. */
	while (t->n_held && len) {
		size_t took;

		BUG_ON(t->n_held >= sizeof(t->held));
		t->held[t->n_held++] = *p++;
		len--;
		took = make_safe(t, out, t->held, t->n_held, false);
		t->n_held -= took;
		memmove(t->held, t->held + took, t->n_held);
	}
	if (len) {
		size_t took = make_safe(t, out, p, len, false);

		BUG_ON(len - took >= sizeof(t->held));
		t->n_held = len - took;
		memcpy(t->held, p + took, t->n_held);
	}
}

void termsafe_finish(struct termsafe *t, struct buf *out)
{
	make_safe(t, out, t->held, t->n_held, true);
	t->n_held = 0;
	if (t->coloured)
		buf_adds(out, "\033[0m");
	t->coloured = false;
}
