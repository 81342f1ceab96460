/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/fold.h"

#include "base/clock.h"

static uint64_t key_of(enum fold_kind kind, const char *what, size_t len, uint32_t more)
{
	uint64_t h = 0xcbf29ce484222325ULL ^ (uint64_t)kind ^ ((uint64_t)more << 8);

	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)what[i]) * 0x100000001b3ULL;
	/* The kind can be read from the key again, for fold_flush(). */
	h = (h ^ (h >> 31)) * 0x9e3779b97f4a7c15ULL;
	return (h & ~7ULL) | (uint64_t)kind;
}

static bool take_token(struct fold_bucket *f, uint64_t now_ns)
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

bool fold_is_due(struct fold *f, enum fold_kind kind, const char *what, size_t len, uint32_t more,
		 uint64_t now_ns, uint64_t *ret_count)
{
	uint64_t key = key_of(kind, what, len, more);
	struct fold_slot *s = &f->slots[(key >> 8) % FOLD_SLOTS];

	*ret_count = 0;
	if (s->key == key && now_ns - s->since < FOLD_SECONDS * NSEC_PER_SEC) {
		s->count++;
		return false;
	}
	if (!take_token(&f->buckets[kind], now_ns)) {
		f->untold[kind]++;
		return false;
	}
	if (s->key == key)
		*ret_count = s->count;
	else if (s->count)
		f->pushed[s->key & 7] += s->count;
	*s = (struct fold_slot){ .key = key, .since = now_ns };
	return true;
}

uint64_t fold_flush(struct fold *f, enum fold_kind kind, uint64_t now_ns, bool all, uint64_t *ret_again)
{
	uint64_t n = f->untold[kind], again = f->pushed[kind];

	f->untold[kind] = f->pushed[kind] = 0;
	for (unsigned i = 0; i < FOLD_SLOTS; i++) {
		struct fold_slot *s = &f->slots[i];

		if (s->count && (s->key & 7) == (uint64_t)kind &&
		    (all || now_ns - s->since >= FOLD_SECONDS * NSEC_PER_SEC)) {
			again += s->count;
			s->count = 0;
		}
	}
	*ret_again = again;
	return n + again;
}
