/* SPDX-License-Identifier: Apache-2.0 */
/* Credentials in an answer's JSON: found, replaced, or refused; and the line that says which they are. */
#include "base/cleanup.h"
#include "base/str.h"
#include "egress/credential/capture.h"
#include "tap.h"

#define OAUTH "POST auth.example.com:443/oauth/token access_token id_token=claims refresh_token=refresh"

static char out[4096];

/* The rewritten body, with P0, P1, … in the place of credentials; "-" and why when it is refused. */
static const char *rewrite(const char *spec, const char *body, struct capture *ret)
{
	autobuf struct buf b = BUF_INIT;
	struct capture c;
	struct issue s;
	char put[32];

	BUG_ON(issue_parse(spec, &s) < 0);
	if (capture_read(&c, &s, slice_of(body)) < 0) {
		snprintf(out, sizeof(out), "-%s", c.why);
		capture_release(&c);
		return out;
	}
	if (ret)
		*ret = c;
	for (size_t i = 0; i < c.n; i++) {
		snprintf(put, sizeof(put), "P%zu", i);
		BUG_ON(capture_put(&c, i, slice_of(put)) < 0);
	}
	BUG_ON(capture_write(&c, &b) < 0);
	snprintf(out, sizeof(out), "%s", buf_cstr(&b));
	capture_release(&c);
	return out;
}

static void test_rewrite(void)
{
	struct capture c = { 0 };

	CHECK_STR(
		rewrite(OAUTH,
			"{ \"access_token\" : \"a\", \"n\": 1.5, \"refresh_token\":\"r\", \"expires_in\": 60, \"x\": \"\\u00e9\\/\" }",
			&c),
		"{\"access_token\":\"P0\",\"n\":1.5,\"refresh_token\":\"P1\",\"expires_in\":60,\"x\":\"\xc3\xa9/\"}");
	CHECK(c.n == 2 && c.v[0].expires_in == 60 && c.v[1].expires_in == 0);
	CHECK_STR(rewrite(OAUTH, "{\"\\u0061ccess\\u005ftoken\":\"\\u0061\"}", NULL),
		  "{\"access_token\":\"P0\"}");
	CHECK_STR(rewrite(OAUTH, "{\"d\":[{\"id_token\":\"x\"},[{\"access_token\":\"y\"}]]}", NULL),
		  "{\"d\":[{\"id_token\":\"P0\"},[{\"access_token\":\"P1\"}]]}");
	CHECK_STR(rewrite(OAUTH, "{\"access_token\":null,\"refresh_token\":\"\"}", NULL),
		  "{\"access_token\":null,\"refresh_token\":\"\"}");
	CHECK_STR(rewrite(OAUTH, "{\"error\":\"invalid_grant\"}", NULL), "{\"error\":\"invalid_grant\"}");
	rewrite(OAUTH, "{\"access_token\":\"a\",\"expires_in\":\"90\"}", &c);
	CHECK(c.v[0].expires_in == 90);
	rewrite(OAUTH, "{\"access_token\":\"a\",\"expires_in\":-1}", &c);
	CHECK(c.v[0].expires_in == 0);
	CHECK_STR(
		rewrite("POST h.example.com:443/x d.token e.f.t",
			"{\"d\":{\"token\":\"a\"},\"token\":\"b\",\"q\":{\"d\":{\"token\":\"c\"}},"
			"\"e\":{\"f\":{\"t\":\"d\"}}}",
			NULL),
		"{\"d\":{\"token\":\"P0\"},\"token\":\"b\",\"q\":{\"d\":{\"token\":\"c\"}},\"e\":{\"f\":{\"t\":\"P1\"}}}");
}

static void test_refused(void)
{
	static const char *const bad[] = {
		"",
		"[]",
		"[{\"access_token\":\"x\"}]",
		"\"access_token\"",
		"{\"access_token\":\"x\",\"access_token\":\"y\"}",
		"{\"a\":{\"b\":1,\"b\":2}}",
		"{\"access_token\":1}",
		"{\"access_token\":[\"x\"]}",
		"{\"access_token\":{\"v\":\"x\"}}",
		"{\"access_token\":true}",
		"{\"access_token\":\"x\"}x",
		"{\"access_token\":\"x\"",
		"{'access_token':'x'}",
		"{\"access_token\":\"\xff\"}",
		"{\"access_token\":\"a\\u0000b\"}",
		"{\"n\":1e999}",
		"{\"n\":99999999999999999999}",
		"\xef\xbb\xbf{}",
		"access_token=x&refresh_token=y",
	};
	autobuf struct buf b = BUF_INIT;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECKF(rewrite(OAUTH, bad[i], NULL)[0] == '-', "the response is not rewritten: %s: %s",
		       bad[i], out);
	for (int i = 0; i < 100; i++)
		buf_adds(&b, "{\"a\":");
	buf_adds(&b, "{\"access_token\":\"x\"}");
	for (int i = 0; i < 100; i++)
		buf_adds(&b, "}");
	CHECKF(rewrite(OAUTH, buf_cstr(&b), NULL)[0] == '-',
	       "a response with 100 levels is not rewritten: %s", out);
	buf_clear(&b);
	buf_adds(&b, "{\"l\":[");
	for (int i = 0; i < CAPTURE_MAX + 1; i++)
		buf_addf(&b, "%s{\"access_token\":\"x%d\"}", i ? "," : "", i);
	buf_adds(&b, "]}");
	CHECKF(rewrite(OAUTH, buf_cstr(&b), NULL)[0] == '-',
	       "a response with too many credentials is not rewritten: %s", out);
}

static void test_spec(void)
{
	static const char *const bad[] = {
		"",
		"POST",
		"POST /x a",
		"POST h.example.com:443/x",
		"POST h.example.com/x a",
		"POST h.example.com:443 a",
		"post h.example.com:443/x a",
		"POST h.example.com:443/x a a",
		"POST h.example.com:443/x a=other",
		"POST h.example.com:443/x a ",
		"POST  h.example.com:443/x a",
		"POST h.example.com:443/x .a",
		"POST h.example.com:443/x/* a=refresh",
		"POST H.example.com:443/x a",
		"POST h.example.com:443/x a b c d e f g h i",
	};
	struct issue s;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECKF(issue_parse(bad[i], &s) < 0, "the specification of an issuer is refused: '%s'",
		       bad[i]);
	CHECK(issue_parse("POST h.example.com:443/x/*/y a b=claims", &s) == 0 && s.n == 2 &&
	      s.v[1].how == ISSUE_CLAIMS);
	CHECK(issue_parse(OAUTH, &s) == 0 && s.port == 443 && str_eq(s.path, "/oauth/token"));
	CHECK(issue_is_endpoint(&s, "POST", slice_of("/oauth/token")));
	CHECK(issue_is_endpoint(&s, "POST", slice_of("/OAuth/token/")));
	CHECK(issue_is_endpoint(&s, "POST", slice_of("/oauth/token;x=1")));
	CHECKF(issue_is_endpoint(&s, "POST", slice_of("/oauth/token.json")) &&
		       issue_is_endpoint(&s, "POST", slice_of("/oauth/token.json/")) &&
		       issue_is_endpoint(&s, "POST", slice_of("/oauth/token.x.json;y=1")),
	       "a format behind the last segment does not make it another endpoint");
	CHECK(!issue_is_endpoint(&s, "POST", slice_of("/oauth.json/token2")));
	CHECK(!issue_is_endpoint(&s, "POST", slice_of("/.json")));
	CHECK(!issue_is_endpoint(&s, "GET", slice_of("/oauth/token")));
	CHECK(!issue_is_endpoint(&s, "POST", slice_of("/oauth/tokens")));
}

int main(void)
{
	capture_begin();
	test_rewrite();
	test_refused();
	test_spec();
	return tap_done();
}
