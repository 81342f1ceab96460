/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/http/http1.h"
#include "tap.h"

#include <errno.h>
#include <stdlib.h>

static struct http1_head h;

static long request(const char *text)
{
	http1_head_reset(&h);
	return http1_parse_request(&h, text, strlen(text));
}

static long response(const char *method, const char *text)
{
	http1_head_reset(&h);
	return http1_parse_response(&h, text, strlen(text), slice_of(method));
}

static bool refused(const char *text, unsigned status)
{
	long n = request(text);

	if (n != -EBADMSG || !h.why || h.fail_status != status)
		printf("# got %ld, %u, %s\n", n, h.fail_status, h.why ? h.why : "no reason");
	return n == -EBADMSG && h.why && h.fail_status == status;
}

static void test_request(void)
{
	static const char text[] = "POST /v1/chat?x=1 HTTP/1.1\r\nHost: API.OpenAI.com:443\r\nX-Empty:\r\n"
				   "Content-Length: 12\r\nAccept: a\r\nAccept: \t b \t\r\n\r\nhello world!";
	long n = request(text);

	CHECK(n == (long)sizeof(text) - 1 - 12 && h.minor == 1 && h.form == HTTP1_ORIGIN);
	CHECK(slice_eq(h.method, "POST") && slice_eq(h.target, "/v1/chat?x=1") &&
	      slice_eq(h.path, "/v1/chat?x=1"));
	CHECK_STR(h.host.text, "api.openai.com");
	CHECK(h.port == 443 && h.has_host && h.body == HTTP1_BODY_LENGTH && h.content_length == 12 &&
	      h.keep_alive);
	CHECK(h.n_fields == 5 && http1_count(&h, "ACCEPT") == 2 && slice_eq(h.fields[4].value, "b"));
	CHECK(http1_get(&h, "x-empty") && http1_get(&h, "x-empty")->len == 0 && !http1_get(&h, "x"));
	CHECK(request("GET / HTTP/1.1\r\nHost: a\r\n\r\n") > 0 && h.port == 0 && h.body == HTTP1_BODY_NONE);
	CHECK(request("GET / HTTP/1.0\r\n\r\n") > 0 && !h.has_host && !h.keep_alive);
	CHECK(request("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n") > 0 && h.keep_alive);
	CHECK(request("PUT / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: Chunked\r\n\r\n") > 0 &&
	      h.body == HTTP1_BODY_CHUNKED);
	CHECK(request("GET / HTTP/1.1\r\nHost: [::1]:80\r\nExpect: 100-Continue\r\n\r\n") > 0 &&
	      h.expect_continue);
	CHECK_STR(h.host.text, "::1");
	CHECK(request("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n") > 0 &&
	      h.body == HTTP1_BODY_NONE && h.has_content_length);
	CHECK(request("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 9007199254740992\r\n\r\n") > 0);
}

static void test_pieces(void)
{
	static const char text[] = "GET /a HTTP/1.1\r\nHost: a.example\r\nX: y\r\n\r\n";
	bool waits = true;
	long n = 0;

	http1_head_reset(&h);
	for (size_t i = 0; i < sizeof(text) - 1; i++) {
		char *copy = malloc(i + 1);

		memcpy(copy, text, i);
		waits = waits && http1_parse_request(&h, copy, i) == 0;
		free(copy);
	}
	n = http1_parse_request(&h, text, sizeof(text) - 1);
	CHECKF(waits && n == (long)sizeof(text) - 1 && slice_eq(h.path, "/a"),
	       "a head that comes byte by byte in a moving buffer is parsed");
}

static void test_targets(void)
{
	CHECK(request("GET http://A.example/x?y HTTP/1.1\r\nHost: a.example\r\n\r\n") > 0);
	CHECK(h.form == HTTP1_ABSOLUTE && slice_eq(h.path, "/x?y") && slice_eq(h.scheme, "http") &&
	      h.port == 80);
	CHECK(request("GET https://a.example HTTP/1.1\r\nHost: a.example:443\r\n\r\n") > 0 &&
	      slice_eq(h.path, "/") && h.port == 443);
	CHECK(request("GET HTTP://a.example:81/ HTTP/1.0\r\n\r\n") > 0 && h.has_host && h.port == 81);
	CHECK(request("CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n") > 0);
	CHECK(h.form == HTTP1_AUTHORITY && h.port == 443 && h.path.len == 0);
	CHECK(request("CONNECT a.example:443 HTTP/1.1\r\nHost: a.example\r\n\r\n") > 0);
	CHECK(request("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n") > 0 && h.form == HTTP1_ASTERISK);
	CHECK(refused("GET * HTTP/1.1\r\nHost: a\r\n\r\n", 400));
	CHECK(refused("CONNECT /x HTTP/1.1\r\nHost: a\r\n\r\n", 400));
	CHECK(refused("CONNECT a.example HTTP/1.1\r\nHost: a.example\r\n\r\n", 400));
	CHECK(refused("GET a.example:443 HTTP/1.1\r\nHost: a.example\r\n\r\n", 400));
	CHECK(refused("GET ftp://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n", 400));
	CHECK(refused("GET http://a.example?x HTTP/1.1\r\nHost: a.example\r\n\r\n", 400));
	CHECK(refused("GET http:///x HTTP/1.1\r\nHost: a.example\r\n\r\n", 400));
	CHECK(refused("GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", 400));
	CHECK(refused("GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", 400));
	CHECK(refused("GET /\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n", 400));
	CHECK(refused("CONNECT a.example:443 HTTP/1.1\r\nHost: a.example\r\nContent-Length: 3\r\n\r\n", 400));
	CHECK(refused(
		"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n",
		400));
}

static void test_case_06_control_bytes(void)
{
	static const char nul[] = "GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n";

	http1_head_reset(&h);
	CHECKF(http1_parse_request(&h, nul, sizeof(nul) - 1) == -EBADMSG, "case 6: a NUL in Host is refused");
	CHECKF(refused("CONNECT a\x01.example:443 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
	       "case 6: a control byte in CONNECT is refused");
	CHECKF(refused("GET / HTTP/1.1\r\nHost: a\r\nX: \x7f\r\n\r\n", 400),
	       "case 6: DEL in a value is refused");
	CHECKF(refused("GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n", 400), "a bare CR is refused");
}

static void test_case_07_host_forms(void)
{
	CHECKF(request("GET / HTTP/1.1\r\nHost: GitHub.com.\r\n\r\n") > 0 &&
		       !strcmp(h.host.text, "github.com"),
	       "case 7: Host with a dot and capitals is the plain name");
}

static void test_case_14_odd_hosts(void)
{
	static const char *const odd[] = { "2130706433", "0x7f.1",	 "0177.0.0.1", "user@127.0.0.1",
					   "a b",	 "a/b",		 "",	       "a:b",
					   "a:",	 "b\xc3\xbc.de", "a,b" };

	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		char text[200];

		snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", odd[i]);
		CHECKF(refused(text, 400), "case 14: Host '%s' is refused", odd[i]);
		snprintf(text, sizeof(text), "GET http://%s/ HTTP/1.1\r\nHost: %s\r\n\r\n", odd[i], odd[i]);
		CHECKF(refused(text, 400), "case 14: target http://%s/ is refused", odd[i]);
	}
}

static void test_case_30_framing(void)
{
	static const char *const bad[] = {
		"Content-Length: 5\r\nTransfer-Encoding: chunked",
		"Transfer-Encoding: chunked\r\nContent-Length: 5",
		"Content-Length: 5\r\nContent-Length: 6",
		"Content-Length: 5\r\nContent-Length: 5",
		"Content-Length: 5, 5",
		"Content-Length: +5",
		"Content-Length: -1",
		"Content-Length: 0x5",
		"Content-Length: 5 ",
		"Content-Length:",
		"Content-Length: 5\t5",
		"Content-Length: 9007199254740993",
		"Content-Length: 99999999999999999999",
		"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
	};
	static const char *const other[] = {
		"Transfer-Encoding: gzip, chunked", "Transfer-Encoding: chunked, identity",
		"Transfer-Encoding: identity",	    "Transfer-Encoding: xchunked",
		"Transfer-Encoding: \"chunked\"",   "Transfer-Encoding:"
	};
	char text[300];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(text, sizeof(text), "POST / HTTP/1.1\r\nHost: a\r\n%s\r\n\r\n", bad[i]);
		if (strcmp(bad[i], "Content-Length: 5 ") == 0)
			CHECKF(request(text) > 0, "case 30: space around a Content-Length does not matter");
		else
			CHECKF(refused(text, 400), "case 30: %s is refused in a request", bad[i]);
		snprintf(text, sizeof(text), "HTTP/1.1 200 OK\r\n%s\r\n\r\n", bad[i]);
		CHECKF(response("GET", text) ==
			       (strcmp(bad[i], "Content-Length: 5 ") ? -EBADMSG : (long)strlen(text)),
		       "case 30: %s in a response is judged as in a request", bad[i]);
	}
	for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++) {
		snprintf(text, sizeof(text), "POST / HTTP/1.1\r\nHost: a\r\n%s\r\n\r\n", other[i]);
		CHECKF(refused(text, 501), "case 30: the coding '%s' is refused as unknown", other[i]);
	}
	CHECKF(refused("POST / HTTP/1.1\r\nHost: a\r\nTransfer_Encoding: chunked\r\n\r\n", 400) &&
		       refused("POST / HTTP/1.1\r\nHost: a\r\ncontent_length: 5\r\n\r\n", 400),
	       "case 30: an underscore for the hyphen is refused");
	CHECKF(refused("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
	       "case 30: chunked in HTTP/1.0 is refused");
	CHECKF(refused("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n", 400),
	       "case 30: a space before the colon is refused");
	CHECKF(refused("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\x0b"
		       "chunked\r\n\r\n",
		       400),
	       "case 30: a vertical tab before the value is refused");
}

static void test_case_32_lines(void)
{
	CHECKF(refused("GET / HTTP/1.1\nHost: a\r\n\r\n", 400),
	       "case 32: a bare LF in the first line is refused");
	CHECKF(refused("GET / HTTP/1.1\r\nHost: a\n\r\n", 400),
	       "case 32: a bare LF behind a header is refused");
	CHECKF(refused("GET / HTTP/1.1\r\nHost: a\r\n\n", 400),
	       "case 32: a bare LF as the empty line is refused");
	CHECKF(refused("GET / HTTP/1.1\r\nHost: a\n", 400),
	       "case 32: a bare LF is refused before the head is whole");
	CHECKF(refused("GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\n\r\n", 400),
	       "case 32: a folded header is refused");
	CHECKF(refused("GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n\tc\r\n\r\n", 400),
	       "case 32: a header that is folded with a tab is refused");
	CHECKF(refused("GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400),
	       "case 32: a space before the first header is refused");
	CHECKF(refused("\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
	       "an empty line before the request is refused");
	CHECKF(refused("GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n", 400),
	       "a header without a colon is refused");
	CHECKF(refused("GET / HTTP/1.1\r\nHost: a\r\n: x\r\n\r\n", 400),
	       "a header without a name is refused");
	CHECKF(refused("GET / HTTP/1.1\r\nHost: a\r\nX(): x\r\n\r\n", 400),
	       "a header whose name is no token is refused");
}

static void test_case_33_two_hosts(void)
{
	CHECKF(refused("GET http://b.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n", 400),
	       "case 33: a target that names another host is refused");
	CHECKF(refused("GET http://a.example:81/ HTTP/1.1\r\nHost: a.example:82\r\n\r\n", 400),
	       "case 33: a target that names another port is refused");
	CHECKF(refused("CONNECT a.example:443 HTTP/1.1\r\nHost: b.example:443\r\n\r\n", 400),
	       "case 33: a CONNECT whose Host is another host is refused");
	CHECKF(refused("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400),
	       "two Host headers are refused even when equal");
	CHECKF(refused("GET / HTTP/1.1\r\n\r\n", 400), "a request without Host is refused");
	CHECKF(refused("GET http://a.example/ HTTP/1.1\r\n\r\n", 400),
	       "a request without Host beside an absolute target is refused");
}

static void test_first_line(void)
{
	static const char *const bad[] = { "GET /\r\n\r\n",
					   "GET\r\n\r\n",
					   "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
					   "GET / HTTP/1.1 \r\nHost: a\r\n\r\n",
					   " GET / HTTP/1.1\r\nHost: a\r\n\r\n",
					   "G(T / HTTP/1.1\r\nHost: a\r\n\r\n",
					   "GET / http/1.1\r\nHost: a\r\n\r\n",
					   "GET / HTTP/1.11\r\nHost: a\r\n\r\n",
					   "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n" };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECKF(refused(bad[i], 400), "the request '%s' is refused", bad[i]);
	CHECK(refused("PRI * HTTP/2.0\r\n\r\n", 505) && refused("GET / HTTP/1.2\r\nHost: a\r\n\r\n", 505));
	CHECKF(refused("SSH-2.0-OpenSSH_9.2 x\r\n\r\n", 400), "a first line of another protocol is refused");
	CHECKF(refused("\x16\x03\x01", 400), "TLS instead of HTTP is refused at its first bytes");
	CHECKF(refused("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", 400),
	       "a method without end is refused before its end");
}

static void test_limits(void)
{
	autobuf struct buf b = BUF_INIT;

	buf_adds(&b, "GET / HTTP/1.1\r\nHost: a\r\n");
	for (int i = 0; i < HTTP1_FIELDS_MAX - 1; i++)
		buf_adds(&b, "X: y\r\n");
	buf_adds(&b, "\r\n");
	CHECK(request(b.data) > 0 && h.n_fields == HTTP1_FIELDS_MAX);
	b.len -= 2;
	buf_adds(&b, "X: y\r\n\r\n");
	CHECK(refused(b.data, 431));
	buf_clear(&b);
	buf_adds(&b, "GET / HTTP/1.1\r\nHost: a\r\nX: ");
	while (b.len < HTTP1_HEAD_MAX - 4)
		buf_addc(&b, 'x');
	buf_adds(&b, "\r\n\r\n");
	CHECK(b.len == HTTP1_HEAD_MAX && request(b.data) == (long)HTTP1_HEAD_MAX);
	b.len -= 4;
	buf_adds(&b, "x\r\n\r\n");
	CHECK(refused(b.data, 431));
	buf_clear(&b);
	buf_adds(&b, "GET /");
	while (b.len < HTTP1_TARGET_MAX + 100)
		buf_addc(&b, 'x');
	CHECKF(refused(b.data, 414), "a target that is too long is refused before its end");
	buf_adds(&b, " HTTP/1.1\r\nHost: a\r\n\r\n");
	CHECK(refused(b.data, 414));
}

static void test_connection(void)
{
	CHECK(request("GET / HTTP/1.1\r\nHost: a\r\nConnection: X-Foo , close\r\n\r\n") > 0 && !h.keep_alive);
	CHECK(http1_is_hop(&h, slice_of("x-foo")) && http1_is_hop(&h, slice_of("Keep-Alive")) &&
	      !http1_is_hop(&h, slice_of("accept")));
	CHECK(request("GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n") >
		      0 &&
	      h.upgrade && slice_eq(h.upgrade_to, "websocket"));
	CHECK(request("GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\r\n") > 0 && !h.upgrade);
	CHECK(refused("GET / HTTP/1.1\r\nHost: a\r\nConnection: close, Host\r\n\r\n", 400));
	CHECK(refused("GET / HTTP/1.1\r\nHost: a\r\nConnection: authorization\r\n\r\n", 400));
	CHECK(refused("GET / HTTP/1.1\r\nHost: a\r\nConnection: a b\r\n\r\n", 400));
	CHECK(refused(
		"GET / HTTP/1.1\r\nHost: a\r\nConnection: ,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,\r\n\r\n",
		431));
	CHECK(refused("GET / HTTP/1.1\r\nHost: a\r\nExpect: 200-ok\r\n\r\n", 417));
	CHECK(refused("GET / HTTP/1.1\r\nHost: a\r\nUpgrade: a\r\nUpgrade: b\r\n\r\n", 400));
}

static void test_responses(void)
{
	static const struct {
		const char *method, *text;
		enum http1_body body;
	} good[] = {
		{ "GET", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", HTTP1_BODY_LENGTH },
		{ "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", HTTP1_BODY_CHUNKED },
		{ "GET", "HTTP/1.1 200 \r\n\r\n", HTTP1_BODY_CLOSE },
		{ "GET", "HTTP/1.1 200\r\n\r\n", HTTP1_BODY_CLOSE },
		{ "GET", "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", HTTP1_BODY_NONE },
		{ "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", HTTP1_BODY_NONE },
		{ "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n", HTTP1_BODY_NONE },
		{ "GET", "HTTP/1.1 204 No Content\r\n\r\n", HTTP1_BODY_NONE },
		{ "GET", "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", HTTP1_BODY_NONE },
		{ "GET", "HTTP/1.1 100 Continue\r\n\r\n", HTTP1_BODY_NONE },
		{ "GET", "HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
		  HTTP1_BODY_TUNNEL },
		{ "CONNECT", "HTTP/1.1 200 Established\r\n\r\n", HTTP1_BODY_TUNNEL },
		{ "CONNECT", "HTTP/1.1 502 Bad\r\nContent-Length: 3\r\n\r\n", HTTP1_BODY_LENGTH },
	};
	static const char *const bad[] = {
		"HTTP/1.1 20 OK\r\n\r\n",
		"HTTP/1.1 2000 OK\r\n\r\n",
		"HTTP/1.1 099 OK\r\n\r\n",
		"HTTP/1.1 600 OK\r\n\r\n",
		"HTTP/2.0 200 OK\r\n\r\n",
		"HTTP/1.1  200 OK\r\n\r\n",
		"HTTP/1.1 200 O\x01K\r\n\r\n",
		"ICY 200 OK\r\n\r\n",
		"SSH-2.0",
		"HTTP/1.1 200 OK\n\n",
		"HTTP/1.1 204 No\r\nContent-Length: 3\r\n\r\n",
		"HTTP/1.1 204 No\r\nTransfer-Encoding: chunked\r\n\r\n",
		"HTTP/1.1 100 C\r\nContent-Length: 1\r\n\r\n",
		"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
	};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		CHECKF(response(good[i].method, good[i].text) == (long)strlen(good[i].text) &&
			       h.body == good[i].body,
		       "a response to %s has the right body: %s", good[i].method, good[i].text);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECKF(response("GET", bad[i]) == -EBADMSG && h.fail_status == 502,
		       "the response '%s' is refused", bad[i]);
	CHECK(response("GET", "HTTP/1.1 404 Not Found\r\n\r\n") > 0 && h.status == 404 &&
	      slice_eq(h.reason, "Not Found"));
	CHECK(!h.keep_alive);
	CHECKF(response(
		       "GET",
		       "HTTP/1.1 200 OK\r\nConnection: Transfer-Encoding, X\r\nTransfer-Encoding: chunked\r\n"
		       "Expect: x\r\nHost: a\r\nHost: b\r\nContent-Type: t\r\n\r\n") > 0 &&
		       h.body == HTTP1_BODY_CHUNKED && http1_is_hop(&h, slice_of("x")) && h.keep_alive,
	       "unusual heads that real servers send are accepted");
	CHECK(response("GET", "HTTP/1.1 200 OK\r\nConnection: content-type\r\n\r\n") > 0 &&
	      !http1_is_hop(&h, slice_of("Content-Type")));
}

static void test_writers(void)
{
	autobuf struct buf b = BUF_INIT;

	CHECK(http1_add_request_line(&b, slice_of("GET"), slice_of("/a")) == 0);
	CHECK(http1_add_field(&b, slice_of("Host"), slice_of("a.example")) == 0 && http1_add_end(&b) == 0);
	CHECK_STR(buf_cstr(&b), "GET /a HTTP/1.1\r\nHost: a.example\r\n\r\n");
	CHECK(request(b.data) == (long)b.len);
	buf_clear(&b);
	CHECK(http1_add_request_line(&b, slice_of("GET"), slice_of("/a b")) == -EINVAL);
	CHECK(http1_add_request_line(&b, slice_of("G T"), slice_of("/")) == -EINVAL);
	CHECK(http1_add_field(&b, slice_of("X"), slice_of("a\r\nY: b")) == -EINVAL);
	CHECK(http1_add_field(&b, slice_of("X:"), slice_of("a")) == -EINVAL);
	CHECK(http1_add_field(&b, slice_of(""), slice_of("a")) == -EINVAL && b.len == 0);
	CHECK(http1_add_status_line(&b, 403, SLICE_NONE) == 0);
	CHECK_STR(buf_cstr(&b), "HTTP/1.1 403 Forbidden\r\n");
	CHECK(http1_add_status_line(&b, 99, SLICE_NONE) == -EINVAL);
	CHECK_STR(http1_reason(418), "Client Error");
}

int main(void)
{
	test_request();
	test_pieces();
	test_targets();
	test_case_06_control_bytes();
	test_case_07_host_forms();
	test_case_14_odd_hosts();
	test_case_30_framing();
	test_case_32_lines();
	test_case_33_two_hosts();
	test_first_line();
	test_limits();
	test_connection();
	test_responses();
	test_writers();
	return tap_done();
}
