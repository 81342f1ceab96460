/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash table with linear probing, in two generations, and the construction of keys. Decides nothing:
 * ledger.h does.
 */
#include "egress/wire/seen.h"

#include <assert.h>
#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define SIZE_FIRST 256u

int seen_init(struct seen *s, struct err *e)
{
	*s = (struct seen){ 0 };
	static_assert(sizeof(s->secret) == crypto_shorthash_KEYBYTES, "a key of SipHash");
	if (getrandom(s->secret, sizeof(s->secret), 0) != (ssize_t)sizeof(s->secret))
		return err_sys(e, -errno, "cannot choose a key");
	return 0;
}

static void seen_set_free(struct seen_set *set)
{
	free(set->slots);
	*set = (struct seen_set){ 0 };
}

void seen_forget(struct seen *s)
{
	seen_set_free(&s->young);
	seen_set_free(&s->old);
}

void seen_release(struct seen *s)
{
	seen_forget(s);
	buf_release(&s->text);
}

void seen_begin(struct seen *s, unsigned char kind)
{
	buf_clear(&s->text);
	buf_addc(&s->text, (char)kind);
}

void seen_add(struct seen *s, const void *part, size_t len)
{
	char *p = buf_reserve(&s->text, sizeof(len) + len);

	if (!p)
		return;
	memcpy(p, &len, sizeof(len));
	if (len)
		memcpy(p + sizeof(len), part, len);
	s->text.len += sizeof(len) + len;
}

void seen_adds(struct seen *s, const char *part)
{
	seen_add(s, part ? part : "", part ? strlen(part) : 0);
}

uint64_t seen_key(struct seen *s)
{
	unsigned char out[crypto_shorthash_BYTES];
	struct seen_last *last;
	uint64_t key;

	static_assert(sizeof(key) == sizeof(out), "SipHash");
	if (buf_error(&s->text))
		return 0;
	last = &s->last[(unsigned char)s->text.data[0] % SEEN_KINDS];
	if (last->len == s->text.len && memcmp(last->text, s->text.data, last->len) == 0)
		return last->key;
	crypto_shorthash(out, (const unsigned char *)s->text.data, s->text.len, s->secret);
	memcpy(&key, out, sizeof(key));
	key = key ? key : 1;
	if (s->text.len <= sizeof(last->text)) {
		last->key = key;
		last->len = s->text.len;
		memcpy(last->text, s->text.data, last->len);
	}
	return key;
}

/* The slot of the key, or the free slot where it would be put. */
static uint64_t *seen_slot(const struct seen_set *set, uint64_t key)
{
	uint32_t at = (uint32_t)key & (set->size - 1);

	while (set->slots[at] && set->slots[at] != key)
		at = (at + 1) & (set->size - 1);
	return &set->slots[at];
}

static bool seen_set_has(const struct seen_set *set, uint64_t key)
{
	return set->size && *seen_slot(set, key);
}

/* At most half of the slots are in use. */
static int seen_grow(struct seen_set *set)
{
	struct seen_set more = { .n = set->n, .size = set->size ? 2 * set->size : SIZE_FIRST };

	if (set->size && 2 * (set->n + 1) <= set->size)
		return 0;
	more.slots = calloc(more.size, sizeof(*more.slots));
	if (!more.slots)
		return -ENOMEM;
	for (uint32_t i = 0; i < set->size; i++) {
		if (set->slots[i])
			*seen_slot(&more, set->slots[i]) = set->slots[i];
	}
	free(set->slots);
	*set = more;
	return 0;
}

int seen_reserve(struct seen *s)
{
	if (s->young.n >= SEEN_MAX) {
		seen_set_free(&s->old);
		s->old = s->young;
		s->young = (struct seen_set){ 0 };
	}
	return seen_grow(&s->young);
}

void seen_put(struct seen *s, uint64_t key)
{
	uint64_t *place = seen_slot(&s->young, key);

	s->young.n += *place == 0;
	*place = key;
}

bool seen_has(struct seen *s, uint64_t key)
{
	if (seen_set_has(&s->young, key))
		return true;
	if (!seen_set_has(&s->old, key))
		return false;
	/*
	 * A key in use moves to the younger generation. Without memory it is dropped with the older one, as
	 * seen.S2 permits.
	 */
	if (seen_reserve(s) == 0)
		seen_put(s, key);
	return true;
}
