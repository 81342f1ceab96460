/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/str.h"
#include "tap.h"

#include <errno.h>

static void test_numbers(void)
{
	uint64_t v = 0;

	CHECK(str_to_u64("0", &v) == 0 && v == 0);
	CHECK(str_to_u64("18446744073709551615", &v) == 0 && v == UINT64_MAX);
	CHECK(str_to_u64("18446744073709551616", &v) == -ERANGE);
	CHECK(str_to_u64("", &v) == -EINVAL);
	CHECK(str_to_u64("-1", &v) == -EINVAL);
	CHECK(str_to_u64("1 ", &v) == -EINVAL);
	CHECK(str_to_size("1.5g", &v) == 0 && v == 3ULL << 29);
	CHECK(str_to_size("64K", &v) == 0 && v == 65536);
	CHECK(str_to_size("2GiB", &v) == 0 && v == 2ULL << 30);
	CHECK(str_to_size("1e30", &v) == -EINVAL);
	CHECK(str_to_size("99999999999999999999", &v) == -ERANGE);
	CHECK(str_to_size("17000000t", &v) == -ERANGE);
	CHECK(str_to_size(".", &v) == -EINVAL);
	CHECK(str_to_size("-5", &v) == -EINVAL);
	CHECK(str_to_nsec("90", &v) == 0 && v == 90000000000ULL);
	CHECK(str_to_nsec("250ms", &v) == 0 && v == 250000000ULL);
	CHECK(str_to_nsec("1.5h", &v) == 0 && v == 5400000000000ULL);
}

static void test_nearest(void)
{
	static const char *const known[] = { "memory", "memory-reservation", "cpus", "pids" };

	CHECK_STR(str_nearest("memroy", known, 4), "memory");
	CHECK_STR(str_nearest("cpu", known, 4), "cpus");
	CHECK(str_nearest("frobnicate", known, 4) == NULL);
	/* Half of a short word is another word, not a slip of the hand. */
	CHECK(str_nearest("foo", (const char *const[]){ "root", "profile" }, 2) == NULL);
	CHECK(str_nearest("init", (const char *const[]){ "net", "tty" }, 2) == NULL);
	CHECK(str_nearest("kill", (const char *const[]){ "call", "fork" }, 2) == NULL);
	CHECK_STR(str_nearest("rnu", (const char *const[]){ "rm", "run" }, 2), "run");
	CHECK_STR(str_nearest("aks", (const char *const[]){ "as", "ask", "at" }, 3), "ask");
}

static void test_safe(void)
{
	struct buf b = BUF_INIT;

	str_add_safe(&b, "a\033[2Jb\n", 7, false);
	CHECK_STR(buf_cstr(&b), "a\\x1b[2Jb\\x0a");
	buf_clear(&b);
	str_add_safe(&b, "a\tb\n\r", 5, true);
	CHECK_STR(buf_cstr(&b), "a\tb\n\\x0d");
	buf_clear(&b);
	str_add_safe(&b,
		     "\xc2\x9b"
		     "31m\xff\xe2\x80\xaegrün",
		     14, false);
	CHECK_STR(buf_cstr(&b), "\\u{009b}31m\\xff\\u{202e}grün");
	buf_release(&b);
}

static void test_strv(void)
{
	autostrv struct strv l = STRV_INIT;
	bool ok = true;

	for (int i = 0; i < 1000; i++)
		ok = ok && strv_addf(&l, "%d", i) == 0;
	CHECK(ok && l.n == 1000 && l.v[1000] == NULL);
	CHECK_STR(l.v[999], "999");
	CHECK(str_is_name("web-1.a_b") && !str_is_name("a/b") && !str_is_name("") && !str_is_name("-a"));
}

int main(void)
{
	test_numbers();
	test_nearest();
	test_safe();
	test_strv();
	return tap_done();
}
