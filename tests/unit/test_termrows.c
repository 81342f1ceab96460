/* SPDX-License-Identifier: Apache-2.0 */
/* Values of an attacker in rows of ours, for any width. */
#include "codec/term/termrows.h"
#include "tap.h"

#include "base/str.h"

static bool plain_is(const char *s, const char *want)
{
	autobuf struct buf b = BUF_INIT;

	termrows_plain(&b, s, strlen(s));
	if (!str_eq(buf_cstr(&b), want))
		printf("# '%s'\n", buf_cstr(&b));
	return str_eq(buf_cstr(&b), want);
}

static void test_plain(void)
{
	autobuf struct buf q = BUF_INIT;

	CHECK(plain_is("GET /a  b", "GET /a  b") && plain_is("a     b", "a[5 spaces]b"));
	CHECK(plain_is("a\tb\nc\x1b[2J", "a\\x09b\\x0ac\\x1b[2J"));
	CHECKF(plain_is("Gr\xc3\xbc\xc3\x9f"
			"e \xd0\xb4\xd0\xb0 \xe6\xbc\xa2\xe5\xad\x97 \xe2\x80\xa6",
			"Gr\xc3\xbc\xc3\x9f"
			"e \xd0\xb4\xd0\xb0 \xe6\xbc\xa2\xe5\xad\x97 \xe2\x80\xa6"),
	       "letters that can be shown safely are unchanged");
	CHECKF(plain_is("e\xcc\x81", "e\\u{0301}") && plain_is("\xe2\x80\x8b", "\\u{200b}") &&
		       plain_is("\xc2\xad", "\\u{00ad}") && plain_is("\xe3\x85\xa4", "\\u{3164}"),
	       "combining and invisible characters are escaped");
	CHECKF(plain_is("\xc2\xa0", "\\u{00a0}") && plain_is("\xe3\x80\x80", "\\u{3000}"),
	       "unusual spaces are escaped");
	CHECKF(plain_is("\xd7\x90", "\\u{05d0}") && plain_is("\xe2\x94\x80", "\\u{2500}") &&
		       plain_is("\xf0\x9f\x98\x80", "\\u{1f600}"),
	       "letters from right to left, lines and wide characters are escaped");
	CHECK(plain_is("\xff\xc3", "\\xff\\xc3"));
	termrows_quote(&q, "say \"x\" \xe2\x80\x9d", strlen("say \"x\" \xe2\x80\x9d"));
	CHECKF(str_eq(buf_cstr(&q), "\"say 'x' \\u{201d}\""), "a quotation has no quotation mark inside: %s",
	       buf_cstr(&q));
}

/* Rows of one value: they begin as they should, none is too wide, and together they are the value. */
static bool check_rows(const char *rows, unsigned cols, const char *label, const char *want)
{
	autobuf struct buf all = BUF_INIT;
	bool first = label;

	for (const char *p = rows; *p;) {
		size_t n = strcspn(p, "\n");
		const char *value = p + (first ? TERMROWS_GUTTER : strlen(TERMROWS_MARK));

		if (n >= cols || p[n] != '\n' ||
		    (first ? !str_starts(p, label) : !str_starts(p, TERMROWS_MARK)))
			return false;
		buf_add(&all, value, (size_t)(p + n - value));
		first = false;
		p += n + 1;
	}
	return str_eq(buf_cstr(&all), want);
}

static void test_rows(void)
{
	static const unsigned widths[] = { 20, 21, 40, 79, 80, 200 };
	static const char *const fill[] = {
		"x", " ", "\t", "e\xcc\x81", "\xe6\xbc\xa2", "\xc3\xa9", "\xf0\x9f\x98\x80", "x y "
	};
	static const char fake[] = "what     widen  good.example:443";

	for (size_t w = 0; w < ARRAY_SIZE(widths); w++) {
		bool good = true;

		for (size_t f = 0; f < ARRAY_SIZE(fill); f++) {
			for (size_t at = 0; at < 2UL * widths[w]; at += widths[w] < 100 ? 1 : 5) {
				autobuf struct buf v = BUF_INIT, plain = BUF_INIT, rows = BUF_INIT,
						   more = BUF_INIT;

				while (v.len < at)
					buf_adds(&v, fill[f]);
				buf_adds(&v, fake);
				termrows_plain(&plain, v.data, v.len);
				termrows_add(&rows, widths[w], "reason", v.data);
				termrows_more(&more, widths[w], v.data);
				good = good &&
				       check_rows(buf_cstr(&rows), widths[w], "reason   ",
						  buf_cstr(&plain)) &&
				       check_rows(buf_cstr(&more), widths[w], NULL, buf_cstr(&plain));
			}
		}
		CHECKF(good, "at %u columns all rows are right", widths[w]);
	}
}

#define SPACES_60 "                                                            "
#define SPACES_300 SPACES_60 SPACES_60 SPACES_60 SPACES_60 SPACES_60

static bool lines_are(const char *text, const char *rows)
{
	autobuf struct buf b = BUF_INIT;

	return termrows_lines(&b, 80, text, strlen(text), SIZE_MAX) == 0 && str_eq(buf_cstr(&b), rows);
}

static void test_lines(void)
{
	autobuf struct buf b = BUF_INIT, few = BUF_INIT, none = BUF_INIT;
	static const char text[] = "one\n\n    indented\nquestion aaaaaa-9\n";

	CHECK(termrows_lines(&b, 80, text, strlen(text), SIZE_MAX) == 0);
	CHECKF(str_eq(buf_cstr(&b), TERMROWS_MARK "one\n" TERMROWS_MARK "\n" TERMROWS_MARK
						  "    indented\n" TERMROWS_MARK "question aaaaaa-9\n"),
	       "the lines of a text have our mark each: %s", buf_cstr(&b));
	CHECKF(lines_are("a" SPACES_300 "b\n" SPACES_300 "HIDDEN\n",
			 TERMROWS_MARK "a[300 spaces]b\n" TERMROWS_MARK "[300 spaces]HIDDEN\n"),
	       "spaces within a line, and an indentation that is none, are counted");
	CHECKF(lines_are("                16\n                 17  2   3",
			 TERMROWS_MARK "                16\n" TERMROWS_MARK "[17 spaces]17  2[3 spaces]3\n"),
	       "an indentation is shown unchanged");
	CHECKF(lines_are("a\n\n\nb\n",
			 TERMROWS_MARK "a\n" TERMROWS_MARK "\n" TERMROWS_MARK "\n" TERMROWS_MARK "b\n"),
	       "two empty lines are shown as two");
	CHECKF(lines_are("a\n\n \n" SPACES_300 "\n\nHIDDEN",
			 TERMROWS_MARK "a\n" TERMROWS_MARK "[4 empty lines]\n" TERMROWS_MARK "HIDDEN\n"),
	       "more than two empty lines are counted, with spaces or without");
	CHECKF(lines_are("\n\n\n", TERMROWS_MARK "[3 empty lines]\n") && lines_are("", ""),
	       "empty lines at the end are counted");
	CHECK(termrows_lines(&few, 80, text, strlen(text), 2) == 2 && termrows_count(buf_cstr(&few)) == 2);
	termrows_add(&none, 80, "by", "");
	CHECK(none.len == 0);
	CHECK(termrows_skip("a\nbb\nc", 2) == 5 && termrows_skip("a\nbb\nc", 9) == 6 &&
	      termrows_skip("", 1) == 0);
	CHECK(termrows_fit("a\xc3\xa9"
			   "b",
			   2) == 1 &&
	      termrows_fit("a\xc3\xa9"
			   "b",
			   3) == 3 &&
	      termrows_fit("ab", 9) == 2);
	CHECK(termrows_cols(0) == 80 && termrows_cols(3) == TERMROWS_MIN && termrows_cols(123) == 123);
}

static void test_text(void)
{
	autobuf struct buf b = BUF_INIT, bad = BUF_INIT;
	static const char text[] =
		"@@ -1 +1 @@\n     - allow: GET /\n+    - allow: GET /aaaaaaaaaaaaa+   - evil\n";
	static const char hostile[] = "+a\033[2J\xe2\x80\xae\n";

	termrows_text(&b, 33, "| ", text, strlen(text));
	CHECKF(str_eq(buf_cstr(&b),
		      "@@ -1 +1 @@\n     - allow: GET /\n+    - allow: GET /aaaaaaaaaaaaa\n| +   - evil\n"),
	       "a difference is shown in rows: %s", buf_cstr(&b));
	termrows_text(&bad, 80, "| ", hostile, strlen(hostile));
	CHECKF(!strchr(buf_cstr(&bad), '\033') && termrows_count(buf_cstr(&bad)) == 1,
	       "a difference with escape sequences is shown in one safe row: %s", buf_cstr(&bad));
}

int main(void)
{
	test_text();
	test_plain();
	test_rows();
	test_lines();
	return tap_done();
}
