/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots and token buckets of egress_fold.h. It only counts and decides whether a line is due; its caller writes the
 * line.
 */
#include "egress/account/egress_fold.h"

#include "base/clock.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static uint64_t egress_fold_key(enum egress_fold_kind kind, const char *what, size_t len, uint32_t more)
{
	uint64_t h = 0xcbf29ce484222325ULL ^ (uint64_t)kind ^ ((uint64_t)more << 8);

	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)what[i]) * 0x100000001b3ULL;
	/* The low bits hold the kind, for egress_fold_flush(). */
	static_assert(FOLD_KIND_COUNT <= 8, "a kind has three bits");
	h = (h ^ (h >> 31)) * 0x9e3779b97f4a7c15ULL;
	return (h & ~7ULL) | (uint64_t)kind;
}

static bool egress_fold_take_token(struct egress_fold_bucket *f, uint64_t now_ns)
{
	uint64_t add = (now_ns - f->filled) / (NSEC_PER_SEC / FOLD_RATE);

	if (f->filled == 0 || add >= FOLD_BURST) {
		f->tokens = FOLD_BURST;
		f->filled = now_ns;
	} else if (add) {
		f->tokens = f->tokens + add < FOLD_BURST ? f->tokens + add : FOLD_BURST;
		f->filled += add * (NSEC_PER_SEC / FOLD_RATE);
	}
	if (f->tokens == 0)
		return false;
	f->tokens--;
	return true;
}

/* For people: up to the first newline, with the port of a connection. */
static void egress_fold_format_text(enum egress_fold_kind kind, const char *what, size_t len, uint32_t more,
				    char out[TOP_TEXT_MAX + 1])
{
	const char *end = memchr(what, '\n', len);
	size_t max = TOP_TEXT_MAX - sizeof(":65535") + 1;

	len = end ? (size_t)(end - what) : len;
	len = len < max ? len : max;
	if (kind == FOLD_OPEN && more)
		snprintf(out, TOP_TEXT_MAX + 1, "%.*s:%u", (int)len, what, more & UINT16_MAX);
	else
		snprintf(out, TOP_TEXT_MAX + 1, "%.*s", (int)len, what);
}

static struct egress_fold_slot *egress_fold_slot_of(struct fold *f, uint64_t key)
{
	return &f->slots[(key >> 8) % FOLD_SLOTS];
}

/* Moves the count of a slot, whose events have no line, into `top`. */
static uint64_t egress_fold_release_count(struct fold *f, struct egress_fold_slot *s)
{
	const char *text = f->text[s - f->slots];
	uint64_t n = s->count;

	if (n && (s->key & 7) != FOLD_DNS_ALLOW)
		top_add(&f->top[s->key & 7], text, strlen(text), n);
	s->count = 0;
	return n;
}

void egress_fold_note(struct fold *f, enum egress_fold_kind kind, const char *what, size_t len, uint32_t more,
		      uint64_t now_ns)
{
	uint64_t key = egress_fold_key(kind, what, len, more);
	struct egress_fold_slot *s = egress_fold_slot_of(f, key);

	f->pushed[s->key & 7] += egress_fold_release_count(f, s);
	*s = (struct egress_fold_slot){ .key = key, .since = now_ns };
	egress_fold_format_text(kind, what, len, more, f->text[s - f->slots]);
}

bool egress_fold_is_due(struct fold *f, enum egress_fold_kind kind, const char *what, size_t len,
			uint32_t more, uint64_t now_ns, uint64_t *ret_count)
{
	uint64_t key = egress_fold_key(kind, what, len, more);
	struct egress_fold_slot *s = egress_fold_slot_of(f, key);
	char text[TOP_TEXT_MAX + 1];

	*ret_count = 0;
	if (s->key == key && now_ns - s->since < FOLD_SECONDS * NSEC_PER_SEC) {
		s->count++;
		return false;
	}
	if (!egress_fold_take_token(&f->buckets[kind], now_ns)) {
		f->untold[kind]++;
		if (kind != FOLD_DNS_ALLOW) {
			egress_fold_format_text(kind, what, len, more, text);
			top_add(&f->top[kind], text, strlen(text), 1);
		}
		return false;
	}
	if (s->key == key) {
		*ret_count = s->count;
		s->since = now_ns;
		s->count = 0;
		return true;
	}
	egress_fold_note(f, kind, what, len, more, now_ns);
	return true;
}

uint64_t egress_fold_flush(struct fold *f, enum egress_fold_kind kind, uint64_t now_ns, bool all,
			   uint64_t *ret_again)
{
	uint64_t n = f->untold[kind], again = f->pushed[kind];

	*ret_again = 0;
	if (!all && f->told[kind] && now_ns - f->told[kind] < FOLD_SECONDS * NSEC_PER_SEC)
		return 0;
	f->untold[kind] = f->pushed[kind] = 0;
	for (unsigned i = 0; i < FOLD_SLOTS; i++) {
		struct egress_fold_slot *s = &f->slots[i];

		if (s->count && (s->key & 7) == (uint64_t)kind &&
		    (all || now_ns - s->since >= FOLD_SECONDS * NSEC_PER_SEC))
			again += egress_fold_release_count(f, s);
	}
	*ret_again = again;
	if (n + again)
		f->told[kind] = now_ns;
	return n + again;
}
