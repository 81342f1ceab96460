/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strings, a text, and where to cut it: what comes out piece by piece is what a search at every place of the whole gives
 * that knows nothing of pieces, tables, windows or anchors. Only what an escape stands for is read by the same function.
 */
#include "egress/credential/scrub.h"
#include "egress/credential/scrub_escape.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FIND_MAX 8
#define TEXT_MAX 4096

struct oracle {
	struct slice find[FIND_MAX];
	char base64[FIND_MAX][64];
	char put[FIND_MAX][64];
	bool has_put[FIND_MAX];
	int kind[FIND_MAX]; /* -1: as it is only */
	size_t n;
};

/* How many bytes stand for the string's byte k; 0: it is another. */
static size_t unit(const struct oracle *o, size_t i, size_t k, const char *p, size_t left)
{
	char c = o->find[i].p[k];
	size_t n = 0, len;

	if (o->kind[i] == SCRUB_ESCAPED &&
	    scrub_escape_at((const unsigned char *)p, left, &len) == (unsigned char)c)
		return len;
	while (o->kind[i] == SCRUB_LINES && k && n < left) {
		size_t m = p[n] == '\r' || p[n] == '\n' || (n && (p[n] == ' ' || p[n] == '\t'))	   ? 1
			   : left - n >= 2 && p[n] == '\\' && (p[n + 1] == 'n' || p[n + 1] == 'r') ? 2
												   : 0;
		if (!m || n + m > SCRUB_BREAK_MAX)
			break;
		n += m;
	}
	return n < left && p[n] == c ? n + 1 : 0;
}

/* How long string i is there; 0: it is not. One that has a % may be there in two ways. */
static size_t match(const struct oracle *o, size_t i, const char *p, size_t left)
{
	size_t at = 0, len = o->find[i].len;
	bool as_is = len <= left && memcmp(p, o->find[i].p, len) == 0;

	for (size_t k = 0; k < len; k++) {
		size_t n = o->kind[i] < 0 ? 0 : unit(o, i, k, p + at, left - at);

		if (!n)
			return as_is ? len : 0;
		at += n;
	}
	return at;
}

static void strike(const struct oracle *o, size_t i, const char *text, size_t at, size_t len, char *out,
		   size_t cover)
{
	bool put = o->has_put[i] && at >= cover;
	bool as_is = len == o->find[i].len && memcmp(text + at, o->find[i].p, len) == 0;
	size_t end = at + len, from = at > cover ? at : cover;

	if (as_is || (o->kind[i] == SCRUB_ESCAPED && !put)) {
		for (size_t k = from; k < end; k++)
			out[k] = (char)(put ? o->put[i][k - at] : '*');
		return;
	}
	for (size_t k = 0; k < o->find[i].len; k++) {
		size_t n = unit(o, i, k, text + at, end - at);
		const char *e = text + at;
		char hex[4];

		at += n;
		snprintf(hex, sizeof(hex), "%02X", (unsigned char)o->put[i][k]);
		if (at > cover && o->kind[i] == SCRUB_ESCAPED && n > 1 &&
		    (e[0] == '%' || e[1] == 'u' || e[1] == 'x'))
			memcpy(out + at - 2, hex, 2);
		else if (at > cover && o->kind[i] == SCRUB_ESCAPED && n > 1)
			memset(out + at - n, '*', n);
		else if (at > cover)
			out[at - 1] = (char)(put ? o->put[i][k] : '*');
	}
}

static void naive(const struct oracle *o, const char *text, size_t len, char *out)
{
	size_t cover = 0;

	memcpy(out, text, len);
	for (size_t at = 0; at < len; at++) {
		size_t best = FIND_MAX, best_len = 0;
		bool best_as_is = false;

		for (size_t i = 0; i < o->n; i++) {
			size_t n = match(o, i, text + at, len - at);
			bool as_is = n == o->find[i].len && memcmp(text + at, o->find[i].p, n) == 0;

			if (n > best_len || (n && n == best_len && as_is && !best_as_is)) {
				best = i;
				best_len = n;
				best_as_is = as_is;
			}
		}
		if (best == FIND_MAX)
			continue;
		strike(o, best, text, at, best_len, out, cover);
		cover = at + best_len > cover ? at + best_len : cover;
	}
}

static uint8_t take(const uint8_t **data, size_t *size)
{
	if (*size == 0)
		return 0;
	--*size;
	return *(*data)++;
}

/* Any bytes, as letters of base64: those that are some stay. */
static void make_base64(char *out, struct slice f)
{
	static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	for (size_t k = 0; k < f.len; k++) {
		char c = f.p[k];

		if (!c)
			c = 'A';
		else if (!strchr(alphabet, c))
			c = alphabet[(uint8_t)c % 64];
		out[k] = c;
	}
}

static bool is_known(const struct oracle *o, struct slice f)
{
	for (size_t k = 0; k < o->n; k++) {
		if (slice_same(o->find[k], f))
			return true;
	}
	return false;
}

static int add_to(struct scrub_set *set, const struct oracle *o, struct slice f, bool put, int kind)
{
	const char *text = put ? o->put[set->tag] : NULL;

	return kind < 0 ? scrub_set_add(set, f, text)
			: scrub_set_add_loose(set, f, text, (enum scrub_kind)kind);
}

static void make_set(struct scrub_set *set, struct oracle *o, const uint8_t **data, size_t *size)
{
	size_t n = take(data, size) % FIND_MAX + 1;

	for (size_t i = 0; i < n; i++) {
		size_t len = take(data, size) % 64;
		uint8_t flags = take(data, size);
		bool put = flags & 1;
		struct slice f = { (const char *)*data, len < *size ? len : *size };
		int kind = !(flags & 2) ? -1 : flags & 4 ? SCRUB_LINES : SCRUB_ESCAPED;

		*data += f.len;
		*size -= f.len;
		if (kind == SCRUB_LINES) {
			make_base64(o->base64[i], f);
			f.p = o->base64[i];
		}
		if (f.len >= SCRUB_MIN && !is_known(o, f)) {
			o->find[o->n] = f;
			o->kind[o->n] = kind;
			memset(o->put[o->n], 'A' + (int)i, sizeof(o->put[0]));
			o->has_put[o->n++] = put;
		}
		set->tag = (uint8_t)(o->n ? o->n - 1 : 0);
		if (add_to(set, o, f, put, kind) < 0)
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
				early |= match(o, k, text + at, len - at) > 0;
		}
		/* Line breaks that stand behind these are not kept either. */
		if (got[i] != text[i] || (!early && got[i] != '\n' && got[i] != '\r'))
			return false;
	}
	return true;
}

/* Whether it is there is known without writing, too. */
static void seek(const struct oracle *o, const struct scrub_set *set, const char *text, size_t len,
		 size_t cut)
{
	struct scrub s = { .set = set };
	uint64_t tags = 0;

	for (size_t at = 0, n; at < len; at += n) {
		n = cut && cut < len - at ? cut : len - at;
		if (scrub_seek(&s, text + at, n, at + n == len, &tags) < 0)
			abort();
	}
	for (size_t i = 0; i < o->n; i++) {
		bool is_longest = false, is_there = false;

		for (size_t at = 0; at < len; at++) {
			size_t mine = match(o, i, text + at, len - at), longest = 0;

			for (size_t k = 0; k < o->n; k++) {
				size_t n = match(o, k, text + at, len - at);

				longest = n > longest && k != i ? n : longest;
			}
			is_there |= mine > 0;
			is_longest |= mine > longest;
		}
		if ((is_longest && !(tags >> i & 1)) || (!is_there && tags >> i & 1))
			abort();
	}
	scrub_release(&s);
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
		if (out.len + scrub_held(&s) != at || (set.n && scrub_held(&s) >= set.reach))
			abort();
	}
	if (!(cut & 1) && scrub_feed(&s, NULL, 0, true, &out) < 0)
		abort();
	if (out.len != len || !is_it(&o, scrub_lead(&set), (const char *)data, out.data, want, len))
		abort();
	seek(&o, &set, (const char *)data, len < 512 ? len : 512, cut);
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
