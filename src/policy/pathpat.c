/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matching by a bit-parallel automaton. A pattern is a list of tokens: a byte, "*" or "**". State i means that the first i
 * tokens have matched. A set of states is a bit string of at most PATHPAT_MAX + 1 bits, and one byte of text advances all of
 * them with a few shifts (pathpat.M1).
 */
#include "policy/pathpat.h"

#include "base/hex.h"
#include "codec/http/urlpath.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#define WORDS 4 /* for PATHPAT_MAX + 1 states */
#define STAR 256
#define DSTAR 257
#define SYMBOLS 258

_Static_assert(PATHPAT_MAX + 1 <= WORDS * 64, "a bit for each state");

struct bits {
	uint64_t w[WORDS];
};

struct machine {
	unsigned n;		 /* tokens */
	struct bits star, dstar; /* the tokens of that kind */
	uint16_t token[PATHPAT_MAX];
};

static void bit_set(struct bits *b, unsigned i)
{
	b->w[i / 64] |= UINT64_C(1) << (i % 64);
}

static bool bit_get(const struct bits *b, unsigned i)
{
	return b->w[i / 64] >> (i % 64) & 1;
}

/* Reads the byte at s[*at] and advances; in loose mode case-folded and decoded. */
static unsigned char next_byte(const char *s, size_t len, size_t *at, bool loose)
{
	unsigned char c = (unsigned char)s[(*at)++];

	if (!loose)
		return c;
	if (c == '%' && len - *at >= 2) {
		int v = hex_byte(s + *at);

		/* an encoded slash stays: the caller judges the path with real slashes separately */
		if (v >= 0 && v != '/') {
			c = (unsigned char)v;
			*at += 2;
		}
	}
	return (unsigned char)tolower(c);
}

/* Splits a pattern into tokens. */
static void machine_compile(const char *pattern, bool loose, struct machine *m)
{
	size_t len = strlen(pattern), at = 0;

	m->n = 0;
	m->star = m->dstar = (struct bits){ 0 };
	while (at < len && m->n < PATHPAT_MAX) {
		unsigned i = m->n++;

		if (pattern[at] != '*') {
			m->token[i] = next_byte(pattern, len, &at, loose);
		} else if (pattern[at + 1] == '*') {
			m->token[i] = DSTAR;
			bit_set(&m->dstar, i);
			at += 2;
		} else {
			m->token[i] = STAR;
			bit_set(&m->star, i);
			at++;
		}
	}
}

/* A star may match nothing: a state before it is also a state after it. No two stars are adjacent. */
static void machine_skip_stars(const struct machine *m, struct bits *d)
{
	uint64_t carry = 0;

	for (unsigned i = 0; i < WORDS; i++) {
		uint64_t go = d->w[i] & (m->star.w[i] | m->dstar.w[i]);

		d->w[i] |= go << 1 | carry;
		carry = go >> 63;
	}
}

/* Advances by one symbol: a byte, or (when a pattern is read as text) STAR or DSTAR. `lit` has the tokens
 * equal to that byte. */
static bool machine_step(const struct machine *m, struct bits *d, const struct bits *lit, unsigned symbol)
{
	uint64_t carry = 0, any = 0;

	for (unsigned i = 0; i < WORDS; i++) {
		uint64_t go = d->w[i] & lit->w[i], stay = d->w[i] & m->dstar.w[i];

		if (symbol != '/' && symbol != DSTAR)
			stay |= d->w[i] & m->star.w[i];
		d->w[i] = go << 1 | carry | stay;
		carry = go >> 63;
		any |= d->w[i];
	}
	if (any)
		machine_skip_stars(m, d);
	return any != 0;
}

static struct bits machine_start(const struct machine *m)
{
	struct bits d = { 0 };

	bit_set(&d, 0);
	machine_skip_stars(m, &d);
	return d;
}

/* The tokens equal to each byte, computed when the byte first occurs. */
struct lits {
	struct bits of[256];
	struct bits known; /* 256 bits */
};

static const struct bits *lits_of(struct lits *l, const struct machine *m, unsigned char c)
{
	if (!bit_get(&l->known, c)) {
		bit_set(&l->known, c);
		l->of[c] = (struct bits){ 0 };
		for (unsigned i = 0; i < m->n; i++) {
			if (m->token[i] == c)
				bit_set(&l->of[c], i);
		}
	}
	return &l->of[c];
}

/* A segment of the text: where the next slash is, and where the segment ends for servers that drop a suffix
 * of it. */
struct segment {
	size_t keep, end;
};

/* Finds the end of the segment at `at`, and where its ";parameters", trailing dots and spaces begin. */
static struct segment segment_at(struct slice t, size_t at)
{
	const char *slash = at < t.len ? memchr(t.p + at, '/', t.len - at) : NULL;
	struct segment s = { .end = slash ? (size_t)(slash - t.p) : t.len };
	size_t i = at;

	while (i < s.end && t.p[i] != ';' && !(s.end - i >= 3 && strncasecmp(t.p + i, "%3b", 3) == 0))
		i++;
	for (;;) {
		if (i > at && (t.p[i - 1] == '.' || t.p[i - 1] == ' '))
			i--;
		else if (i - at >= 3 && memcmp(t.p + i - 3, "%20", 3) == 0)
			i -= 3;
		else
			break;
	}
	s.keep = i;
	return s;
}

/* Feeds the text to the automaton. `drop`: leaves out what segment_at() says some servers drop. */
static bool machine_run(const struct machine *m, struct slice text, bool loose, bool drop)
{
	/* Left uninitialised to save clearing it for each match: `known` says which elements are valid. */
	__attribute__((uninitialized)) struct lits l;
	struct segment seg = drop ? segment_at(text, 0) : (struct segment){ text.len, text.len };
	struct bits d = machine_start(m);

	l.known = (struct bits){ 0 };
	for (size_t at = 0; at < text.len;) {
		unsigned char c;

		if (at >= seg.keep && at < seg.end) {
			at = seg.end;
			continue;
		}
		c = next_byte(text.p, text.len, &at, loose);
		if (drop && c == '/')
			seg = segment_at(text, at);
		if (!machine_step(m, &d, lits_of(&l, m, c), c))
			return false;
	}
	return bit_get(&d, m->n);
}

/* The literal part before the first star decides most matches. */
static size_t literal_len(const char *pattern)
{
	return strcspn(pattern, "*");
}

static bool match_exactly(const char *pattern, struct slice text)
{
	size_t n = literal_len(pattern);
	struct machine m;

	if (text.len < n || (n && memcmp(pattern, text.p, n) != 0))
		return false;
	if (pattern[n] == '\0')
		return text.len == n;
	if (strcmp(pattern + n, "**") == 0)
		return true;
	machine_compile(pattern + n, false, &m);
	return machine_run(&m, (struct slice){ text.p + n, text.len - n }, false, false);
}

/*
 * Most patterns differ from most texts before their first star or after their last. True only if they differ in plain
 * letters: if the text is encoded or has parameters, all of it must be examined.
 */
static bool differs_plainly(const char *pattern, struct slice text)
{
	size_t n = strlen(pattern), head = literal_len(pattern), tail = 0;

	if (memchr(pattern, '%', n) || memchr(text.p, '%', text.len) || memchr(text.p, ';', text.len) ||
	    memmem(text.p, text.len, "./", 2) || text.p[text.len - 1] == '.')
		return false;
	if (text.len < head || strncasecmp(pattern, text.p, head) != 0)
		return true;
	if (head == n)
		return text.len > n + 1 || (text.len == n + 1 && text.p[n] != '/');
	while (pattern[n - tail - 1] != '*')
		tail++;
	if (tail && pattern[n - 1] != '/' && text.p[text.len - 1] == '/')
		text.len--;
	return text.len < tail || strncasecmp(pattern + n - tail, text.p + text.len - tail, tail) != 0;
}

bool pathpat_match(const char *pattern, struct slice text, unsigned flags)
{
	struct machine m;

	/* In loose mode, too: a star may begin within text that, read loosely, is one encoded byte. */
	if (match_exactly(pattern, text))
		return true;
	if (!(flags & PATHPAT_LOOSE))
		return false;
	if (text.len && differs_plainly(pattern, text))
		return false;
	machine_compile(pattern, true, &m);
	if (machine_run(&m, text, true, false))
		return true;
	if (text.len > 1 && text.p[text.len - 1] == '/')
		text.len--;
	return machine_run(&m, text, true, true);
}

bool pathpat_covers(const char *outer, const char *inner)
{
	struct machine m, in;
	struct bits d;

	machine_compile(outer, true, &m);
	machine_compile(inner, true, &in);
	d = machine_start(&m);
	for (unsigned i = 0; i < in.n; i++) {
		struct bits lit = { 0 };

		for (unsigned k = 0; k < m.n; k++) {
			if (in.token[i] < 256 && m.token[k] == in.token[i])
				bit_set(&lit, k);
		}
		if (!machine_step(&m, &d, &lit, in.token[i]))
			return false;
	}
	return bit_get(&d, m.n);
}

bool pathpat_has_star(const char *pattern)
{
	return pattern[literal_len(pattern)] != '\0';
}

int pathpat_check_stars(const char *s, size_t len, struct err *e)
{
	if (len == 0)
		return err_set(e, -EINVAL, "a pattern is missing");
	if (len > PATHPAT_MAX)
		return err_set(e, -EINVAL, "the pattern is longer than %d bytes", PATHPAT_MAX);
	if (memmem(s, len, "***", 3))
		return err_set(e, -EINVAL,
			       "three stars in a row are not a valid pattern; * stops at /, ** does not");
	return 0;
}

int pathpat_check(const char *s, size_t len, struct err *e)
{
	autobuf struct buf canon = BUF_INIT;
	struct urlpath u;
	int r = pathpat_check_stars(s, len, e);

	if (r < 0)
		return r;
	if (s[0] != '/')
		return err_set(e, -EINVAL, "a path begins with /; all paths are /**");
	if (memchr(s, '?', len))
		return err_set(e, -EINVAL, "a rule matches the path only; the query after ? cannot be named");
	r = urlpath_canon(s, len, URLPATH_KEEP_SLASH, &canon, &u, e);
	if (r < 0)
		return r;
	if (canon.len != len || memcmp(canon.data, s, len) != 0)
		return err_set(e, -EINVAL, "a rule is compared with the canonical path; write %s",
			       buf_cstr(&canon));
	return 0;
}

void pathpat_sample(const char *pattern, const char *fill, struct buf *out)
{
	for (const char *p = pattern; *p; p++) {
		if (*p != '*') {
			buf_addc(out, *p);
			continue;
		}
		buf_adds(out, fill);
		p += p[1] == '*';
	}
}
