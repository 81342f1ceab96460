/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/shorten.h"
#include "tap.h"

#include <string.h>

static const char *cut(const char *text, size_t max)
{
	static char shown[512];
	autobuf struct buf out = BUF_INIT;

	shorten_text(text, max, "...", &out);
	snprintf(shown, sizeof(shown), "%s", buf_cstr(&out));
	return shown;
}

#define EVIL "api.github.com.releases.download.cdn.evil.test"

static void test_hosts(void)
{
	CHECK_STR(cut("api.github.com", 14), "api.github.com");
	CHECK_STR(cut(EVIL, strlen(EVIL)), EVIL);
	CHECK_STR(cut(EVIL, 30), "...download.cdn.evil.test");
	CHECK_STR(cut(EVIL, 20), "...cdn.evil.test");
	CHECK_STR(cut(EVIL, 15), "...evil.test");
	CHECKF(!strcmp(cut(EVIL, 11), "..."),
	       "nothing of a host is shown when its registrable domain does not fit: %s", cut(EVIL, 11));
	CHECK_STR(cut("GET https://" EVIL "/a/b", 35), "GET https://...cdn.evil.test...");
	CHECK_STR(cut("GET https://" EVIL ":8443/a/b", 26), "GET https://...");
	CHECK_STR(cut("*." EVIL " to all", 24), "*....cdn.evil.test...");
	CHECKF(!strcmp(cut("x.y.z.example.co.uk", 17), "...example.co.uk"),
	       "a host is cut by the public suffix list");
	CHECKF(!strcmp(cut("x.y.z.example.co.uk", 14), "..."), "a public suffix is never cut");
	CHECK_STR(cut("10.1.2.3.4.5.6.7.8 and more", 12), "10.1.2.3....");
}

static void test_text(void)
{
	CHECK_STR(cut("short", 5), "short");
	CHECK_STR(cut("a long sentence", 9), "a long...");
	CHECK_STR(cut("/a/verylongpathwithoutanydot", 12), "/a/verylo...");
	CHECKF(!strcmp(cut("\xc3\xa4\xc3\xb6\xc3\xbc\xc3\xa4", 6), "\xc3\xa4..."),
	       "characters of several bytes are not cut apart");
	CHECK_STR(cut("abcdef", 2), "");
	CHECK_STR(cut("", 0), "");
}

/* Every shown part of a host has its end: tried for every width. */
static void test_each_width(void)
{
	static const char *const texts[] = { EVIL, "POST https://" EVIL "/x",
					     "allow " EVIL ":443 because I said so" };

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		bool good = true;

		for (size_t max = 3; max < strlen(texts[i]); max++) {
			const char *s = cut(texts[i], max);

			good = good && strlen(s) <= max && (!strstr(s, "github") || strstr(s, "evil.test"));
		}
		CHECKF(good, "the host in '%s' keeps its end at every width", texts[i]);
	}
}

int main(void)
{
	test_hosts();
	test_text();
	test_each_width();
	return tap_done();
}
