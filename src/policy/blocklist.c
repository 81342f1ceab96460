/* SPDX-License-Identifier: Apache-2.0 */
/* Reads lists of blocked names into sorted hashes and looks names up in them (blocklist.h). Pure. */

#include "policy/blocklist.h"

#include "base/vec.h"
#include "policy/namehash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void blocklist_release(struct blocklist *b)
{
	free(b->own);
	*b = BLOCKLIST_INIT;
}

/* Appends the hash of one name. */
static int add_hash(struct blocklist *b, uint64_t h, struct err *e)
{
	int r = VEC_ROOM(b->own, b->n, b->room, POLICY_BLOCKED_MAX);

	if (r == -E2BIG)
		return err_set(e, r, "the blocklist '%s' has more than %u names", b->category,
			       POLICY_BLOCKED_MAX);
	if (r < 0)
		return err_set(e, r, "out of memory");
	b->own[b->n++] = h;
	return 0;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static size_t blocked_word_len(const char *s, size_t len)
{
	size_t n = 0;

	while (n < len && !is_blank(s[n]) && s[n] != '#')
		n++;
	return n;
}

/* Adds one word of a line if it is a name; counts it as skipped otherwise. */
static int add_blocked_name(struct blocklist *b, const char *s, size_t len, bool first, struct err *e)
{
	struct host h = { 0 };

	if (len > 2 && s[0] == '*' && s[1] == '.') {
		s += 2;
		len -= 2;
	}
	/* In a hosts file the address comes first and is ignored; a single label would block a whole
	 * top-level domain. */
	if (host_canon(s, len, &h, NULL) < 0 || h.kind == HOST_ADDR || host_labels(&h) < 2) {
		b->skipped += !(first && h.kind == HOST_ADDR);
		return 0;
	}
	return add_hash(b, namehash(h.text, h.len), e);
}

/* Adds the names of one line, up to a comment. */
static int add_blocked_line(struct blocklist *b, const char *s, size_t len, struct err *e)
{
	bool first = true;
	int r = 0;

	while (r == 0 && len > 0) {
		size_t n;

		if (is_blank(*s)) {
			s++;
			len--;
			continue;
		}
		if (*s == '#' || (first && *s == '!'))
			return 0;
		n = blocked_word_len(s, len);
		r = add_blocked_name(b, s, n, first, e);
		first = false;
		s += n;
		len -= n;
	}
	return r;
}

int blocklist_add_lines(struct blocklist *b, const char *text, size_t len, struct err *e)
{
	int r = 0;

	while (r == 0 && len > 0) {
		const char *nl = memchr(text, '\n', len);
		size_t n = nl ? (size_t)(nl - text) : len;

		r = add_blocked_line(b, text, n, e);
		n += nl != NULL;
		text += n;
		len -= n;
	}
	return r;
}

static int compare_hashes(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

void blocklist_finish(struct blocklist *b)
{
	size_t n = 0;

	if (b->n)
		qsort(b->own, b->n, sizeof(*b->own), compare_hashes);
	for (size_t i = 0; i < b->n; i++) {
		if (n == 0 || b->own[n - 1] != b->own[i])
			b->own[n++] = b->own[i];
	}
	b->n = n;
	b->hashes = b->own;
}

static uint64_t hash_at(const struct blocklist *b, size_t i)
{
	uint64_t v;

	memcpy(&v, (const char *)b->hashes + i * sizeof(v), sizeof(v));
	return v;
}

/* Binary search; the hashes may be unaligned in a bundle. */
static bool has_hash(const struct blocklist *b, uint64_t want)
{
	size_t lo = 0, hi = b->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (hash_at(b, mid) < want)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < b->n && hash_at(b, lo) == want;
}

bool blocklist_has(const struct blocklist *b, const struct host *name)
{
	const char *s = name->text;

	if (name->kind != HOST_NAME || b->n == 0)
		return false;
	while (s) {
		if (has_hash(b, namehash(s, strlen(s))))
			return true;
		s = strchr(s, '.');
		s = s ? s + 1 : NULL;
	}
	return false;
}
