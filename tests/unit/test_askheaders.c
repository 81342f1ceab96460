/* SPDX-License-Identifier: Apache-2.0 */
/* The headers of a request that people are shown: all, or the names of the others, or nothing is asked. */
#include "base/str.h"
#include "egress/message/askheaders.h"
#include "tap.h"

#include <errno.h>

#define MAX 1024

static struct http_fields f;
static struct buf what;

static void add(const char *name, const char *value)
{
	if (http_fields_add(&f, slice_of(name), slice_of(value)) < 0)
		exit(99);
}

static int words(const char *before)
{
	int r;

	buf_clear(&what);
	buf_adds(&what, before);
	r = askheaders_add(&f, MAX, &what);
	http_fields_clear(&f);
	return r;
}

static bool says(const char *text)
{
	if (!strstr(buf_cstr(&what), text))
		printf("# %s\n", buf_cstr(&what));
	return strstr(buf_cstr(&what), text) != NULL;
}

static void test_shown(void)
{
	static const char *const junk[] = { "a", "b", "c", "d", "e", "f" };

	CHECK(words("") == 0 && what.len == 0);
	add("accept", "*/*");
	add("user-agent", "x");
	CHECK(words("mutation m") == 0);
	CHECK_STR(buf_cstr(&what), "mutation m");
	/* Any number of others does not hide the one that counts. */
	for (size_t i = 0; i < ARRAY_SIZE(junk); i++)
		add(junk[i], "1");
	add("x-amz-target", "DynamoDB_20120810.DeleteTable-and-what-is-longer-than-forty-bytes");
	CHECK(words("mutation m") == 0);
	CHECK(says("mutation m; a: 1; b: 1; ") &&
	      says("f: 1; x-amz-target: DynamoDB_20120810.DeleteTable-and") &&
	      !strstr(buf_cstr(&what), "hidden"));
	CHECK(strlen(strstr(buf_cstr(&what), "; headers ")) == strlen("; headers ") + 64);
}

/* As HTTP/1.1 spells them: the same words, the same digest. */
static void test_spelled(void)
{
	autobuf struct buf one = BUF_INIT;
	char longer[400];

	add("authorization", "Bearer own");
	add("x-target", "Describe");
	add("x-request-id", "1");
	CHECK(words("") == 0);
	buf_adds(&one, buf_cstr(&what));
	add("Authorization", "Bearer own");
	add("X-Target", "Describe");
	add("X-Request-Id", "2");
	CHECK(words("") == 0 && !strstr(buf_cstr(&what), "own"));
	CHECK_STR(buf_cstr(&what), buf_cstr(&one));
	add("X-AUTH-Thing", "own");
	add("Set-Cookie2", "own");
	add("X-ApiKey", "own");
	CHECK(words("") == 0 && says("headers hidden (3): x-auth-thing, set-cookie2, x-apikey; ") &&
	      !strstr(buf_cstr(&what), "own"));
	/* H4 */
	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	add("User-Agent", longer);
	CHECK(words("") == 0 && says("user-agent"));
	longer[250] = '\0';
	for (int i = 0; i < 5; i++)
		add("accept", longer);
	CHECK(words("") == 0 && says("accept: xxx") &&
	      !strstr(strstr(buf_cstr(&what), "accept") + 1, "accept"));
}

static void test_named(void)
{
	char longer[700];

	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	add("authorization", "Bearer own");
	add("x-one", longer);
	add("x-amz-target", "DeleteTable");
	add("x-two", longer);
	CHECK(words("") == 0 && what.len <= MAX);
	CHECK(says("x-amz-target: DeleteTable; ") &&
	      says("; headers hidden (2): authorization, x-one; headers "));
	CHECK(!strstr(buf_cstr(&what), "own"));
	/* Many short ones: the value may be hidden, and then its name is said. */
	for (int i = 0; i < 40; i++) {
		char name[16];

		snprintf(name, sizeof(name), "h%d", i);
		add(name, "12345678901234567890");
	}
	add("x-amz-target", "DeleteTable-of-the-accounts-in-production");
	CHECK(words("") == 0 && what.len <= MAX && says("headers hidden (") &&
	      says(" x-amz-target; headers "));
	/* Too many headers are not shown even by name. */
	for (int i = 0; i < 60; i++) {
		char name[64];

		snprintf(name, sizeof(name), "x-header-with-a-long-name-%d", i);
		add(name, "1");
	}
	CHECK(words("") == -E2BIG);
}

static void test_hostile(void)
{
	char one[96], two[96];

	/* A value that looks like other headers. */
	add("a", "1; x-amz-target: Describe");
	add("x-amz-target", "Delete");
	CHECK(words("") == 0 && says("a: \"1; x-amz-target: Describe\"; x-amz-target: Delete; "));
	add("a", "1\"; x-amz-target: \"Describe");
	CHECK(words("") == 0 && says("headers hidden (1): a; ") && !strstr(buf_cstr(&what), "Describe"));
	/* Values that are not shown are bound too. */
	add("authorization", "one");
	CHECK(words("") == 0);
	snprintf(one, sizeof(one), "%s", strstr(buf_cstr(&what), "; headers "));
	add("authorization", "two");
	CHECK(words("") == 0);
	snprintf(two, sizeof(two), "%s", strstr(buf_cstr(&what), "; headers "));
	CHECK(!str_eq(one, two));
}

int main(void)
{
	test_shown();
	test_spelled();
	test_named();
	test_hostile();
	http_fields_release(&f);
	buf_release(&what);
	return tap_done();
}
