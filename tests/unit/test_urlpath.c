/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/http/urlpath.h"
#include "tap.h"

#include <errno.h>
#include <stdlib.h>

static void test_canonical(void)
{
	static const struct {
		const char *in, *out;
	} good[] = {
		{ "", "/" },
		{ "/", "/" },
		{ "?a=b", "/?a=b" },
		{ "/a/b", "/a/b" },
		{ "/a/b/", "/a/b/" },
		{ "/%61%2D%2e%5F%7E", "/a-._~" },
		{ "/a%3ab%c3%a9", "/a%3Ab%C3%A9" },
		{ "/a/./b", "/a/b" },
		{ "/a/.", "/a/" },
		{ "/.", "/" },
		{ "/a/..", "/" },
		{ "/a/../b", "/b" },
		{ "/a/b/../../c", "/c" },
		{ "/a/%2e%2E/b", "/b" },
		{ "/a/%2e/b", "/a/b" },
		{ "/a/v1...v2", "/a/v1...v2" },
		{ "/a/x%20/y./z..", "/a/x%20/y./z.." },
		{ "/a/%E3%80%82b", "/a/%E3%80%82b" },
		{ "/wiki/a%ef%bc%8fb", "/wiki/a%EF%BC%8Fb" },
		{ "/a/b;/c", "/a/b;/c" },
		{ "/a/.b/..c", "/a/.b/..c" },
		{ "/a;x=1/b;y", "/a;x=1/b;y" },
		{ "/a?b=//..%2f%zz\\&c", "/a?b=//..%2f%zz\\&c" },
		{ "/a??", "/a??" },
		{ "/a%20b", "/a%20b" },
		{ "/100%25", "/100%25" },
		{ "/%2540", "/%2540" },
		{ "/@scope/pkg", "/@scope/pkg" },
		{ "/a%F0%9F%98%80", "/a%F0%9F%98%80" },
	};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		autobuf struct buf b = BUF_INIT, again = BUF_INIT;
		struct urlpath p = { 0 };
		struct err e = ERR_INIT;
		int r = urlpath_canon(good[i].in, strlen(good[i].in), 0, &b, &p, &e);

		CHECKF(r == 0 && !strcmp(buf_cstr(&b), good[i].out),
		       "the canonical form of '%s' is '%s', got '%s' %s", good[i].in, good[i].out,
		       buf_cstr(&b), e.msg);
		CHECKF(urlpath_canon(b.data, b.len, 0, &again, &p, NULL) == 0 &&
			       !strcmp(buf_cstr(&again), good[i].out),
		       "the canonical form of a path is stable");
	}
}

static bool refused(const char *s, unsigned flags)
{
	autobuf struct buf b = BUF_INIT;
	struct err e = ERR_INIT;
	struct urlpath p;

	return urlpath_canon(s, strlen(s), flags, &b, &p, &e) == -EINVAL && e.msg[0];
}

static void test_refused(void)
{
	static const char *const bad[] = {
		"a",
		"*",
		"//",
		"//x/secret",
		"/a//b",
		"/a//",
		"/..",
		"/a/../..",
		"/../a",
		"/%2e%2e",
		"/./..",
		"/a\\b",
		"/a%5cb",
		"/a%5Cb",
		"/%00",
		"/%0a",
		"/%1f",
		"/%7F",
		"/%",
		"/%4",
		"/%zz",
		"/%4g",
		"/a b",
		"/a\tb",
		"/a#b",
		"/a?b#c",
		"/a?b c",
		"/\xc3\xa9",
		"/a?\xff",
		"/..;x/a",
		"/.;/a",
		"/a/..;",
		"/a/..%3bx",
		"/%2e%2e;/",
		"/%c0%af",
		"/%c0%2e",
		"/%e0%80%af",
		"/%ff",
		"/%c3",
		"/%c3a",
		"/%c3/%a9",
		"/%ed%a0%80",
		"/%a9",
		"/%252e%252e/a",
		"/%2573ecret",
		"/%255F",
		"/%25%37%33",
		"/%252f",
		"/%255c",
		"/%2500",
		"/%25252f",
		"/%252%35",
		"/%25%32f",
		"/%25%32%46",
		"/a/..//b",
		/* Segments that are empty, or dots, for one server and not for another. */
		"/;/secret/x",
		"/;",
		"/a/;x=1",
		"/a/%3b/b",
		"/a/%20/b",
		"/a/%20;x/b",
		"/a/...",
		"/a/..../b",
		"/a/..%20/b",
		"/a/.%20",
		"/a/%20../b",
		"/a/%2e%2e%20;/b",
		"/a/%EF%BC%8E%EF%BC%8E/b",
		"/a/.%EF%BC%8E/b",
		"/a/%E2%80%A5/b",
		"/a/..%EF%BC%8F..%EF%BC%8Fb",
		"/a/%EF%BC%8Fb",
		"/a%EF%BC%8Fb/../c",
		"/a/..%E2%80%8B/b",
		"/a/%EF%BB%BF/b",
		"/a/%EF%BC%9B/b",
		"/a/%EF%BC%BC%EF%BC%BCb",
		"/a%C2%85b",
		"/a/..%E2%88%95x",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECKF(refused(bad[i], 0) && refused(bad[i], URLPATH_KEEP_SLASH), "the path '%s' is refused",
		       bad[i]);
	CHECK(refused("/a%2fb", 0) && refused("/a%2Fb", 0));
}

static void test_encoded_slash(void)
{
	static const char *const bad[] = { "/a%2f",	  "/%2fa",	     "/a%2f%2fb",
					   "/a%2f..",	  "/a%2F%2e%2e%2fb", "/..%2fa",
					   "/a%2f./b",	  "/a%2f..;x",	     "/x/..%2f..%2fadmin",
					   "/a%2f..%3Bx", "/a%2fb/../c" };
	autobuf struct buf b = BUF_INIT, other = BUF_INIT;
	struct urlpath p;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECKF(refused(bad[i], URLPATH_KEEP_SLASH),
		       "the path '%s' is refused even when encoded slashes are kept", bad[i]);
	CHECK(urlpath_canon("/@babel%2fcore?x", 16, URLPATH_KEEP_SLASH, &b, &p, NULL) == 0 && p.slash);
	CHECK_STR(buf_cstr(&b), "/@babel%2Fcore?x");
	CHECK(slice_eq(urlpath_path(&b, &p), "/@babel%2Fcore") && slice_eq(urlpath_query(&b, &p), "x"));
	CHECK(urlpath_slashed(urlpath_path(&b, &p), &other) == 0);
	CHECK_STR(buf_cstr(&other), "/@babel/core");
	CHECK(urlpath_canon("/%40babel/a%20b%25%c3%a9", 24, 0, &b, &p, NULL) == 0 && p.slash);
	CHECK(urlpath_slashed(urlpath_path(&b, &p), &other) == 0);
	CHECK_STR(buf_cstr(&other), "/@babel/a%20b%25%C3%A9");
	CHECKF(urlpath_canon("/a%40/../b", 10, 0, &b, &p, NULL) == 0 && !p.slash,
	       "a segment that is resolved away keeps no encoded slash");
	CHECK(urlpath_canon("/a%20b", 6, 0, &b, &p, NULL) == 0 && !p.slash && !p.has_query);
	CHECK(urlpath_query(&b, &p).len == 0);
	CHECK(urlpath_canon("/pub%ef%bc%8f%ef%bd%93ecret", 27, 0, &b, &p, NULL) == 0 && p.slash);
	CHECK(urlpath_slashed(urlpath_path(&b, &p), &other) == 0);
	CHECK_STR(buf_cstr(&other), "/pub/secret");
	CHECK(urlpath_canon("/a%cd%bex/b%c2%a0/c%e3%80%82", 28, 0, &b, &p, NULL) == 0 && p.slash);
	CHECK(urlpath_slashed(urlpath_path(&b, &p), &other) == 0);
	CHECK_STR(buf_cstr(&other), "/a;x/b%20/c.");
}

static int folds_to(const char *path, const char *want)
{
	autobuf struct buf b = BUF_INIT, other = BUF_INIT;
	struct urlpath p;
	int r = urlpath_canon(path, strlen(path), URLPATH_KEEP_SLASH, &b, &p, NULL);

	r = r < 0 ? r : urlpath_folded(urlpath_path(&b, &p), &other);
	if (r >= 0)
		CHECK_STR(buf_cstr(&other), want);
	return r;
}

static void test_folded(void)
{
	static const char *const bad[] = {
		"/a/..%253Bx/b",
		"/a/%253B/b",
		"/a/%2520/b",
		"/a/..%2520/b",
		"/a/%EF%B8%B0/b",
		"/a/%EF%B8%99",
		"/a/.%EF%B8%8F./b",
		"/a/%EF%B8%8F/b",
		"/a/..%25EF%25BC%258Fb",
		"/a/%25E2%2580%25A5/b",
		"/a%25EF%25BC%258Fb/../c",
	};

	CHECK(folds_to("/caf%C3%A9/x", "/caf%C3%A9/x") == 0 && folds_to("/%40a%20b%25", "/@a%20b%25") == 0);
	CHECK(folds_to("/%EF%BD%81%EF%BC%A1", "/aa") == 0);
	CHECK(folds_to("/adm%C4%B1n", "/admin") == 1 && folds_to("/o%EF%AC%83ce", "/office") == 1);
	CHECK(folds_to("/%F0%9D%94%9E%F0%9D%9F%9A", "/a2") == 1 && folds_to("/a%C2%ADb", "/ab") == 1);
	CHECK(folds_to("/a%253Bb%2520c", "/a;b%20c") == 1 && folds_to("/%25C3%25A9", "/%C3%A9") == 1);
	CHECK(folds_to("/a%25C3", "/a%C3") == 1 && folds_to("/a%25zz", "/a%25zz") == 0);
	CHECK(folds_to("/x%E2%84%85y", "/xc/oy") == 1);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECKF(refused(bad[i], 0) && refused(bad[i], URLPATH_KEEP_SLASH), "the path '%s' is refused",
		       bad[i]);
}

static void test_limits(void)
{
	autobuf struct buf b = BUF_INIT;
	char *s = malloc(URLPATH_MAX + 1);
	struct urlpath p;

	memset(s, 'a', URLPATH_MAX + 1);
	s[0] = '/';
	CHECK(urlpath_canon(s, URLPATH_MAX, 0, &b, &p, NULL) == 0 && p.path_len == URLPATH_MAX);
	CHECK(urlpath_canon(s, URLPATH_MAX + 1, 0, &b, &p, NULL) == -EINVAL);
	free(s);
}

int main(void)
{
	test_canonical();
	test_refused();
	test_encoded_slash();
	test_folded();
	test_limits();
	return tap_done();
}
