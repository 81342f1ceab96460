/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Marks are words from a ChaCha20 stream of the seed, one for each character set; marks_put() writes one over the middle
 * of a placeholder. A mark is no secret and grants nothing.
 */
#include "vault/common/mark.h"

#include "base/cleanup.h"
#include "vault/common/shape.h"

#include <assert.h>
#include <sodium.h>
#include <string.h>

#define DIGITS "0123456789"
#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

/* A placeholder gets the mark of the first set that has all its characters; `len` characters of it have at
 * least MARK_BITS bits. */
static const struct kind {
	const char *from;
	size_t len;
} kinds[] = {
	{ DIGITS, 13 }, /* 43 bits */
	{ DIGITS "abcdef", 11 }, { DIGITS "ABCDEF", 11 }, { LOWER, 9 },	      { UPPER, 9 },
	{ DIGITS LOWER, 8 },	 { DIGITS UPPER, 8 },	  { LOWER UPPER, 8 }, { DIGITS LOWER UPPER, 8 },
};
static_assert(ARRAY_SIZE(kinds) == MARK_KINDS, "a mark for each");

/* Bytes that would make the first characters more likely are skipped, as in shape.c. */
static void make_mark(const struct kind *k, const uint8_t seed[MARK_SEED_LEN], unsigned number, char *out)
{
	uint8_t nonce[crypto_stream_chacha20_ietf_NONCEBYTES] = { (uint8_t)number }, bytes[512];
	size_t n = strlen(k->from), got = 0;

	static_assert(MARK_SEED_LEN == crypto_stream_chacha20_ietf_KEYBYTES, "a seed is a key");
	crypto_stream_chacha20_ietf(bytes, sizeof(bytes), nonce, seed);
	for (size_t i = 0; i < sizeof(bytes) && got < k->len; i++) {
		if (bytes[i] < 256 - 256 % n)
			out[got++] = k->from[bytes[i] % n];
	}
	/* Fewer than 13 usable bytes of 512 practically do not occur; the mark would merely be easier to
	 * guess. */
	while (got < k->len)
		out[got++] = k->from[0];
	out[got] = '\0';
}

void marks_make(const uint8_t seed[MARK_SEED_LEN], struct marks *ret)
{
	*ret = (struct marks){ 0 };
	for (unsigned i = 0; i < MARK_KINDS; i++)
		make_mark(&kinds[i], seed, i, ret->v[i]);
}

bool marks_are_good(const struct marks *m)
{
	for (unsigned i = 0; i < MARK_KINDS; i++) {
		size_t len = strnlen(m->v[i], sizeof(m->v[i]));

		if (len != (marks_any(m) ? kinds[i].len : 0) || strspn(m->v[i], kinds[i].from) != len)
			return false;
	}
	return true;
}

bool marks_has(const struct marks *m, const char *text, size_t len)
{
	for (unsigned i = 0; marks_any(m) && i < MARK_KINDS; i++) {
		if (memmem(text, len, m->v[i], kinds[i].len))
			return true;
	}
	return false;
}

/* The index of the first character set that has all characters of the text. */
static unsigned mark_kind_of(const char *text, size_t len)
{
	unsigned i = 0;

	for (; i < MARK_KINDS - 1; i++) {
		size_t k = 0;

		/* Dashes and colons are part of the look, not of the character set. */
		while (k < len && (strchr("-:", text[k]) || strchr(kinds[i].from, text[k])))
			k++;
		if (k == len)
			break;
	}
	return i;
}

/* Where the trailing letters and digits begin: after a vendor's prefix, a bot's number, or the other groups
 * of a UUID. */
static size_t random_tail_at(const char *text, size_t len)
{
	size_t at = shape_prefix(text, len), n = len;

	while (n > at && strchr(DIGITS LOWER UPPER, text[n - 1]))
		n--;
	return n;
}

size_t marks_put(const struct marks *m, char text[GRANTS_PLACEHOLDER_MAX + 1], size_t len)
{
	size_t at = random_tail_at(text, len), body = len - at, n, random = len - shape_prefix(text, len);
	unsigned kind = mark_kind_of(text + len - random, random);

	n = kinds[kind].len;
	if (!marks_any(m))
		return len;
	/* mark.M3: the mark replaces random characters, or is inserted between them. */
	if (body >= n && random >= n + SHAPE_RANDOM_MIN) {
		memcpy(text + at + (body - n + 1) / 2, m->v[kind], n);
		return len;
	}
	if (len + n > GRANTS_PLACEHOLDER_MAX)
		return len;
	at += body / 2;
	memmove(text + at + n, text + at, len - at + 1);
	memcpy(text + at, m->v[kind], n);
	return len + n;
}
