/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strings, a text, and where to cut it: what comes out piece by piece is what a search at every place of the whole gives
 * that knows nothing of pieces, tables or windows.
 */
#include "egress/scrub.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FIND_MAX 8
#define TEXT_MAX 4096

struct oracle {
	struct slice find[FIND_MAX];
	char put[FIND_MAX][64];
	bool has_put[FIND_MAX];
	size_t n;
};

static void naive(const struct oracle *o, const char *text, size_t len, char *out)
{
	size_t cover = 0;

	memcpy(out, text, len);
	for (size_t at = 0; at < len; at++) {
		size_t best = FIND_MAX;

		for (size_t i = 0; i < o->n; i++) {
			if (o->find[i].len <= len - at &&
			    memcmp(text + at, o->find[i].p, o->find[i].len) == 0 &&
			    (best == FIND_MAX || o->find[i].len > o->find[best].len))
				best = i;
		}
		if (best == FIND_MAX)
			continue;
		if (at >= cover && o->has_put[best])
			memcpy(out + at, o->put[best], o->find[best].len);
		else if (at + o->find[best].len > cover)
			memset(out + (at > cover ? at : cover), '*',
			       at + o->find[best].len - (at > cover ? at : cover));
		if (at + o->find[best].len > cover)
			cover = at + o->find[best].len;
	}
}

static uint8_t take(const uint8_t **data, size_t *size)
{
	if (*size == 0)
		return 0;
	--*size;
	return *(*data)++;
}

static void make_set(struct scrub_set *set, struct oracle *o, const uint8_t **data, size_t *size)
{
	size_t n = take(data, size) % FIND_MAX + 1;

	for (size_t i = 0; i < n; i++) {
		size_t len = take(data, size) % 64;
		bool put = take(data, size) & 1, known = false;
		struct slice f = { (const char *)*data, len < *size ? len : *size };

		*data += f.len;
		*size -= f.len;
		for (size_t k = 0; k < o->n; k++)
			known |= slice_same(o->find[k], f);
		if (f.len >= SCRUB_MIN && !known) {
			o->find[o->n] = f;
			memset(o->put[o->n], 'A' + (int)i, sizeof(o->put[0]));
			o->has_put[o->n++] = put;
		}
		if (scrub_set_add(set, f, put ? o->put[o->n ? o->n - 1 : 0] : NULL) < 0)
			abort();
	}
	scrub_set_ready(set);
	if (set->n != o->n)
		abort();
}

/* The first bytes of an occurrence may be gone before it is one. */
static bool is_it(const struct oracle *o, size_t lead, const char *text, const char *got, const char *want,
		  size_t len)
{
	for (size_t i = 0; i < len; i++) {
		bool early = false;

		if (got[i] == want[i])
			continue;
		for (size_t at = i < lead ? 0 : i + 1 - lead; at <= i; at++) {
			for (size_t k = 0; k < o->n; k++)
				early |= o->find[k].len <= len - at &&
					 memcmp(text + at, o->find[k].p, o->find[k].len) == 0;
		}
		if (got[i] != text[i] || !early)
			return false;
	}
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char want[TEXT_MAX];
	static struct scrub_set set;
	struct oracle o = { 0 };
	struct scrub s = { .set = &set };
	autobuf struct buf out = BUF_INIT;
	size_t cut, len, at = 0;

	make_set(&set, &o, &data, &size);
	cut = take(&data, &size);
	len = size < TEXT_MAX ? size : TEXT_MAX;
	naive(&o, (const char *)data, len, want);
	while (at < len) {
		size_t n = cut ? cut : 1 + (size_t)data[at] % 7;

		if (n > len - at)
			n = len - at;
		if (scrub_feed(&s, data + at, n, at + n == len && (cut & 1), &out) < 0)
			abort();
		at += n;
		if (out.len + scrub_held(&s) != at || (set.n && scrub_held(&s) >= set.max))
			abort();
	}
	if (!(cut & 1) && scrub_feed(&s, NULL, 0, true, &out) < 0)
		abort();
	if (out.len != len || !is_it(&o, scrub_lead(&set), (const char *)data, out.data, want, len))
		abort();
	/* All at once it is exact. */
	if (len) {
		memcpy(out.data, data, len);
		if (scrub_whole(&set, out.data, len) < 0 || memcmp(out.data, want, len) != 0)
			abort();
	}
	scrub_release(&s);
	scrub_set_release(&set);
	return 0;
}
