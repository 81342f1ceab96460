/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Myers' greedy algorithm on lines: for each number of edits d, how far down the grid each diagonal k gets. The
 * rows of all d are kept, d + 1 numbers each, to walk the way back; that is what TEXTDIFF_EDITS_MAX bounds (about 2 MiB).
 * Pure.
 */
#include "workspace/change/textdiff.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "base/vec.h"

#include <errno.h>
#include <stdint.h>

#define CONTEXT ((size_t)3)

struct line {
	const char *s;
	size_t len; /* with its newline */
	uint64_t hash;
};

struct lines {
	struct line *v;
	size_t n;
};

struct texts {
	struct lines a, b;
	size_t head;	    /* equal lines at the beginning */
	size_t n, m;	    /* lines of a and b between the equal ones */
	unsigned char *del; /* for each line of a: it was removed */
	unsigned char *add; /* for each line of b: it was added */
};

bool textdiff_is_text(const char *s, size_t len)
{
	return !memchr(s, '\0', len < 8000 ? len : 8000);
}

static int split_lines(const char *s, size_t len, struct lines *ret)
{
	size_t n = 0, cap = 0;

	for (size_t at = 0; at < len; n++) {
		const char *nl = memchr(s + at, '\n', len - at);
		size_t end = nl ? (size_t)(nl - s) + 1 : len;
		uint64_t hash = 0xcbf29ce484222325ULL;

		if (VEC_ROOM(ret->v, n, cap, VEC_NO_MAX) < 0)
			return -ENOMEM;
		for (size_t i = at; i < end; i++)
			hash = (hash ^ (unsigned char)s[i]) * 0x100000001b3ULL;
		ret->v[n] = (struct line){ .s = s + at, .len = end - at, .hash = hash };
		at = end;
		ret->n = n + 1;
	}
	return 0;
}

static bool is_same_line(const struct line *x, const struct line *y)
{
	return x->hash == y->hash && x->len == y->len && memcmp(x->s, y->s, x->len) == 0;
}

/* Equal lines of the parts that differ: x of a, y of b. */
static bool equal_at(const struct texts *t, ptrdiff_t x, ptrdiff_t y)
{
	return is_same_line(&t->a.v[t->head + (size_t)x], &t->b.v[t->head + (size_t)y]);
}

static void trim_equal_ends(struct texts *t)
{
	size_t tail = 0;

	while (t->head < t->a.n && t->head < t->b.n && is_same_line(&t->a.v[t->head], &t->b.v[t->head]))
		t->head++;
	while (t->head + tail < t->a.n && t->head + tail < t->b.n &&
	       is_same_line(&t->a.v[t->a.n - 1 - tail], &t->b.v[t->b.n - 1 - tail]))
		tail++;
	t->n = t->a.n - t->head - tail;
	t->m = t->b.n - t->head - tail;
}

/* Row d holds d + 1 numbers, for k = -d, -d + 2, …, d. */
static int32_t *edit_row(int32_t *rows, ptrdiff_t d)
{
	return rows + d * (d + 1) / 2;
}

/* Does the best way to diagonal k with d edits come from above (an added line)? */
static bool comes_from_above(const int32_t *before, ptrdiff_t d, ptrdiff_t k)
{
	ptrdiff_t i = (k + d) / 2; /* place in row d; k - 1 is at i - 1 of row d - 1, k + 1 at i */

	return k == -d || (k != d && before[i - 1] < before[i]);
}

/* The number of edits of the shortest way, or -1 when it has more than `max`. */
static ptrdiff_t find_edit_distance(const struct texts *t, int32_t *rows, ptrdiff_t max)
{
	ptrdiff_t n = (ptrdiff_t)t->n, m = (ptrdiff_t)t->m;

	for (ptrdiff_t d = 0; d <= max; d++) {
		int32_t *now = edit_row(rows, d);
		const int32_t *before = d ? edit_row(rows, d - 1) : NULL;

		for (ptrdiff_t k = -d; k <= d; k += 2) {
			ptrdiff_t i = (k + d) / 2, x = 0;

			if (d)
				x = comes_from_above(before, d, k) ? before[i] : before[i - 1] + 1;
			while (x < n && x - k >= 0 && x - k < m && equal_at(t, x, x - k))
				x++;
			now[i] = (int32_t)x;
			if (x >= n && x - k >= m)
				return d;
		}
	}
	return -1;
}

/* Walks from the end back to the beginning and marks removed and added lines. */
static void mark_edits(struct texts *t, int32_t *rows, ptrdiff_t d)
{
	ptrdiff_t x = (ptrdiff_t)t->n, k = (ptrdiff_t)t->n - (ptrdiff_t)t->m;

	for (; d > 0; d--) {
		const int32_t *before = edit_row(rows, d - 1);
		ptrdiff_t i = (k + d) / 2;

		if (comes_from_above(before, d, k)) {
			x = before[i];
			k++;
			t->add[t->head + (size_t)(x - k)] = 1;
		} else {
			x = before[i - 1];
			k--;
			t->del[t->head + (size_t)x] = 1;
		}
	}
}

/* Marks all lines that differ; past the bound, all between the equal ends. */
static int mark_differences(struct texts *t)
{
	ptrdiff_t max = TEXTDIFF_EDITS_MAX, d;
	autofree int32_t *rows = NULL;

	if (t->n + t->m < (size_t)max)
		max = (ptrdiff_t)(t->n + t->m);
	rows = malloc((size_t)((max + 1) * (max + 2) / 2) * sizeof(*rows));
	if (!rows)
		return -ENOMEM;
	d = find_edit_distance(t, rows, max);
	if (d >= 0) {
		mark_edits(t, rows, d);
		return 0;
	}
	memset(t->del + t->head, 1, t->n);
	memset(t->add + t->head, 1, t->m);
	return 0;
}

static void add_diff_line(struct buf *out, char sign, const struct line *l)
{
	bool ended = l->len && l->s[l->len - 1] == '\n';

	buf_addc(out, sign);
	str_add_safe(out, l->s, l->len - ended, true);
	buf_adds(out, ended ? "\n" : "\n\\ no newline at the end\n");
}

/* The end of the hunk that begins at (x, y): changes that are near enough to share their context are in one hunk. */
static void find_hunk(const struct texts *t, size_t x, size_t y, size_t *ret_x, size_t *ret_y)
{
	size_t quiet = 0;

	*ret_x = x;
	*ret_y = y;
	while (x < t->a.n || y < t->b.n) {
		if (x < t->a.n && t->del[x]) {
			x++;
		} else if (y < t->b.n && t->add[y]) {
			y++;
		} else {
			x++;
			y++;
			if (++quiet > 2 * CONTEXT)
				return;
			continue;
		}
		quiet = 0;
		*ret_x = x;
		*ret_y = y;
	}
}

static void add_hunk(const struct texts *t, struct buf *out, size_t x, size_t y, size_t end_x, size_t end_y)
{
	size_t before = x < CONTEXT ? x : CONTEXT;
	size_t after = t->a.n - end_x < CONTEXT ? t->a.n - end_x : CONTEXT;
	size_t from_a = x - before, from_b = y - before;
	size_t len_a = end_x + after - from_a, len_b = end_y + after - from_b;

	buf_addf(out, "@@ -%zu,%zu +%zu,%zu @@\n", from_a + (len_a > 0), len_a, from_b + (len_b > 0), len_b);
	x = from_a;
	y = from_b;
	while (x < end_x + after || y < end_y + after) {
		if (x < t->a.n && t->del[x])
			add_diff_line(out, '-', &t->a.v[x++]);
		else if (y < t->b.n && t->add[y])
			add_diff_line(out, '+', &t->b.v[y++]);
		else {
			add_diff_line(out, ' ', &t->a.v[x++]);
			y++;
		}
	}
}

static void add_hunks(const struct texts *t, struct buf *out)
{
	size_t x = 0, y = 0;

	while (x < t->a.n || y < t->b.n) {
		size_t end_x, end_y;

		if (!(x < t->a.n && t->del[x]) && !(y < t->b.n && t->add[y])) {
			x++;
			y++;
			continue;
		}
		find_hunk(t, x, y, &end_x, &end_y);
		add_hunk(t, out, x, y, end_x, end_y);
		x = end_x;
		y = end_y;
	}
}

int textdiff(const char *a, size_t a_len, const char *b, size_t b_len, struct buf *out)
{
	struct texts t = { 0 };
	int r = split_lines(a, a_len, &t.a);

	if (r == 0)
		r = split_lines(b, b_len, &t.b);
	if (r == 0) {
		t.del = calloc(t.a.n + 1, 1);
		t.add = calloc(t.b.n + 1, 1);
		r = t.del && t.add ? 0 : -ENOMEM;
	}
	if (r == 0) {
		trim_equal_ends(&t);
		r = mark_differences(&t);
	}
	if (r == 0)
		add_hunks(&t, out);
	free(t.a.v);
	free(t.b.v);
	free(t.del);
	free(t.add);
	return r < 0 ? r : buf_error(out);
}
