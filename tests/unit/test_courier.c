/* SPDX-License-Identifier: Apache-2.0 */
#include "courier/courier_http.h"

#include "base/cleanup.h"
#include "tap.h"

#include <errno.h>

static struct courier_job good(void)
{
	struct courier_job j = { .flags = COURIER_HAS_STORE | COURIER_HAS_KEY,
				 .auth = COURIER_SIGN,
				 .timeout_ms = 1000,
				 .port = 8443,
				 .method = "POST",
				 .target = slice_of("/in?x=y"),
				 .fields = slice_of("content-type: application/json\n"),
				 .body = slice_of("{}") };

	BUG_ON(host_canon("hooks.example.com", 17, &j.host, NULL) < 0);
	return j;
}

static bool packs(const struct courier_job *j)
{
	autobuf struct buf b = BUF_INIT;

	return courier_job_pack(j, &b) == 0;
}

static void test_job(void)
{
	autobuf struct buf b = BUF_INIT;
	struct courier_job j = good(), back;

	CHECK(courier_job_pack(&j, &b) == 0);
	CHECK(courier_job_parse(b.data, b.len, 2, &back) == 0);
	CHECK(slice_eq(back.target, "/in?x=y") && slice_eq(back.body, "{}") && back.port == 8443 &&
	      host_eq(&back.host, &j.host));
	CHECK(courier_job_parse(b.data, b.len, 1, &back) == -EBADMSG);
	CHECK(courier_job_parse(b.data, b.len - 1, 2, &back) == -EBADMSG);
	buf_addc(&b, 'x');
	CHECK(courier_job_parse(b.data, b.len, 2, &back) == -EBADMSG);
	CHECK(courier_job_parse("", 0, 0, &back) == -EBADMSG);
}

static void test_job_bounds(void)
{
	struct courier_job j = good();

	j.fields = slice_of("a: b\r\nx: y\n");
	CHECK(!packs(&j));
	j.fields = slice_of("authorization: mine\n");
	CHECK(!packs(&j));
	j.fields = slice_of("Content-Length: 3\n");
	CHECK(!packs(&j));
	j.fields = slice_of("no-end: x");
	CHECK(!packs(&j));
	j = good();
	j.target = slice_of("/a/../b");
	CHECK(!packs(&j));
	j.target = slice_of("/a b");
	CHECK(!packs(&j));
	j = good();
	snprintf(j.method, sizeof(j.method), "CONNECT");
	CHECK(!packs(&j));
	j = good();
	j.flags = COURIER_HAS_KEY; /* nobody to verify by */
	CHECK(!packs(&j));
	j = good();
	j.auth = COURIER_NO_AUTH; /* a key for nothing */
	CHECK(!packs(&j));
	j = good();
	j.flags |= COURIER_HAS_VAULT;
	CHECK(!packs(&j));
	j = good();
	j.flags |= COURIER_HAS_PIN; /* without a port */
	CHECK(!packs(&j));
	j.pin_port = 443;
	CHECK(packs(&j));
	j = good();
	j.timeout_ms = 0;
	CHECK(!packs(&j));
}

static bool has(const struct buf *b, const char *text)
{
	return strstr(buf_cstr(b), text) != NULL;
}

static void test_request(void)
{
	autobuf struct buf b = BUF_INIT, c = BUF_INIT, d = BUF_INIT;
	struct courier_job j = good();

	CHECK(courier_request(&j, slice_of("key"), 1700000000, &b) == 0);
	CHECK(has(&b, "POST /in?x=y HTTP/1.1\r\nhost: hooks.example.com:8443\r\n"));
	/* printf '1700000000.{}' | openssl dgst -sha256 -hmac key */
	CHECK(has(&b,
		  "coffer-signature: "
		  "t=1700000000,v1=9d713ed406bb7076d4123f0dc2c39d2df5c654ed4b0cd56b52c8b4c940bd63ae\r\n"));
	CHECK(has(&b, "content-length: 2\r\n") && has(&b, "\r\n\r\n{}") && !has(&b, "key\r"));
	j.auth = COURIER_BEARER;
	CHECK(courier_request(&j, slice_of("tok"), 1, &c) == 0 && has(&c, "authorization: Bearer tok\r\n"));
	CHECK(courier_request(&j, slice_of("a\r\nx: y"), 1, &d) < 0);
}

static int answer(struct courier_response *a, const char *text)
{
	courier_response_init(a, "POST");
	return courier_response_feed(a, text, strlen(text));
}

static void test_answers(void)
{
	static const struct {
		const char *text;
		int want;
		unsigned status;
		const char *body;
	} of[] = {
		{ "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nx", 1, 200, "" },
		{ "HTTP/1.1 200 O", 0, 0, "" },
		{ "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", 1, 204, "" },
		{ "HTTP/1.1 302 Found\r\nlocation: https://x/\r\ncontent-length: 0\r\n\r\n", 1, 302, "" },
		{ "HTTP/1.1 403 No\r\ncontent-length: 2\r\n\r\nno", 1, 403, "no" },
		{ "HTTP/1.1 500 No\r\ntransfer-encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n", 1, 500, "no" },
		{ "HTTP/1.1 500 No\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", 1, 500, "" },
		{ "HTTP/1.1 500 No\r\n\r\nuntil the end", 0, 500, "until the end" },
		{ "HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n", -EBADMSG, 0, "" },
		{ "SSH-2.0-x\r\n", -EBADMSG, 0, "" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(of); i++) {
		struct courier_response a;
		int r = answer(&a, of[i].text);

		CHECKF(r == of[i].want && a.status == of[i].status &&
			       strcmp(buf_cstr(&a.text), of[i].body) == 0,
		       "response %zu of the courier is parsed", i);
		CHECKF(courier_response_end(&a) == (of[i].status ? 1 : -EPIPE),
		       "the end of response %zu is judged by its status", i);
		courier_response_release(&a);
	}
}

static void test_bounds(void)
{
	static const char interim[] = "HTTP/1.1 100 Continue\r\n\r\n";
	autobuf struct buf many = BUF_INIT, big = BUF_INIT;
	struct courier_response a;

	for (int i = 0; i < 20; i++)
		buf_adds(&many, interim);
	CHECK(answer(&a, buf_cstr(&many)) == -EBADMSG);
	courier_response_release(&a);
	buf_adds(&big, "HTTP/1.1 500 No\r\n\r\n");
	for (int i = 0; i < 10000; i++)
		buf_addc(&big, 'x');
	CHECK(answer(&a, buf_cstr(&big)) == 1 && a.text.len == RESPONSE_TEXT_MAX);
	courier_response_release(&a);
	CHECK(answer(&a, "HTTP/1.1 503 No\r\nretry-after: 99999999999\r\ncontent-length: 0\r\n\r\n") == 1 &&
	      a.retry_after == RESPONSE_RETRY_MAX);
	courier_response_release(&a);
	CHECK(answer(&a, "HTTP/1.1 503 No\r\nretry-after: 7\r\ncontent-length: 0\r\n\r\n") == 1 &&
	      a.retry_after == 7);
	courier_response_release(&a);
}

static void test_result(void)
{
	struct courier_result r = { .magic = COURIER_RESULT_MAGIC, .status = 200 }, back;

	CHECK(courier_result_check(&r, sizeof(r), &back) == 0);
	CHECK(courier_result_check(&r, sizeof(r) - 1, &back) == -EBADMSG);
	r.status = 0;
	CHECK(courier_result_check(&r, sizeof(r), &back) == -EBADMSG);
	r.error = -EPIPE;
	CHECK(courier_result_check(&r, sizeof(r), &back) == 0);
	r.error = 1;
	CHECK(courier_result_check(&r, sizeof(r), &back) == -EBADMSG);
	r.error = -EPIPE;
	memset(r.why, 'x', sizeof(r.why));
	CHECK(courier_result_check(&r, sizeof(r), &back) == -EBADMSG);
}

int main(void)
{
	test_job();
	test_job_bounds();
	test_request();
	test_answers();
	test_bounds();
	test_result();
	return tap_done();
}
