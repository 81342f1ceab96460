/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "tap.h"
#include "workspace/change/textdiff.h"

#include <stdlib.h>

static bool is(const char *a, const char *b, const char *wanted)
{
	autobuf struct buf out = BUF_INIT;
	int r = textdiff(a, strlen(a), b, strlen(b), &out);

	if (r == 0 && str_eq(buf_cstr(&out), wanted))
		return true;
	printf("# got %d:\n", r);
	for (const char *p = buf_cstr(&out); *p;) {
		size_t n = strcspn(p, "\n");

		printf("# %.*s\n", (int)n, p);
		p += n + (p[n] == '\n');
	}
	return false;
}

static void test_known(void)
{
	CHECK(is("", "", "") && is("a\n", "a\n", ""));
	CHECK(is("", "a\n", "@@ -0,0 +1,1 @@\n+a\n"));
	CHECK(is("a\n", "", "@@ -1,1 +0,0 @@\n-a\n"));
	CHECK(is("a\nb\nc\n", "a\nx\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n"));
	CHECK(is("1\n2\n3\n4\n5\n6\n", "1\n2\n3\n4\n5\n6\n7\n", "@@ -4,3 +4,4 @@\n 4\n 5\n 6\n+7\n"));
	CHECK(is("a", "a\n", "@@ -1,1 +1,1 @@\n-a\n\\ no newline at the end\n+a\n"));
	CHECKF(is("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "x\n2\n3\n4\n5\n6\n7\n8\ny\n",
		  "@@ -1,4 +1,4 @@\n-1\n+x\n 2\n 3\n 4\n@@ -6,4 +6,4 @@\n 6\n 7\n 8\n-9\n+y\n"),
	       "distant changes are two hunks");
	CHECKF(is("1\n2\n3\n4\n5\n6\n7\n8\n", "x\n2\n3\n4\n5\n6\n7\ny\n",
		  "@@ -1,8 +1,8 @@\n-1\n+x\n 2\n 3\n 4\n 5\n 6\n 7\n-8\n+y\n"),
	       "near changes are one hunk");
	CHECK(is("a\n", "\033[2J\n", "@@ -1,1 +1,1 @@\n-a\n+\\x1b[2J\n"));
	CHECK(textdiff_is_text("abc", 3) && !textdiff_is_text("a\0c", 3) && textdiff_is_text("", 0));
}

/* Puts a diff back onto the first text: hunks say where, context and deletions must fit, additions are taken. */
static bool patch(const char *a, const char *diff, struct buf *out)
{
	size_t line = 1;

	for (const char *p = diff; *p;) {
		size_t n = strcspn(p, "\n") + 1;

		if (*p == '@') {
			size_t from = strtoul(p + 4, NULL, 10), len = strtoul(strchr(p, ',') + 1, NULL, 10);

			for (from += len == 0; line < from && *a; line++) {
				size_t l = strcspn(a, "\n") + 1;

				buf_add(out, a, l);
				a += l;
			}
		} else if (*p == '+') {
			buf_add(out, p + 1, n - 1);
		} else {
			if (strncmp(a, p + 1, n - 1) != 0)
				return false;
			if (*p == ' ')
				buf_add(out, a, n - 1);
			a += n - 1;
			line++;
		}
		p += n;
	}
	buf_adds(out, a);
	return !buf_error(out);
}

static void make_text(struct buf *b, unsigned lines, unsigned kinds)
{
	buf_clear(b);
	for (unsigned i = 0; i < lines; i++)
		buf_addf(b, "%ld\n", random() % kinds);
}

static void test_random(void)
{
	autobuf struct buf a = BUF_INIT, b = BUF_INIT, d = BUF_INIT, back = BUF_INIT;
	bool ok = true;

	srandom(7);
	for (unsigned i = 0; i < 3000 && ok; i++) {
		make_text(&a, (unsigned)random() % 30, 1 + i % 9);
		make_text(&b, (unsigned)random() % 30, 1 + i % 9);
		buf_clear(&d);
		buf_clear(&back);
		ok = textdiff(buf_cstr(&a), a.len, buf_cstr(&b), b.len, &d) == 0 &&
		     patch(buf_cstr(&a), buf_cstr(&d), &back) && str_eq(buf_cstr(&back), buf_cstr(&b));
	}
	CHECKF(ok, "each of 3000 random diffs leads from one text to the other");
	if (!ok)
		printf("# a %s\n# b %s\n# d %s\n", buf_cstr(&a), buf_cstr(&b), buf_cstr(&d));
}

/* Nothing in common, or everything but a little: neither takes long. */
static void test_bounds(void)
{
	autobuf struct buf a = BUF_INIT, b = BUF_INIT, d = BUF_INIT, back = BUF_INIT;
	uint64_t start = clock_nsec(CLOCK_MONOTONIC);

	for (unsigned i = 0; i < 100000; i++) {
		buf_addf(&a, "a%u\n", i);
		buf_addf(&b, "b%u\n", i);
	}
	CHECK(textdiff(buf_cstr(&a), a.len, buf_cstr(&b), b.len, &d) == 0 && d.len > a.len + b.len);
	CHECK(patch(buf_cstr(&a), buf_cstr(&d), &back) && str_eq(buf_cstr(&back), buf_cstr(&b)));
	make_text(&a, 100000, 2);
	make_text(&b, 100000, 2);
	buf_clear(&d);
	buf_clear(&back);
	CHECK(textdiff(buf_cstr(&a), a.len, buf_cstr(&b), b.len, &d) == 0);
	CHECK(patch(buf_cstr(&a), buf_cstr(&d), &back) && str_eq(buf_cstr(&back), buf_cstr(&b)));
	CHECKF(clock_nsec(CLOCK_MONOTONIC) - start < 60 * NSEC_PER_SEC, "the time of a diff has a bound");
}

int main(void)
{
	test_known();
	test_random();
	test_bounds();
	return tap_done();
}
