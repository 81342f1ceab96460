/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/pathpat.h"

#include "tap.h"

#include <stdlib.h>

static bool match(const char *pattern, const char *text)
{
	return pathpat_match(pattern, slice_of(text), 0);
}

static bool loose(const char *pattern, const char *text)
{
	return pathpat_match(pattern, slice_of(text), PATHPAT_LOOSE);
}

static void test_match(void)
{
	static const struct {
		const char *pattern, *text;
		bool want;
	} t[] = {
		{ "/a", "/a", true },
		{ "/a", "/ab", false },
		{ "/a", "/", false },
		{ "/**", "/", true },
		{ "/**", "/a/b/c", true },
		{ "/*", "/a", true },
		{ "/*", "/a/b", false },
		{ "/*", "/", true },
		{ "/a/*/c", "/a/b/c", true },
		{ "/a/*/c", "/a//c", true },
		{ "/a/*/c", "/a/b/b/c", false },
		{ "/a/**/c", "/a/b/b/c", true },
		{ "/a/**/c", "/a/c", false },
		{ "/**/c", "/a/b/c", true },
		{ "/**/c", "/c", false },
		{ "/a*b*c", "/axxbxxc", true },
		{ "/a*b*c", "/axxb/xc", false },
		{ "/a**b*c", "/ax/xbxxc", true },
		{ "/x**", "/xy/z", true },
		{ "/bot*/send", "/bot12:a/send", true },
		{ "/*.json", "/a.b.json", true },
		{ "/**.json", "/a/b.json", true },
		{ "/a", "/A", false },
		{ "/a/", "/a", false },
		{ "/repos/*/*/pulls/*/merge", "/repos/o/r/pulls/7/merge", true },
		{ "/repos/*/*/pulls/*/merge", "/repos/o/r/pulls/7/8/merge", false },
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++)
		CHECKF(match(t[i].pattern, t[i].text) == t[i].want, "the pattern '%s' %s '%s'", t[i].pattern,
		       t[i].want ? "matches" : "does not match", t[i].text);
}

static void test_loose(void)
{
	CHECK(loose("/admin/**", "/ADMIN/x"));
	CHECK(loose("/admin", "/admin/"));
	CHECK(loose("/admin/x", "/admin;a=b/x"));
	CHECK(loose("/admin", "/admin;a=b"));
	CHECK(loose("/@scope/x", "/%40scope/x"));
	CHECK(loose("/%40scope/x", "/@scope/x"));
	CHECK(loose("/a;b", "/a;b"));
	CHECK(loose("/admin/x", "/admin./x"));
	CHECK(loose("/admin/x", "/admin%20/X..."));
	CHECK(loose("/admin", "/admin. .;a=b"));
	CHECK(loose("/admin/**", "/admin.%20./x"));
	CHECK(loose("/admin", "/admin%3Ba"));
	CHECK(loose("/a./b", "/A./b"));
	CHECK(!loose("/admin", "/admin.x"));
	CHECK(!loose("/admin", "/.admin"));
	CHECK(!match("/admin", "/admin."));
	CHECK(!loose("/admin", "/admin/x"));
	CHECK(!loose("/admin", "/adm"));
	CHECK(loose("/a/*", "/a/b%2Fc"));
	CHECK(!loose("/a/*", "/a/b/c"));
}

static void test_covers(void)
{
	CHECK(pathpat_covers("/**", "/a/*"));
	CHECK(!pathpat_covers("/a/*", "/**"));
	CHECK(pathpat_covers("/a/*", "/a/b"));
	CHECK(pathpat_covers("/a/**", "/a/*/c"));
	CHECK(!pathpat_covers("/a/*", "/a/**"));
	CHECK(!pathpat_covers("/repos/o/r/**", "/repos/*/*/merge"));
	CHECK(!pathpat_covers("/repos/*/*/merge", "/repos/o/r/**"));
	CHECK(pathpat_covers("/a", "/A") && pathpat_covers("/A", "/a"));
	CHECK(pathpat_covers("/*", "/a*b"));
}

/* Patterns that backtracking would never return from. */
static void test_time(void)
{
	size_t n = 32000;
	char *text = malloc(n + 1);
	char pattern[PATHPAT_MAX + 1] = "/";

	memset(text, 'a', n);
	text[0] = '/';
	text[n] = '\0';
	for (size_t i = 1; i + 4 < sizeof(pattern); i += 4)
		memcpy(pattern + i, "**a*", 5);
	pattern[strlen(pattern) - 1] = 'b';
	CHECK(!match(pattern, text));
	CHECK(!loose(pattern, text));
	memset(text + 1, '.', n - 2);
	CHECK(!loose(pattern, text));
	free(text);
}

static void test_check(void)
{
	static const struct {
		const char *text;
		const char *why; /* NULL: fine */
	} t[] = {
		{ "/**", NULL },
		{ "/repos/*/x", NULL },
		{ "/@types%2Fnode", NULL },
		{ "x", "begins with /" },
		{ "/***", "three stars" },
		{ "/a?b", "the query after ?" },
		{ "/a/../b", "write /b" },
		{ "/%61", "write /a" },
		{ "", "missing" },
		{ "/a b", "" },
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct err e = ERR_INIT;
		int r = pathpat_check(t[i].text, strlen(t[i].text), &e);

		CHECKF(t[i].why ? r < 0 && strstr(e.msg, t[i].why) : r == 0, "the pattern '%s' is judged: %s",
		       t[i].text, t[i].why ? t[i].why : "fine");
	}
}

int main(void)
{
	test_match();
	test_loose();
	test_covers();
	test_time();
	test_check();
	return tap_done();
}
