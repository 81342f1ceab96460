/* SPDX-License-Identifier: Apache-2.0 */
/* Against libsodium, and the examples of RFC 4648. */
#include "base/base64.h"
#include "tap.h"

#include <sodium.h>

static void test_example(const char *text, const char *want)
{
	autobuf struct buf b = BUF_INIT;

	base64_add(&b, text, strlen(text));
	CHECK_STR(buf_cstr(&b), want);
}

static void test_digits(void)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	static const char url[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
	int right = 0;

	for (unsigned i = 0; i < 64; i++)
		right += base64_digit(i, false) == plain[i] && base64_digit(i, true) == url[i];
	CHECKF(right == 64, "each of the 64 digits is right in both alphabets");
}

static void test_random(void)
{
	unsigned char raw[100];
	char want[200];
	int same = 0;

	for (size_t len = 0; len <= sizeof(raw); len++) {
		autobuf struct buf b = BUF_INIT;

		randombytes_buf(raw, sizeof(raw));
		sodium_bin2base64(want, sizeof(want), raw, len, sodium_base64_VARIANT_ORIGINAL);
		base64_add(&b, raw, len);
		same += strcmp(buf_cstr(&b), want) == 0;
	}
	CHECKF(same == sizeof(raw) + 1, "random bytes of every length are encoded as libsodium does");
}

int main(void)
{
	test_example("", "");
	test_example("f", "Zg==");
	test_example("fo", "Zm8=");
	test_example("foo", "Zm9v");
	test_example("foobar", "Zm9vYmFy");
	test_digits();
	test_random();
	return tap_done();
}
