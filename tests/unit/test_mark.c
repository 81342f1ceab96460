/* SPDX-License-Identifier: Apache-2.0 */
#include "vault/common/mark.h"

#include "tap.h"
#include "vault/common/shape.h"

static const uint8_t seed_a[MARK_SEED_LEN] = { 1 }, seed_b[MARK_SEED_LEN] = { 2 };

static void test_marks(void)
{
	struct marks a, b, again;
	unsigned same = 0;

	marks_make(seed_a, &a);
	marks_make(seed_a, &again);
	marks_make(seed_b, &b);
	CHECKF(memcmp(&a, &again, sizeof(a)) == 0, "a seed always gives the same marks");
	for (unsigned i = 0; i < MARK_KINDS; i++)
		same += strcmp(a.v[i], b.v[i]) == 0;
	CHECKF(same == 0, "two seeds have no mark in common");
	CHECK(marks_are_good(&a) && marks_are_good(&b) && marks_any(&a));
	again.v[3][0] = '-';
	CHECKF(!marks_are_good(&again), "a word with other characters is no mark");
	again = a;
	again.v[8][0] = '\0';
	CHECKF(!marks_are_good(&again), "a word that is shorter is no mark");
	memset(&again, 0, sizeof(again));
	CHECK(marks_are_good(&again) && !marks_any(&again) && !marks_has(&again, "abc", 3));
}

/* The placeholder that was made for `secret`, marked. */
static void check_put(const char *secret, const char *begin, size_t want_len)
{
	uint8_t seed[SHAPE_SEED_LEN] = { 7 };
	char text[GRANTS_PLACEHOLDER_MAX + 1], plain[SHAPE_MAX + 1];
	struct marks a, b;
	unsigned bad = 0;

	marks_make(seed_a, &a);
	marks_make(seed_b, &b);
	for (unsigned i = 0; i < 200; i++) {
		size_t n, random = 0;

		seed[1] = (uint8_t)i;
		n = shape_placeholder(secret, strlen(secret), seed, plain);
		memcpy(text, plain, n + 1);
		n = marks_put(&a, text, n);
		for (size_t k = strlen(begin); k < n; k++)
			random += text[k] != '-';
		bad += n != strlen(text) || !grants_is_placeholder(text, n) || !marks_has(&a, text, n) ||
		       marks_has(&b, text, n) || strncmp(text, begin, strlen(begin)) != 0 ||
		       random < 16 + 8 || (want_len && n != want_len);
		/* Of the characters that the secret has. */
		if (strspn(secret, "0123456789abcdef") == strlen(secret))
			bad += strspn(text, "0123456789abcdef") != n;
		if (strlen(secret) == 36 && secret[8] == '-')
			bad += text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-';
	}
	CHECKF(bad == 0, "a placeholder of %.24s... keeps its look and gets the mark (%u do not: %s)", secret,
	       bad, text);
}

int main(void)
{
	test_marks();
	check_put("sk-ant-api03-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789AbCdEfGhIjKlMnOpQrStUvWxYz0123456789",
		  "sk-ant-api03-", 85);
	check_put("sk-proj-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789AbCdEf", "sk-proj-", 50);
	check_put("ghp_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789", "ghp_", 40);
	check_put("0123456789abcdef0123456789abcdef", "", 32);
	check_put("01234567-89ab-cdef-0123-456789abcdef", "", 36);
	check_put("123456789:AAabcdefghijklmnopqrstuvwxyz0123456", "", 45);
	check_put("AKIAIOSFODNN7EXAMPLE", "AKIA", 0);
	check_put("short", "", 0);
	check_put("12345678901234567890", "", 0);
	return tap_done();
}
