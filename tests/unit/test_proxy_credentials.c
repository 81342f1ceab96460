/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "dial/proxy/proxy_credentials.h"
#include "tap.h"

static const char text[] = "p\tann:one\np\tbob:t:w o\nq\tx:y\n";

static bool is(const char *set, size_t i, const char *user, const char *password)
{
	struct slice u, pw;

	return proxy_credentials_find(text, sizeof(text) - 1, set, i, &u, &pw) && slice_eq(u, user) &&
	       slice_eq(pw, password);
}

static size_t check(const char *s)
{
	return proxy_credentials_check(s, strlen(s));
}

int main(void)
{
	static const char *const bad[] = { "p\n",	    "p\tx\n",	  "\tx:y\n",  "p\t:y\n",
					   "p\tx:\n",	    "p\tx:y",	  "p x:y\n",  "\n",
					   "p\tx:a\001b\n", "p\tx:y\r\n", "p\tx:y\nq" };
	char longest[600];
	struct slice u, pw;

	CHECK(proxy_credentials_check(text, sizeof(text) - 1) == 0);
	CHECK(proxy_credentials_check("", 0) == 0);
	CHECK(is("p", 0, "ann", "one"));
	CHECKF(is("p", 1, "bob", "t:w o"), "a password may hold a colon and a space");
	CHECKF(is("p", 2, "ann", "one") && is("p", 3, "bob", "t:w o"),
	       "the first credentials are used again after the last");
	CHECK(is("q", 5, "x", "y"));
	CHECK(!proxy_credentials_find(text, sizeof(text) - 1, "r", 0, &u, &pw));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECKF(check(bad[i]) != 0, "line %zu of the wrong credentials is refused", i);
	CHECK(check("p\ta:b\nq\tc:d\nr\te\n") == 3);
	snprintf(longest, sizeof(longest), "p\tx:%0255d\n", 0);
	CHECK(check(longest) == 0);
	snprintf(longest, sizeof(longest), "p\tx:%0256d\n", 0);
	CHECK(check(longest) == 1);
	return tap_done();
}
