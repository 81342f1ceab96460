/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/str.h"
#include "tap.h"
#include "vault/common/binding.h"

#include <errno.h>

static bool takes(const char *text, unsigned flags, struct binding *b)
{
	struct err e = ERR_INIT;
	int r;

	*b = (struct binding){ 0 };
	r = binding_parse_host(text, strlen(text), flags, b, &e);
	if (r < 0 && (!e.msg[0] || b->host[0]))
		tap_ok(false, __FILE__, __LINE__, "%s is refused whole, with a message", text);
	return r == 0;
}

static void test_hosts(void)
{
	static const char *const bad[] = { "",
					   "*",
					   "*.example.com",
					   "api.*.com",
					   "com",
					   "co.uk",
					   "github.io",
					   "localhost",
					   "https://api.example.com",
					   "api.example.com:0",
					   "api.example.com:65536",
					   "api.example.com:",
					   "a b.example.com",
					   "api.example.com/a?b=c",
					   "api.example.com/../x",
					   "api.example.com//x",
					   "api.example.com/a%2fb",
					   "api.example.com/a%40b",
					   "10.0.0.1",
					   "[::1]:443",
					   "2130706433",
					   "user@example.com",
					   "api.example.com/\x01",
					   "b\xc3\xbc.example.com" };
	struct binding b;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECKF(!takes(bad[i], 0, &b), "the binding is refused: %s", bad[i]);
	CHECK(takes("API.Example.com.", 0, &b) && str_eq(b.host, "api.example.com") && b.port == 443 &&
	      str_eq(b.path, "/"));
	CHECK(takes("api.example.com:8443/v1/", 0, &b) && b.port == 8443 && str_eq(b.path, "/v1"));
	CHECK(takes("api.example.com/a/./b/%7Euser", 0, &b) && str_eq(b.path, "/a/b/~user"));
	CHECK(takes("api.example.com/", 0, &b) && str_eq(b.path, "/"));
	CHECKF(takes("10.0.0.1:8443", BINDING_ADDRESS, &b) && str_eq(b.host, "10.0.0.1"),
	       "an address is a host where addresses are accepted");
	CHECK(takes("[2001:db8::1]", BINDING_ADDRESS, &b) && str_eq(b.host, "2001:db8::1"));
	CHECKF(takes("api.example.com", BINDING_ASKED, &b) && b.port == 0,
	       "a binding that is asked for without a port covers any port");
}

static bool as(const char *text, struct binding *b)
{
	*b = (struct binding){ 0 };
	return binding_parse_as(text, strlen(text), b, NULL) == 0;
}

static void test_as(void)
{
	static const char *const bad[] = { "",
					   "any",
					   "Bearer",
					   "header",
					   "header:",
					   "header:a b",
					   "header:host",
					   "header:Cookie",
					   "header:content-length",
					   "query:",
					   "query:a=b",
					   "query:a&b",
					   "bearer:x",
					   "cookie:",
					   "cookie:a;b",
					   "path:x",
					   "nonsense" };
	struct binding b;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECKF(!as(bad[i], &b) && b.as == 0, "the way of a binding is refused: %s", bad[i]);
	CHECK(as("bearer", &b) && b.as == BINDING_AS_BEARER);
	CHECK(as("header:X-Api-Key", &b) && b.as == BINDING_AS_HEADER && str_eq(b.word, "x-api-key"));
	CHECK(as("query:Key", &b) && b.as == BINDING_AS_QUERY && str_eq(b.word, "Key"));
	CHECK(as("cookie", &b) && b.as == BINDING_AS_COOKIE && !*b.word && as("cookie:sid", &b) &&
	      str_eq(b.word, "sid"));
	CHECK(as("ssh", &b) && binding_takes_lines(&b) && as("body", &b) && binding_takes_lines(&b));
	CHECK(as("basic", &b) && binding_set_user(&b, "ann", NULL) == 0 &&
	      binding_set_user(&b, "a:b", NULL) == -EINVAL);
	CHECK(as("bearer", &b) && binding_set_user(&b, "ann", NULL) == -EINVAL);
	b = (struct binding){ .host = "api.anthropic.com" };
	binding_usual_as(&b);
	CHECK(b.as == BINDING_AS_HEADER && str_eq(b.word, "x-api-key"));
	CHECK(binding_usual_other(&b) && b.as == BINDING_AS_BEARER && !b.word[0]);
	b = (struct binding){ .host = "api.openai.com", .as = BINDING_AS_BEARER };
	CHECK(!binding_usual_other(&b) && b.as == BINDING_AS_BEARER);
}

static bool covers(const char *bound, const char *host, uint16_t port, const char *path)
{
	struct binding b;

	return takes(bound, 0, &b) && binding_covers(&b, host, port, slice_of(path));
}

static void test_covers(void)
{
	CHECK(covers("api.example.com/v1", "api.example.com", 443, "/v1"));
	CHECK(covers("api.example.com/v1", "api.example.com", 443, "/v1/x"));
	CHECKF(!covers("api.example.com/v1", "api.example.com", 443, "/v10"),
	       "a path of a binding ends at a slash");
	CHECK(!covers("api.example.com/v1", "api.example.com", 443, "/"));
	CHECK(!covers("api.example.com/v1", "api.example.com", 443, "/V1/x"));
	CHECK(covers("api.example.com", "api.example.com", 443, "/anything"));
	CHECK(!covers("api.example.com", "api.example.com", 8443, "/") &&
	      !covers("api.example.com", "example.com", 443, "/"));
	CHECK(!covers("example.com", "api.example.com", 443, "/"));
	CHECKF(covers("api.example.com/a", "api.example.com", 443, "/a/b%2Fc"),
	       "a path is covered when both of its readings are below the binding");
	CHECKF(!covers("api.example.com/a/b", "api.example.com", 443, "/a%2Fb"),
	       "a path is not covered when only one reading is below the binding");
}

static bool meets(const char *own, const char *ask, const char *ask_as, struct binding *ret)
{
	struct binding a, b;

	if (!takes(own, 0, &a) || binding_parse_as("bearer", 6, &a, NULL) < 0 ||
	    !takes(ask, BINDING_ASKED, &b))
		return false;
	if (ask_as && binding_parse_as(ask_as, strlen(ask_as), &b, NULL) < 0)
		return false;
	return binding_meet(&a, &b, ret);
}

static struct binding ssh(const char *as)
{
	struct binding b = { .host = "git.example.com", .port = 22, .path = "/" };

	BUG_ON(binding_parse_as(as, strlen(as), &b, NULL) < 0);
	return b;
}

static void test_ask(void)
{
	static const struct {
		const char *own, *ask, *both; /* NULL: nothing */
	} t[] = {
		{ "ssh", "ssh", "" },
		{ "ssh", "ssh:ask", "ask" },
		{ "ssh:ask", "ssh", "ask" },
		{ "ssh:ask,sshsig", "ssh", "ask,sshsig" },
		{ "ssh:sshsig", "ssh:ask", "ask,sshsig" },
		{ "ssh:unbound", "ssh:ask,sshsig", NULL },
	};
	static const char *const bad[] = { "ssh:ask,",	  "ssh:,ask", "ssh:sshsig,ask",
					   "ssh:ask,ask", "ssh:asks", "bearer:ask" };
	struct binding b, got;

	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		struct binding own = ssh(t[i].own), ask = ssh(t[i].ask);
		bool met = binding_meet(&own, &ask, &got);

		CHECKF(t[i].both ? met && str_eq(got.word, t[i].both) && binding_is_good(&got, 0) : !met,
		       "the narrower of two bindings is kept: %s and %s", t[i].own, t[i].ask);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECKF(binding_parse_as(bad[i], strlen(bad[i]), &b, NULL) == -EINVAL,
		       "the way '%s' is refused", bad[i]);
	b = ssh("ssh:sshsig");
	CHECK(!binding_asks(&b) && binding_set_ask(&b, NULL) == 0 && binding_asks(&b) &&
	      binding_allows_sshsig(&b) && !binding_allows_unbound(&b) && str_eq(b.word, "ask,sshsig"));
	CHECK(binding_set_ask(&b, NULL) == 0 && str_eq(b.word, "ask,sshsig"));
	b = (struct binding){ .as = BINDING_AS_BEARER };
	CHECK(binding_set_ask(&b, NULL) == -EINVAL && !binding_asks(&b));
}

static void test_meet(void)
{
	struct binding b;

	CHECK(meets("api.example.com/v1", "api.example.com", NULL, &b) && str_eq(b.path, "/v1") &&
	      b.port == 443 && b.as == BINDING_AS_BEARER);
	CHECK(meets("api.example.com/v1", "api.example.com/v1/x", NULL, &b) && str_eq(b.path, "/v1/x"));
	CHECK(meets("api.example.com", "api.example.com:443/a", "bearer", &b) && str_eq(b.path, "/a"));
	CHECKF(!meets("api.example.com/v1", "api.example.com/v2", NULL, &b),
	       "bindings with different paths do not meet");
	CHECKF(!meets("api.example.com", "api.example.com:8443", NULL, &b),
	       "bindings with different ports do not meet");
	CHECKF(!meets("api.example.com", "example.com", NULL, &b),
	       "bindings with different hosts do not meet");
	CHECKF(!meets("api.example.com", "api.example.com", "query:key", &b),
	       "bindings with different ways do not meet");
}

static void test_describe(void)
{
	autobuf struct buf out = BUF_INIT;
	struct binding b;

	CHECK(takes("[2001:db8::1]:8443/x", BINDING_ADDRESS, &b) &&
	      binding_parse_as("basic", 5, &b, NULL) == 0 && binding_set_user(&b, "ann", NULL) == 0);
	binding_describe(&b, &out);
	CHECK_STR(buf_cstr(&out), "[2001:db8::1]:8443/x as basic (user ann)");
	CHECK(binding_is_good(&b, 0));
	memcpy(b.path, "/x/", 4);
	CHECKF(!binding_is_good(&b, 0), "a binding with a path that is not canonical is no good");
}

int main(void)
{
	test_hosts();
	test_as();
	test_covers();
	test_meet();
	test_ask();
	test_describe();
	return tap_done();
}
