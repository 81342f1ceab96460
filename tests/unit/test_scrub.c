/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/credential/scrub.h"

#include "tap.h"

#include <stdlib.h>

static struct scrub_set *set_of(const char *const *find, const char *const *put, size_t n)
{
	struct scrub_set *s = calloc(1, sizeof(*s));

	for (size_t i = 0; i < n; i++) {
		if (scrub_set_add(s, slice_of(find[i]), put ? put[i] : NULL) < 0)
			abort();
	}
	scrub_set_ready(s);
	return s;
}

static void drop(struct scrub_set *s)
{
	scrub_set_release(s);
	free(s);
}

/* The texts are equal but for the first bytes of a replaced string, which may be gone before. */
static bool is_it(const struct scrub_set *set, const char *text, const char *got, const char *want,
		  size_t len)
{
	size_t raw = 0;

	for (size_t i = 0; i < len; i++) {
		if (text[i] == want[i])
			raw = 0;
		else if (got[i] == text[i])
			raw++;
		if ((got[i] != want[i] && got[i] != text[i]) || raw > scrub_lead(set))
			return false;
	}
	return true;
}

/* `text` in pieces of `step`. */
static bool gives(const struct scrub_set *set, const char *text, size_t step, const char *want)
{
	struct scrub s = { .set = set };
	autobuf struct buf out = BUF_INIT;
	size_t len = strlen(text);
	bool ok;

	for (size_t at = 0; at < len; at += step) {
		if (scrub_feed(&s, text + at, len - at < step ? len - at : step, false, &out) < 0)
			return false;
	}
	ok = scrub_feed(&s, NULL, 0, true, &out) == 0 && out.len == len &&
	     is_it(set, text, out.data, want, len);
	if (!ok)
		printf("# in steps of %zu: %.200s\n", step, buf_cstr(&out));
	scrub_release(&s);
	return ok;
}

static bool gives_always(const struct scrub_set *set, const char *text, const char *want)
{
	autobuf struct buf whole = BUF_INIT;

	for (size_t step = 1; step <= strlen(text) + 1; step++) {
		if (!gives(set, text, step, want))
			return false;
	}
	buf_adds(&whole, text);
	return scrub_whole(set, whole.data, whole.len) >= 0 && strcmp(buf_cstr(&whole), want) == 0;
}

static void test_plain(void)
{
	static const char *const find[] = { "secret-token", "c2VjcmV0", "secret-token-long" };
	static const char *const put[] = { "PLACE-HOLDER", NULL, NULL };
	struct scrub_set *s = set_of(find, put, 3);

	CHECK(gives_always(s, "", ""));
	CHECK(gives_always(s, "nothing to see here, secret-toke", "nothing to see here, secret-toke"));
	CHECK(gives_always(s, "secret-token", "PLACE-HOLDER"));
	CHECK(gives_always(s, "a secret-token b secret-token", "a PLACE-HOLDER b PLACE-HOLDER"));
	CHECK(gives_always(s, "xc2VjcmV0y", "x********y"));
	CHECKF(gives_always(s, "secret-token-long!", "*****************!"),
	       "the longest string at a place is replaced");
	CHECKF(gives_always(s, "secret-token-lon!", "PLACE-HOLDER-lon!"),
	       "a shorter string is replaced where the longer one does not match");
	CHECK(gives_always(s, "secret-secret-token", "secret-PLACE-HOLDER"));
	drop(s);
}

static void test_overlap(void)
{
	static const char *const find[] = { "abcabc", "bcabcd", "aaaa" };
	static const char *const put[] = { "ABCABC", "BCABCD", NULL };
	struct scrub_set *s = set_of(find, put, 3);

	CHECKF(gives_always(s, "xabcabcdx", "xABCABC*x"),
	       "a second string that overlaps the first is covered to its end");
	CHECK(gives_always(s, "aaaaaaaaab", "*********b"));
	CHECK(gives_always(s, "abcabcabcabcd", "ABCABC*******"));
	CHECK(gives_always(s, "aaab", "aaab"));
	drop(s);
}

static void test_streaming(void)
{
	static const char *const find[] = { "0123456789" };
	struct scrub_set *set = set_of(find, NULL, 1);
	struct scrub s = { .set = set };
	autobuf struct buf out = BUF_INIT;

	CHECK(scrub_feed(&s, "data: x\n\n", 9, false, &out) == 0);
	CHECKF(out.len == 9 && scrub_held(&s) == 0, "text that begins no string is not held back");
	CHECKF(scrub_feed(&s, "0", 1, false, &out) == 0 && out.len == 10 && scrub_held(&s) == 0,
	       "a message is not held back for its last byte");
	CHECK(scrub_feed(&s, "123", 3, false, &out) == 0 && out.len == 10 && scrub_held(&s) == 3);
	CHECK(scrub_feed(&s, "z", 1, false, &out) == 0 && out.len == 14 && scrub_held(&s) == 0);
	CHECK(scrub_feed(&s, "012345678", 9, false, &out) == 0 && scrub_held(&s) == 8);
	CHECKF(!memmem(out.data + out.len, out.cap - out.len, "12345", 5),
	       "consumed bytes do not remain in the output's spare room");
	CHECK(scrub_feed(&s, "9.", 2, true, &out) == 0 && s.found == 1);
	CHECK(out.len == 25 && memcmp(out.data + 14, "0*********.", 11) == 0);
	scrub_release(&s);
	drop(set);
}

static struct scrub_set *loose_of(const char *find, const char *put, enum scrub_kind kind)
{
	struct scrub_set *s = calloc(1, sizeof(*s));

	if (scrub_set_add_loose(s, slice_of(find), put, kind) < 0)
		abort();
	scrub_set_ready(s);
	return s;
}

static void test_percent(void)
{
	struct scrub_set *s = loose_of("ghp_Zq7x", "PLACEHOL", SCRUB_ESCAPED);

	CHECK(gives_always(s, "a ghp_Zq7x b", "a PLACEHOL b"));
	CHECKF(gives_always(s, "a ghp_Z%717x b", "a PLACE%48OL b"),
	       "a string with one byte in percent form is replaced");
	CHECK(gives_always(s, "t=%67hp%5fZq7%78&", "t=%50LA%43EHO%4C&"));
	CHECK(gives_always(s, "%67%68%70%5F%5A%71%37%78", "%50%4C%41%43%45%48%4F%4C"));
	CHECK(gives_always(s, "ghp_Z%727x ghp_Z%7 ghp_Z%71", "ghp_Z%727x ghp_Z%7 ghp_Z%71"));
	CHECKF(gives_always(s, "ghp_ghp_Z%717x%", "ghp_PLACE%48OL%"),
	       "a string is replaced behind the begin of another");
	CHECKF(gives_always(s, "%67hp_Zq7xghp_Zq7%78", "%50LACEHOLPLACEHO%4C"),
	       "two strings in percent form are replaced one behind the other");
	drop(s);
	s = loose_of("a%b\ncdef", NULL, SCRUB_ESCAPED);
	CHECK(gives_always(s, "xa%b\ncdefx", "x********x"));
	CHECKF(gives_always(s, "xa%25b%0Acde%66x", "x**************x"),
	       "a string with a percent sign and a line break of its own is replaced");
	CHECK(gives_always(s, "xa%b\ncde%66x", "x**********x"));
	drop(s);
}

static void test_escapes(void)
{
	struct scrub_set *s = loose_of("k+/\"<&=7", "PLACEHOL", SCRUB_ESCAPED);

	CHECKF(gives_always(s, "{\"k\\u002B/\\\"<&=7\"}", "{\"P\\u004CA**EHOL\"}"),
	       "a string in JSON with needless escapes is replaced");
	CHECKF(gives_always(s, "k\\u002b\\/\\u0022\\u003C\\u0026=\\u0037",
			    "P\\u004C**\\u0043\\u0045\\u0048O\\u004C"),
	       "a string in JSON is replaced with hex of either case");
	CHECKF(gives_always(s, "<i>k&#x2B;&#x2F;&quot;&lt;&amp;&#x3D;7</i>",
			    "<i>P*********************************L</i>"),
	       "a string in HTML with hex is replaced");
	CHECKF(gives_always(s, "k&#43;&#047;&#34;&#0060;&AMP;&equals;7;",
			    "P************************************L;"),
	       "a string in HTML with decimals, zeros and names is replaced");
	CHECKF(gives_always(s, "k\\x2b/\"<&=7 k%2B/\"<&=7", "P\\x4CACEHOL P%4CACEHOL"),
	       "JavaScript and URL escapes are recognised");
	CHECKF(gives_always(s, "k\\u012B/\"<&=7 k&#x2B/\"<&=7 k&#x12B;/\"<&=7 k&plu;/\"<&=7",
			    "k\\u012B/\"<&=7 k&#x2B/\"<&=7 k&#x12B;/\"<&=7 k&plu;/\"<&=7"),
	       "a string with another escaped character is not replaced");
	drop(s);
	s = loose_of("AKIA+key/of=AWS", NULL, SCRUB_ESCAPED);
	CHECKF(gives_always(s, "{\"k\":\"AKIA\\u002Bkey\\/of=AWS\"}", "{\"k\":\"*********************\"}"),
	       "a string without special characters is replaced when they are escaped");
	drop(s);
}

static void test_lines(void)
{
	struct scrub_set *s = loose_of("Z2hwX1pxN3g", "UExBQ0VIT0w", SCRUB_LINES);

	CHECK(gives_always(s, "=Z2hwX1pxN3g=", "=UExBQ0VIT0w="));
	CHECK(gives_always(s, "AAZ2hw\r\nX1pxN3gBB", "AAUExB\r\nQ0VIT0wBB"));
	CHECK(gives_always(s, "AAZ\n2hwX1pxN3\r\n gBB", "AAU\nExBQ0VIT0\r\n wBB"));
	CHECK(gives_always(s, "Z\n2\nh\nw\nX\n1\np\nx\nN\n3\ng", "U\nE\nx\nB\nQ\n0\nV\nI\nT\n0\nw"));
	CHECKF(gives_always(s, "\"Z2hw\\nX1px\\r\\nN3g\\n\"", "\"UExB\\nQ0VI\\r\\nT0w\\n\""),
	       "a string with line breaks of JSON is replaced");
	CHECK(gives_always(s, "Z2hw\n\n\n\n\n\n\n\n\nX1pxN3g", "Z2hw\n\n\n\n\n\n\n\n\nX1pxN3g"));
	CHECK(gives_always(s, "Z2hw X1pxN3g Z2hw\\tX1pxN3g", "Z2hw X1pxN3g Z2hw\\tX1pxN3g"));
	CHECK(gives_always(s, "Z2hw\r\nX1pxN3\r\n", "Z2hw\r\nX1pxN3\r\n"));
	drop(s);
}

static void test_both(void)
{
	struct scrub_set *s = calloc(1, sizeof(*s));

	if (scrub_set_add_loose(s, slice_of("FFFFFF"), NULL, SCRUB_LINES) < 0 ||
	    scrub_set_add_loose(s, slice_of("FFFF\n\n"), NULL, SCRUB_ESCAPED) < 0)
		abort();
	scrub_set_ready(s);
	CHECKF(gives_always(s, "FFFF\n\nFF", "****\n\n**"),
	       "the longest string is replaced, in any of its forms");
	CHECK(gives_always(s, "FFF%46\n\nF", "********F"));
	drop(s);
}

static void test_loose_streams(void)
{
	struct scrub_set *set = loose_of("Z2hwX1pxN3gZ2hwX1pxN3g0Z", NULL, SCRUB_LINES);
	struct scrub s = { .set = set };
	autobuf struct buf out = BUF_INIT;

	CHECKF(scrub_feed(&s, "data: aZ2h\n\n", 12, false, &out) == 0 && out.len == 12 && scrub_held(&s) == 0,
	       "a message with line breaks is not held back for its last byte");
	CHECK(scrub_feed(&s, "data: aZ2hw\n\n", 13, false, &out) == 0 && scrub_held(&s) == 3);
	CHECK(scrub_feed(&s, "x", 1, true, &out) == 0 && out.len == 26 && s.found == 0);
	scrub_release(&s);
	drop(set);
}

static void test_seek(void)
{
	static const char text[] = "one aaaa-first-bbbb, %61aaa-second-b%62bb\n";
	struct scrub_set *set = calloc(1, sizeof(*set));

	set->tag = 3;
	CHECK(scrub_set_add_loose(set, slice_of("aaaa-first-bbbb"), NULL, SCRUB_ESCAPED) == 0);
	set->tag = 63;
	CHECK(scrub_set_add_loose(set, slice_of("aaaa-second-bbb"), NULL, SCRUB_ESCAPED) == 0);
	scrub_set_ready(set);
	for (size_t step = 1; step < sizeof(text); step++) {
		struct scrub s = { .set = set };
		uint64_t tags = 0, before = 0;

		for (size_t at = 0; at < sizeof(text) - 1; at += step) {
			size_t n = sizeof(text) - 1 - at < step ? sizeof(text) - 1 - at : step;

			if (scrub_seek(&s, text + at, n, false, &tags) < 0)
				abort();
			if (at + n == 18)
				before = tags;
		}
		CHECKF(tags == (1ull << 3 | 1ull << 63), "two strings are found in steps of %zu", step);
		CHECKF(18 % step || before == 0, "no string is found before its last byte");
		scrub_release(&s);
	}
	drop(set);
}

/* Is a word of SCRUB_INNER seen by itself in `text`, in pieces of every length? -1: that depends on these. */
static int seen_alone(const struct scrub_set *set, const char *text)
{
	size_t len = strlen(text);
	int got = -2;

	for (size_t step = 1; step <= len; step++) {
		struct scrub s = { .set = set };
		uint64_t tags = 0;

		for (size_t at = 0; at < len; at += step) {
			size_t n = len - at < step ? len - at : step;

			if (scrub_seek(&s, text + at, n, at + n == len, &tags) < 0)
				abort();
		}
		got = got == -2 || got == s.inner ? s.inner : -1;
		scrub_release(&s);
	}
	return got;
}

static void test_inner(void)
{
	struct scrub_set *s = calloc(1, sizeof(*s));

	if (scrub_set_add_loose(s, slice_of("sk-abcMARKMARKxyz"), NULL, SCRUB_ESCAPED) < 0 ||
	    scrub_set_add(s, slice_of("YWJjTUFSS01BUkt4"), NULL) < 0)
		abort();
	s->tag = SCRUB_INNER;
	if (scrub_set_add_loose(s, slice_of("MARKMARK"), NULL, SCRUB_ESCAPED) < 0 ||
	    scrub_set_add(s, slice_of("TUFSS01BUk"), NULL) < 0)
		abort();
	scrub_set_ready(s);
	CHECKF(seen_alone(s, "a sk-abcMARKMARKxyz b") == 0, "a mark within another string does not count");
	CHECKF(seen_alone(s, "a sk-abc%4dARKMARK%78yz b YWJjTUFSS01BUkt4") == 0,
	       "an encoded mark within an encoded string does not count");
	CHECKF(seen_alone(s, "a sk-abdMARKMARKxyz b") == 1, "a mark in another word counts");
	CHECKF(seen_alone(s, "sk-abcMARKMARKxyz sk-abcMARKMARKxy") == 1,
	       "a mark counts beside one that does not");
	CHECK(seen_alone(s, "sk-abcMARKMARKxyzMARKMARK") == 1);
	CHECK(seen_alone(s, "x%4dARKMAR%4Bx") == 1 && seen_alone(s, "__TUFSS01BUk__") == 1);
	CHECK(seen_alone(s, "sk-abcMARKMAR Kxyz") == 0);
	drop(s);
}

static void test_bounds(void)
{
	struct scrub_set *s = calloc(1, sizeof(*s));
	char text[] = "abcabc", large[600];

	CHECKF(scrub_set_add(s, slice_of("abc"), NULL) == 0 && s->n == 0,
	       "a string that is too short is not searched for");
	scrub_set_ready(s);
	CHECK(scrub_whole(s, text, 6) == 0 && strcmp(text, "abcabc") == 0);
	memset(large, 'x', sizeof(large));
	CHECK(scrub_set_add(s, (struct slice){ large, 500 }, NULL) == 0);
	CHECK(scrub_set_add(s, (struct slice){ large, 500 }, NULL) == 0 && s->n == 1);
	scrub_set_ready(s);
	CHECK(scrub_whole(s, large, 499) == 0 && large[0] == 'x');
	CHECK(scrub_whole(s, large, 600) == 101 && large[0] == '*' && large[599] == '*');
	drop(s);
}

int main(void)
{
	test_plain();
	test_overlap();
	test_streaming();
	test_percent();
	test_escapes();
	test_lines();
	test_both();
	test_loose_streams();
	test_seek();
	test_inner();
	test_bounds();
	return tap_done();
}
