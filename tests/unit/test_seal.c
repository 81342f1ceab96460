/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "crypto/seal.h"
#include "tap.h"

#include <errno.h>

#define TEXT "what is sealed"
#define ABOUT "what is known about it"

static void test_open(void)
{
	autosecmem struct secmem key = SECMEM_INIT, other = SECMEM_INIT, sub = SECMEM_INIT;
	uint8_t nonce[SEAL_NONCE_LEN], sealed[sizeof(TEXT) + SEAL_TAG_LEN], plain[sizeof(TEXT)];
	unsigned bad = 0;

	CHECK(seal_key_new(&key, NULL) == 0 && seal_key_new(&other, NULL) == 0 && key.len == SEAL_KEY_LEN);
	seal_nonce_new(nonce);
	seal_close(sealed, TEXT, sizeof(TEXT), ABOUT, sizeof(ABOUT), nonce, &key);
	CHECK(!memmem(sealed, sizeof(sealed), TEXT, 8));
	CHECK(seal_open(plain, sealed, sizeof(sealed), ABOUT, sizeof(ABOUT), nonce, &key) == 0);
	CHECK(memcmp(plain, TEXT, sizeof(TEXT)) == 0);
	CHECKF(seal_open(plain, sealed, sizeof(sealed), ABOUT, sizeof(ABOUT), nonce, &other) == -EBADMSG,
	       "sealed data does not open with another key");
	CHECKF(seal_open(plain, sealed, sizeof(sealed), "x", 1, nonce, &key) == -EBADMSG,
	       "sealed data does not open for another purpose");
	CHECKF(seal_open(plain, sealed, sizeof(sealed) - 1, ABOUT, sizeof(ABOUT), nonce, &key) == -EBADMSG,
	       "sealed data does not open when it is cut");
	CHECKF(seal_open(plain, sealed, 3, ABOUT, sizeof(ABOUT), nonce, &key) == -EBADMSG,
	       "sealed data does not open without its tag");
	for (size_t i = 0; i < sizeof(sealed) * 8; i++) {
		sealed[i / 8] ^= (uint8_t)(1u << (i % 8));
		bad += seal_open(plain, sealed, sizeof(sealed), ABOUT, sizeof(ABOUT), nonce, &key) ==
		       -EBADMSG;
		sealed[i / 8] ^= (uint8_t)(1u << (i % 8));
	}
	CHECKF(bad == sizeof(sealed) * 8, "sealed data does not open with any bit changed");
	CHECK(seal_key_derive(&sub, &key, "cofseal1", NULL) == 0 && !secmem_eq(&sub, key.p, key.len));
}

static void test_passphrase(void)
{
	autosecmem struct secmem a = SECMEM_INIT, b = SECMEM_INIT, c = SECMEM_INIT;
	struct seal_cost cost, other;

	seal_cost_new(&cost);
	CHECK(cost.passes == SEAL_PASSES && cost.memory_kib == SEAL_MEMORY_KIB);
	cost.memory_kib = SEAL_MEMORY_KIB_MIN;
	other = cost;
	other.salt[0] ^= 1;
	CHECK(seal_key_from_passphrase(&a, "correct horse", 13, &cost, NULL) == 0 && a.len == SEAL_KEY_LEN);
	CHECKF(seal_key_from_passphrase(&b, "correct horse", 13, &cost, NULL) == 0 &&
		       secmem_eq(&a, b.p, b.len),
	       "a passphrase and a salt always give the same key");
	CHECKF(seal_key_from_passphrase(&c, "correct horse", 13, &other, NULL) == 0 &&
		       !secmem_eq(&a, c.p, c.len),
	       "a different salt gives a different key");
	secmem_release(&c);
	cost.memory_kib = SEAL_MEMORY_KIB_MAX + 1;
	CHECK(seal_key_from_passphrase(&c, "x", 1, &cost, NULL) == -EBADMSG);
	cost.memory_kib = 16;
	CHECK(seal_key_from_passphrase(&c, "x", 1, &cost, NULL) == -EBADMSG);
}

static void test_check(void)
{
	autosecmem struct secmem a = SECMEM_INIT, b = SECMEM_INIT;
	uint8_t x[SEAL_CHECK_LEN], y[SEAL_CHECK_LEN];

	CHECK(seal_key_new(&a, NULL) == 0 && seal_key_new(&b, NULL) == 0);
	seal_key_check(&a, "id", 2, x);
	seal_key_check(&a, "id", 2, y);
	CHECK(memcmp(x, y, sizeof(x)) == 0);
	seal_key_check(&b, "id", 2, y);
	CHECKF(memcmp(x, y, sizeof(x)) != 0, "a different key has a different check");
	seal_key_check(&a, "di", 2, y);
	CHECKF(memcmp(x, y, sizeof(x)) != 0, "a different vault has a different check");
}

int main(void)
{
	CHECK(secmem_begin(NULL) == 0);
	test_open();
	test_passphrase();
	test_check();
	return tap_done();
}
