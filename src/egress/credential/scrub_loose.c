/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strings that stand there otherwise than they are: some of their bytes escaped (scrub_escape.h), or base64 in lines. Each such
 * occurrence has a byte that says so (an anchor: %, &, a line break, a backslash), and before the first of these it is as the
 * string is. So anchors are looked for, which most data has few of; where what stands on both sides of one stands together
 * in some string, that string is compared.
 *
 * Two occurrences whose first anchors differ begin in the order of these: between them stands the first.
 */
#include "egress/credential/scrub_escape.h"
#include "egress/credential/scrub_int.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MORE (-1) /* it depends on what follows */

int scrub_set_add_loose(struct scrub_set *s, struct slice find, const char *put, enum scrub_kind kind)
{
	uint32_t n = s->n, joints = s->cap_joints + (uint32_t)find.len;
	struct scrub_joint *j;
	struct scrub_loose *v;
	int r = scrub_set_add(s, find, put);

	/* One that was there already was added so, too. */
	if (r < 0 || s->n == n || find.len > SCRUB_LOOSE_MAX)
		return r;
	v = reallocarray(s->loose, (size_t)s->n_loose + 1, sizeof(*v));
	s->loose = v ? v : s->loose;
	j = reallocarray(s->joints, joints, sizeof(*j));
	s->joints = j ? j : s->joints;
	if (!v || !j)
		return -ENOMEM;
	s->cap_joints = joints;
	v[s->n_loose++] = (struct scrub_loose){ .find = s->v[n].find,
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

static void add_joint(struct scrub_set *s, uint32_t loose, uint32_t k)
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
			add_joint(s, i, k);
	}
}

void scrub_loose_release(struct scrub_set *s)
{
	if (s->joints)
		explicit_bzero(s->joints, s->n_joints * sizeof(*s->joints));
	free(s->joints);
	free(s->loose);
}

/* A line break and what indents the next line: bytes, 0: none, MORE. */
static int break_at(const unsigned char *p, size_t left, bool last)
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

/* How many bytes stand for the string's byte k here: 0 when it is another, MORE. */
static int unit(const struct scrub_loose *v, const unsigned char *f, size_t k, const unsigned char *p,
		size_t left, bool last)
{
	size_t len;
	int n = 0, c;

	if (v->kind == SCRUB_LINES) {
		n = k && left ? break_at(p, left, last) : 0;
		if (n < 0 || (size_t)n == left)
			return last ? 0 : MORE;
		return p[n] == f[k] ? n + 1 : 0;
	}
	if (left == 0)
		return last ? 0 : MORE;
	c = scrub_escape_at(p, left, &len);
	if (c == f[k])
		return (int)len;
	/* Of %XX the first digit says enough. */
	if (c == SCRUB_ESCAPE_CUT && !last && !(left == 2 && p[0] == '%' && scrub_hex(p[1]) != f[k] >> 4))
		return MORE;
	return p[0] == f[k];
}

/* From the string's byte k on: where it ends; 0: it is another. */
static size_t end_of(const struct scrub_pass *s, const struct scrub_loose *v, size_t k, size_t at,
		     bool *ret_open)
{
	const unsigned char *f = scrub_text(s->set, v->find);

	for (; k < v->len; k++) {
		int n = unit(v, f, k, s->in + at, s->len - at, s->last);

		if (n <= 0) {
			*ret_open |= n == MORE;
			return 0;
		}
		at += (size_t)n;
	}
	return at;
}

/* Occurrences that have their first anchor at `at`, and begin from `from` on and before `end`. */
struct place {
	const struct scrub_pass *s;
	size_t at, from, end;
	struct scrub_hit *best;
};

/* Then the first is another. */
static bool has_anchor(const unsigned char *f, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (is_anchor(f[i]))
			return true;
	}
	return false;
}

/* One that begins k bytes before it. */
static void try(const struct place *x, const struct scrub_loose *v, size_t k)
{
	const struct scrub_pass *s = x->s;
	const unsigned char *f = scrub_text(s->set, v->find);
	struct scrub_hit *h = x->best;
	size_t at = x->at - k, end;
	bool open = false;

	if (k > x->at - x->from || at >= x->end || at > h->at || memcmp(s->in + at, f, k) != 0 ||
	    (s->set->has_anchors && has_anchor(f, k)))
		return;
	end = end_of(s, v, k, x->at, &open);
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

/* The anchor is cut off, so what it stands for is not known. */
static void try_all(const struct place *x)
{
	for (uint32_t i = 0; i < x->s->set->n_loose; i++) {
		const struct scrub_loose *v = &x->s->set->loose[i];

		for (size_t k = v->kind == SCRUB_LINES; k < v->len; k++)
			try(x, v, k);
	}
}

/* Those in which byte c follows what stands before the anchor. */
static void try_joints(const struct place *x, enum scrub_kind kind, unsigned char c)
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
			try(x, v, j->k);
	}
}

static bool has_bit(const uint64_t v[4], unsigned char c)
{
	return v[c / 64] >> (c % 64) & 1;
}

static void try_escaped(const struct place *x, unsigned char c)
{
	const struct scrub_set *set = x->s->set;

	if (!has_bit(set->escaped, c))
		return;
	for (uint32_t i = 0; has_bit(set->escaped_begins, c) && i < set->n_loose; i++) {
		if (set->loose[i].kind == SCRUB_ESCAPED && *scrub_text(set, set->loose[i].find) == c)
			try(x, &set->loose[i], 0);
	}
	try_joints(x, SCRUB_ESCAPED, c);
}

/* A line break, raw or as JSON has it, is the most frequent anchor, and no escape of a byte that is looked for. */
static bool is_only_break(const struct scrub_set *set, const unsigned char *p, size_t left)
{
	return p[0] == '\n' || p[0] == '\r' ||
	       (p[0] == '\\' && left > 1 && (p[1] == 'n' || p[1] == 'r') && !set->has_short);
}

static void try_at(const struct place *x)
{
	const struct scrub_pass *s = x->s;
	const unsigned char *p = s->in + x->at;
	size_t left = s->len - x->at, len;
	int c = is_only_break(s->set, p, left) ? -1 : scrub_escape_at(p, left, &len);
	int n = p[0] != '%' && p[0] != '&' && x->at > x->from ? break_at(p, left, s->last) : 0;

	if (!s->last && (c == SCRUB_ESCAPE_CUT || n == MORE || (n && (size_t)n == left))) {
		try_all(x);
	} else {
		if (c >= 0)
			try_escaped(x, (unsigned char)c);
		if (n > 0 && (size_t)n < left)
			try_joints(x, SCRUB_LINES, p[n]);
	}
	try_escaped(x, p[0]);
}

/* Which of eight bytes is the first that is not 0. */
static size_t first_byte(uint64_t v)
{
	return (size_t)__builtin_ctzll(htole64(v)) / 8;
}

typedef signed char block __attribute__((vector_size(16)));

static block load(const unsigned char *p)
{
	block b;

	memcpy(&b, p, sizeof(b));
	return b;
}

static block is_from_to(block b, signed char first, signed char last)
{
	return (block)((b >= first) & (b <= last));
}

/* Of the anchors those that may be one by what is beside them: a hex digit, base64, the letter of an escape. */
static block refine(const struct scrub_set *set, block b, block before, block behind)
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

/* The next place at which an anchor may stand, or s->len. */
static size_t next_anchor(const struct scrub_pass *s, size_t at)
{
	/* The very first has nothing before it. */
	if (at == 0 && s->len && !is_anchor(s->in[0]))
		at++;
	for (; at && at + sizeof(block) < s->len && !s->set->has_anchors; at += sizeof(block)) {
		const unsigned char *p = s->in + at;
		block is = refine(s->set, load(p), load(p - 1), load(p + 1));
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
	struct place x = { .s = s, .from = from, .end = end, .best = ret };

	*ret = (struct scrub_hit){ .at = end };
	for (x.at = next_anchor(s, from); x.at < most && ret->at == end; x.at = next_anchor(s, x.at + 1))
		try_at(&x);
}

void scrub_loose_strike(struct scrub_pass *s, const struct scrub_hit *h)
{
	static const char digits[] = "0123456789ABCDEF";
	const struct scrub_loose *v = h->loose;
	const unsigned char *f = scrub_text(s->set, v->find);
	const bool has_put = v->put != SCRUB_NO_PUT && h->at >= s->cover;
	size_t at = h->at;

	for (size_t k = 0; k < v->len; k++) {
		int n = unit(v, f, k, s->in + at, s->len - at, s->last);
		unsigned char c = has_put ? scrub_text(s->set, v->put)[k] : SCRUB_FILLER;
		const unsigned char *e = s->in + at;
		bool is_escaped = v->kind == SCRUB_ESCAPED && n > 1;

		at += (size_t)n;
		if (at <= s->cover)
			continue;
		if (is_escaped && has_put && (e[0] == '%' || e[1] == 'u' || e[1] == 'x')) {
			s->to[at - 2] = digits[c >> 4];
			s->to[at - 1] = digits[c & 15];
		} else if (is_escaped) {
			size_t from = at - (size_t)n > s->cover ? at - (size_t)n : s->cover;

			memset(s->to + from, SCRUB_FILLER, at - from);
		} else {
			s->to[at - 1] = (char)c;
		}
	}
	s->cover = at > s->cover ? at : s->cover;
}
