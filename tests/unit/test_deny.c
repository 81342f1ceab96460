/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "egress/account/deny.h"
#include "tap.h"

#include <jansson.h>

static void test_json(void)
{
	static const char *const keys[] = { "error", "message", "host",	  "port",      "method",
					    "path",  "rule",	"reason", "how_to_ask" };
	struct denial all = { .host = "a.test",
			      .port = 443,
			      .method = "PUT",
			      .path = "/x\x1b[31m",
			      .rule = "deny a.test",
			      .reason = "because \"so\"",
			      .hint = "ask ann" };
	struct denial none = { 0 };
	struct denial *both[] = { &all, &none };

	for (int i = 0; i < 2; i++) {
		autobuf struct buf b = BUF_INIT;
		json_t *j;
		const char *key;
		json_t *value;
		size_t n = 0;
		bool same = true;

		deny_json(&b, both[i]);
		j = json_loads(buf_cstr(&b), 0, NULL);
		CHECKF(j != NULL, "the body of a denial is JSON");
		json_object_foreach(j, key, value)
		{
			same = same && n < ARRAY_SIZE(keys) && strcmp(key, keys[n]) == 0;
			n++;
		}
		CHECKF(same && n == ARRAY_SIZE(keys),
		       "the keys of a denial are always the same, in one order");
		if (i == 0)
			CHECK_STR(
				json_string_value(json_object_get(j, "message")),
				"coffer: PUT a.test:443/x\\x1b[31m is denied: because \"so\" [deny a.test]");
		json_decref(j);
	}
}

/* A denial that is shown inside never has a path of the host in it. */
static void test_no_directory(void)
{
	static const char *const texts[] = {
		"denied by the rule deny bad.test:* (/home/ann/secret project/p.yaml:8)",
		"(/home/ann/p.yaml:8) and (/home/ann/q.yaml:9) name different ways to it",
		"allow bad.test:443 (/home/ann (work)/p.yaml:8): GET /a/b is not listed",
		"allow bad.test:443 (/home/ann/a-very-long-name-that-was-cu...",
		"allow bad.test:443 (/home/ann)x/p.yaml:8)",
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct denial by_reason = { .host = "bad.test", .reason = texts[i] };
		struct denial by_rule = {
			.host = "bad.test", .rule = texts[i], .status = 403, .method = "GET"
		};
		autobuf struct buf b = BUF_INIT;

		deny_json(&b, &by_reason);
		deny_json(&b, &by_rule);
		deny_line(&b, &by_rule);
		deny_http1(&b, &by_reason, false);
		deny_http1(&b, &by_rule, true);
		CHECKF(!strstr(buf_cstr(&b), "home") && !strstr(buf_cstr(&b), "ann/"),
		       "no directory of the host is told inside: %s", texts[i]);
	}
	{
		struct denial d = { .reason = texts[2] };
		autobuf struct buf b = BUF_INIT;

		deny_line(&b, &d);
		CHECKF(strstr(buf_cstr(&b), "(p.yaml:8)") && strstr(buf_cstr(&b), "GET /a/b is not listed"),
		       "a denial names the policy's file and the path of the request: %s", buf_cstr(&b));
	}
}

static void test_http(void)
{
	struct denial d = { .host = "a.test", .port = 80, .reason = "x\r\nSet-Cookie: y" };
	autobuf struct buf b = BUF_INIT, head = BUF_INIT;
	const char *body;

	deny_http1(&b, &d, false);
	body = strstr(buf_cstr(&b), "\r\n\r\n");
	CHECK(strncmp(b.data, "HTTP/1.1 403 Forbidden\r\n", 24) == 0 && body && body[4] == '{');
	CHECKF(!strstr(buf_cstr(&b), "\nSet-Cookie"), "a reason cannot add a header");
	CHECK(strstr(buf_cstr(&b), "Coffer-Denied: coffer: a.test:80 is denied: x") != NULL);
	deny_http1(&head, &d, true);
	CHECKF(strcmp(strstr(buf_cstr(&head), "\r\n\r\n"), "\r\n\r\n") == 0,
	       "a denied HEAD request gets no body");
	d.status = 421;
	buf_clear(&b);
	deny_http1(&b, &d, false);
	CHECK(strncmp(b.data, "HTTP/1.1 421 ", 13) == 0);
}

static void test_places(void)
{
	struct denial d = { .host = "a.test",
			    .rule = "deny a.test:* (/home/ann/team.yaml:12)",
			    .reason = "denied by (/x/y.yaml:1) and (or not) (/z" };
	autobuf struct buf b = BUF_INIT;

	deny_line(&b, &d);
	CHECK_STR(
		buf_cstr(&b),
		"coffer: a.test is denied: denied by (y.yaml:1) and (or not) (z [deny a.test:* (team.yaml:12)]");
}

int main(void)
{
	test_places();
	test_json();
	test_no_directory();
	test_http();
	return tap_done();
}
