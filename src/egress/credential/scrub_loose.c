/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strings that occur in another notation than their own: some of their bytes escaped (scrub_escape.h), or
 * base64 in lines. Each such occurrence has a byte that shows it (an anchor: %, &, a line break, a
 * backslash), and equals the string up to the first one. So the search looks for anchors, which are rare in
 * most data; where the bytes on both sides of one are adjacent in some string, that string is compared.
 *
 * Of two occurrences with different first anchors, the one with the earlier anchor begins earlier: that
 * anchor lies between their beginnings. Pure. No length may change (scrub.R1).
 */
#include "egress/credential/scrub_escape.h"
#include "egress/credential/scrub_int.h"

#include "base/hex.h"
#include "base/vec.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MORE (-1) /* more bytes are needed to tell */

int scrub_set_add_loose(struct scrub_set *s, struct slice find, const char *put, enum scrub_kind kind)
{
	uint32_t n = s->n, joints = s->cap_joints + (uint32_t)find.len;
	struct scrub_joint *j;
	int r = scrub_set_add(s, find, put);

	/* A string that was in the set already was added as loose, too. */
	if (r < 0 || s->n == n || find.len > SCRUB_LOOSE_MAX)
		return r;
	if (VEC_MORE(s->loose, s->n_loose, VEC_NO_MAX) < 0)
		return -ENOMEM;
	/* Not by base/vec.h: a string adds as many joints as it has bytes. */
	j = reallocarray(s->joints, joints, sizeof(*j));
	if (!j)
		return -ENOMEM;
	s->joints = j;
	s->cap_joints = joints;
	s->loose[s->n_loose++] = (struct scrub_loose){ .find = s->v[n].find,
						       .put = s->v[n].put,
						       .len = s->v[n].len,
						       .kind = (uint8_t)kind,
						       .tag = s->tag };
	return 0;
}

static bool is_anchor(unsigned char c)
{
	return c == '%' || c == '&' || c == '\n' || c == '\r' || c == '\\';
}

static void loose_add_joint(struct scrub_set *s, uint32_t loose, uint32_t k)
{
	const unsigned char *f = scrub_text(s, s->loose[loose].find);
	uint32_t *head = &s->joint[scrub_place(f[k - 1], f[k])];

	s->joints[s->n_joints] = (struct scrub_joint){ .loose = loose, .k = k, .next = *head };
	*head = ++s->n_joints;
}

void scrub_loose_ready(struct scrub_set *s)
{
	s->reach = s->max;
	s->n_joints = 0;
	s->n_letters = 0;
	s->has_slash = s->has_short = false;
	memset(s->joint, 0, sizeof(s->joint));
	memset(s->escaped, 0, sizeof(s->escaped));
	memset(s->escaped_begins, 0, sizeof(s->escaped_begins));
	for (uint32_t i = 0; i < s->n_loose; i++) {
		const struct scrub_loose *v = &s->loose[i];
		const unsigned char *f = scrub_text(s, v->find);
		uint32_t most = v->len * (v->kind == SCRUB_ESCAPED ? SCRUB_ESCAPE_MAX : SCRUB_BREAK_MAX + 1);

		s->has_lines |= v->kind == SCRUB_LINES;
		if (v->kind == SCRUB_ESCAPED)
			s->escaped_begins[f[0] / 64] |= 1ull << (f[0] % 64);
		for (uint32_t k = 0; k < v->len && v->kind == SCRUB_ESCAPED; k++) {
			s->escaped[f[k] / 64] |= 1ull << (f[k] % 64);
			s->has_anchors |= is_anchor(f[k]);
			s->has_slash |= f[k] == '/';
			if (s->n_letters <= sizeof(s->letters))
				s->n_letters = scrub_escape_letters(f[k], s->letters, s->n_letters,
								    sizeof(s->letters));
			s->has_short |= f[k] && strchr("\"'\\\b\f\n\r\t", f[k]);
		}
		s->reach = s->reach > most ? s->reach : most;
		for (uint32_t k = 1; k < v->len; k++)
			loose_add_joint(s, i, k);
	}
}

void scrub_loose_release(struct scrub_set *s)
{
	if (s->joints)
		explicit_bzero(s->joints, s->n_joints * sizeof(*s->joints));
	free(s->joints);
	free(s->loose);
}

/* A line break and the indentation of the next line: number of bytes, 0: none, MORE. */
static int line_break_at(const unsigned char *p, size_t left, bool last)
{
	size_t n = 0;

	while (n < SCRUB_BREAK_MAX && n < left) {
		if (p[n] == '\\' && n + 1 == left)
			return last ? (int)n : MORE;
		if (p[n] == '\r' || p[n] == '\n' || (n && (p[n] == ' ' || p[n] == '\t')))
			n++;
		else if (p[n] == '\\' && (p[n + 1] == 'n' || p[n + 1] == 'r') && n + 2 <= SCRUB_BREAK_MAX)
			n += 2;
		else
			break;
	}
	return (int)n;
}

/* How many bytes represent the string's byte k here: 0 when it is another byte, MORE. */
static int loose_unit_len(const struct scrub_loose *v, const unsigned char *f, size_t k,
			  const unsigned char *p, size_t left, bool last)
{
	size_t len;
	int n = 0, c;

	if (v->kind == SCRUB_LINES) {
		n = k && left ? line_break_at(p, left, last) : 0;
		if (n < 0 || (size_t)n == left)
			return last ? 0 : MORE;
		return p[n] == f[k] ? n + 1 : 0;
	}
	if (left == 0)
		return last ? 0 : MORE;
	c = scrub_escape_at(p, left, &len);
	if (c == f[k])
		return (int)len;
	/* The first digit of %XX may suffice to rule it out. */
	if (c == SCRUB_ESCAPE_CUT && !last &&
	    !(left == 2 && p[0] == '%' && hex_digit((char)p[1]) != f[k] >> 4))
		return MORE;
	return p[0] == f[k];
}

/* Where the string ends, from its byte k on; 0: it does not match. */
static size_t loose_end(const struct scrub_pass *s, const struct scrub_loose *v, size_t k, size_t at,
			bool *ret_open)
{
	const unsigned char *f = scrub_text(s->set, v->find);

	for (; k < v->len; k++) {
		int n = loose_unit_len(v, f, k, s->in + at, s->len - at, s->last);

		if (n <= 0) {
			*ret_open |= n == MORE;
			return 0;
		}
		at += (size_t)n;
	}
	return at;
}

/* Search for occurrences whose first anchor is `at` and which begin in [from, end). */
struct loose_place {
	const struct scrub_pass *s;
	size_t at, from, end;
	struct scrub_hit *best;
};

/* Then its first anchor would be an earlier one. */
static bool prefix_has_anchor(const unsigned char *f, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (is_anchor(f[i]))
			return true;
	}
	return false;
}

/* Tries an occurrence that begins k bytes before the anchor. */
static void loose_try(const struct loose_place *x, const struct scrub_loose *v, size_t k)
{
	const struct scrub_pass *s = x->s;
	const unsigned char *f = scrub_text(s->set, v->find);
	struct scrub_hit *h = x->best;
	size_t at = x->at - k, end;
	bool open = false;

	if (k > x->at - x->from || at >= x->end || at > h->at || memcmp(s->in + at, f, k) != 0 ||
	    (s->set->has_anchors && prefix_has_anchor(f, k)))
		return;
	end = loose_end(s, v, k, x->at, &open);
	if (!end && !open)
		return;
	if (at < h->at)
		*h = (struct scrub_hit){ .at = at };
	h->open |= open;
	if (end && (end - at > h->len || (end - at == h->len && v < h->loose))) {
		h->len = end - at;
		h->loose = v;
	}
}

/* The anchor is truncated, so its meaning is unknown: tries every string. */
static void loose_try_all(const struct loose_place *x)
{
	for (uint32_t i = 0; i < x->s->set->n_loose; i++) {
		const struct scrub_loose *v = &x->s->set->loose[i];

		for (size_t k = v->kind == SCRUB_LINES; k < v->len; k++)
			loose_try(x, v, k);
	}
}

/* Tries the strings in which byte c follows the byte before the anchor. */
static void loose_try_joints(const struct loose_place *x, enum scrub_kind kind, unsigned char c)
{
	const struct scrub_set *set = x->s->set;
	unsigned char before;

	if (x->at == x->from)
		return;
	before = x->s->in[x->at - 1];
	for (uint32_t i = set->joint[scrub_place(before, c)]; i; i = set->joints[i - 1].next) {
		const struct scrub_joint *j = &set->joints[i - 1];

		const struct scrub_loose *v = &set->loose[j->loose];
		const unsigned char *f = scrub_text(set, v->find) + j->k;

		if (v->kind == kind && f[-1] == before && f[0] == c)
			loose_try(x, v, j->k);
	}
}

static bool has_bit(const uint64_t v[4], unsigned char c)
{
	return v[c / 64] >> (c % 64) & 1;
}

static void loose_try_escaped(const struct loose_place *x, unsigned char c)
{
	const struct scrub_set *set = x->s->set;

	if (!has_bit(set->escaped, c))
		return;
	for (uint32_t i = 0; has_bit(set->escaped_begins, c) && i < set->n_loose; i++) {
		if (set->loose[i].kind == SCRUB_ESCAPED && *scrub_text(set, set->loose[i].find) == c)
			loose_try(x, &set->loose[i], 0);
	}
	loose_try_joints(x, SCRUB_ESCAPED, c);
}

/*
 * A line break, raw or as in JSON, is the most frequent anchor, and no escape of a byte that is searched for.
 */
static bool is_only_break(const struct scrub_set *set, const unsigned char *p, size_t left)
{
	return p[0] == '\n' || p[0] == '\r' ||
	       (p[0] == '\\' && left > 1 && (p[1] == 'n' || p[1] == 'r') && !set->has_short);
}

static void loose_try_anchor(const struct loose_place *x)
{
	const struct scrub_pass *s = x->s;
	const unsigned char *p = s->in + x->at;
	size_t left = s->len - x->at, len;
	int c = is_only_break(s->set, p, left) ? -1 : scrub_escape_at(p, left, &len);
	int n = p[0] != '%' && p[0] != '&' && x->at > x->from ? line_break_at(p, left, s->last) : 0;

	if (!s->last && (c == SCRUB_ESCAPE_CUT || n == MORE || (n && (size_t)n == left))) {
		loose_try_all(x);
	} else {
		if (c >= 0)
			loose_try_escaped(x, (unsigned char)c);
		if (n > 0 && (size_t)n < left)
			loose_try_joints(x, SCRUB_LINES, p[n]);
	}
	loose_try_escaped(x, p[0]);
}

/* Index of the first non-zero byte of eight. */
static size_t first_byte(uint64_t v)
{
	return (size_t)__builtin_ctzll(htole64(v)) / 8;
}

typedef signed char block __attribute__((vector_size(16)));

static block load_block(const unsigned char *p)
{
	block b;

	memcpy(&b, p, sizeof(b));
	return b;
}

static block is_from_to(block b, signed char first, signed char last)
{
	return (block)((b >= first) & (b <= last));
}

/* Keeps the anchors that are possible by their neighbours: a hex digit, base64, the letter of an escape. */
static block possible_anchors(const struct scrub_set *set, block b, block before, block behind)
{
	block hex = is_from_to(behind, '0', '9') | is_from_to(behind | 32, 'a', 'f');
	block base64 =
		is_from_to(before, '+', '9') | is_from_to(before | 32, 'a', 'z') | (block)(before == '_');
	block slash = (block)(b == '\\');
	block newline = (block)(b == '\n') | (block)(b == '\r') |
			(slash & ((block)(behind == 'n') | (block)(behind == 'r')));
	block escape = (block)(behind == 'u') | (block)(behind == 'x'), name = (block)(behind == '#');

	if (set->has_slash)
		escape |= (block)(behind == '/');
	if (set->has_short)
		escape |= is_from_to(behind | 32, 'a', 'z') | (block)(behind == '"') |
			  (block)(behind == '\'') | (block)(behind == '\\');
	if (set->n_letters > sizeof(set->letters))
		name |= is_from_to(behind | 32, 'a', 'z');
	for (size_t i = 0; i < set->n_letters && i < sizeof(set->letters); i++)
		name |= (block)(behind == set->letters[i]);
	return ((block)(b == '%') & hex) | (newline & base64) | (slash & escape) | ((block)(b == '&') & name);
}

/* The next place where an anchor may be, or s->len. */
static size_t next_anchor(const struct scrub_pass *s, size_t at)
{
	/* The very first byte has none before it. */
	if (at == 0 && s->len && !is_anchor(s->in[0]))
		at++;
	for (; at && at + sizeof(block) < s->len && !s->set->has_anchors; at += sizeof(block)) {
		const unsigned char *p = s->in + at;
		block is = possible_anchors(s->set, load_block(p), load_block(p - 1), load_block(p + 1));
		uint64_t v[2];

		memcpy(v, &is, sizeof(v));
		if (v[0] | v[1])
			return at + (v[0] ? first_byte(v[0]) : 8 + first_byte(v[1]));
	}
	while (at < s->len && !is_anchor(s->in[at]))
		at++;
	return at;
}

void scrub_loose_next(const struct scrub_pass *s, size_t from, size_t end, struct scrub_hit *ret)
{
	size_t most = end + s->set->max < s->len ? end + s->set->max : s->len;
	struct loose_place x = { .s = s, .from = from, .end = end, .best = ret };

	*ret = (struct scrub_hit){ .at = end };
	for (x.at = next_anchor(s, from); x.at < most && ret->at == end; x.at = next_anchor(s, x.at + 1))
		loose_try_anchor(&x);
}

void scrub_loose_strike(struct scrub_pass *s, const struct scrub_hit *h)
{
	const struct scrub_loose *v = h->loose;
	const unsigned char *f = scrub_text(s->set, v->find);
	const bool has_put = v->put != SCRUB_NO_PUT && h->at >= s->cover;
	size_t at = h->at;

	for (size_t k = 0; k < v->len; k++) {
		int n = loose_unit_len(v, f, k, s->in + at, s->len - at, s->last);
		unsigned char c = has_put ? scrub_text(s->set, v->put)[k] : SCRUB_FILLER;
		const unsigned char *e = s->in + at;
		bool is_escaped = v->kind == SCRUB_ESCAPED && n > 1;

		at += (size_t)n;
		if (at <= s->cover)
			continue;
		if (is_escaped && has_put && (e[0] == '%' || e[1] == 'u' || e[1] == 'x')) {
			s->to[at - 2] = HEX_UPPER[c >> 4];
			s->to[at - 1] = HEX_UPPER[c & 15];
		} else if (is_escaped) {
			size_t from = at - (size_t)n > s->cover ? at - (size_t)n : s->cover;

			memset(s->to + from, SCRUB_FILLER, at - from);
		} else {
			s->to[at - 1] = (char)c;
		}
	}
	s->cover = at > s->cover ? at : s->cover;
}
