/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/hostpat.h"

#include "policy/psl.h"
#include "tap.h"

static bool match(const char *pattern, const char *name)
{
	struct hostpat p;
	struct host h;

	return hostpat_parse(pattern, strlen(pattern), &p, NULL) == 0 &&
	       host_canon(name, strlen(name), &h, NULL) == 0 && hostpat_match(&p, &h);
}

static bool refused(const char *pattern, const char *why)
{
	struct err e = ERR_INIT;
	struct hostpat p;

	if (hostpat_parse(pattern, strlen(pattern), &p, &e) == 0)
		return false;
	if (!strstr(e.msg, why) && !strstr(e.hint, why))
		printf("# %s: %s (%s)\n", pattern, e.msg, e.hint);
	return strstr(e.msg, why) || strstr(e.hint, why);
}

static bool covers(const char *a, const char *b)
{
	struct hostpat x, y;

	return hostpat_parse(a, strlen(a), &x, NULL) == 0 && hostpat_parse(b, strlen(b), &y, NULL) == 0 &&
	       hostpat_covers(&x, &y);
}

static void test_psl(void)
{
	CHECK(psl_is_suffix("com") && psl_is_suffix("co.uk") && psl_is_suffix("github.io"));
	CHECK(psl_is_suffix("nosuchtld") && psl_is_suffix("test"));
	CHECK(!psl_is_suffix("example.com") && !psl_is_suffix("example.co.uk") &&
	      !psl_is_suffix("example.test"));
	/* *.ck with the exception www.ck */
	CHECK(psl_is_suffix("anything.ck") && !psl_is_suffix("www.ck"));
	CHECK(psl_is_suffix("xn--55qx5d.cn"));
	CHECK_STR(psl_registrable("a.b.example.co.uk"), "example.co.uk");
	CHECK_STR(psl_registrable("example.com"), "example.com");
	CHECK_STR(psl_registrable("x.www.ck"), "www.ck");
	CHECK_STR(psl_registrable("me.github.io"), "me.github.io");
	CHECK_STR(psl_registrable("a.b.test"), "b.test");
	CHECK(psl_registrable("com") == NULL && psl_registrable("co.uk") == NULL);
	CHECK(psl_count() > 5000);
}

int main(void)
{
	CHECK(match("github.com", "github.com"));
	CHECK(match("github.com", "GitHub.COM."));
	CHECK(!match("github.com", "api.github.com"));
	CHECK(match("*.github.com", "api.github.com"));
	CHECK(match("*.github.com", "a.b.c.github.com"));
	CHECK(!match("*.github.com", "github.com"));
	CHECK(!match("*.github.com", "evilgithub.com"));
	CHECK(!match("*.github.com", "github.com.evil.org"));
	CHECK(match("*", "anything.example") && match("*", "1.2.3.4"));
	CHECK(!match("*.4", "1.2.3.4"));
	CHECK(refused("GitHub.com", "write github.com"));
	CHECK(refused("github.com.", "write github.com"));
	CHECK(refused("*.GitHub.com", "write *.github.com"));
	CHECK(refused("git*.com", "whole first label"));
	CHECK(refused("a.*.com", "whole first label"));
	CHECK(refused("**.com", "whole first label"));
	CHECK(refused("*.", ""));
	CHECK(refused("", "missing"));
	CHECK(refused("1.2.3.4", "address: 1.2.3.4"));
	CHECK(refused("127.1", "") && refused("0x7f.1", "") && refused("2130706433", ""));
	CHECK(refused("b\xc3\xbc"
		      "cher.example",
		      ""));
	CHECK(refused("a b.com", "") && refused("a\x01.com", "") && refused("a/b", ""));
	CHECK(covers("*", "a.com") && covers("*.a.com", "b.a.com") && covers("*.a.com", "*.b.a.com"));
	CHECK(!covers("*.a.com", "a.com") && !covers("a.com", "*.a.com") && !covers("*.a.com", "*"));
	CHECK(covers("*.a.com", "*.a.com"));
	test_psl();
	return tap_done();
}
