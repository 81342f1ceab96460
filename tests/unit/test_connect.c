/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/http/connect.h"
#include "tap.h"

#include <errno.h>

static void test_request(void)
{
	autobuf struct buf b = BUF_INIT;
	struct host h;

	CHECK(host_canon("Example.org", 11, &h, NULL) == 0 &&
	      connect_add_request(&b, &h, 443, NULL, NULL, NULL) == 0);
	CHECK_STR(buf_cstr(&b), "CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n");
	buf_clear(&b);
	CHECK(host_canon("::1", 3, &h, NULL) == 0 &&
	      connect_add_request(&b, &h, 80, "Aladdin", "open sesame", NULL) == 0);
	CHECK_STR(buf_cstr(&b), "CONNECT [::1]:80 HTTP/1.1\r\nHost: [::1]:80\r\n"
				"Proxy-Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n\r\n");
	static const char *const text[] = { "a", "ab", "abc" }, *const code[] = { "YTo=", "YWI6",
										  "YWJjOg==" };
	for (int i = 0; i < 3; i++) {
		buf_clear(&b);
		CHECK(connect_add_request(&b, &h, 80, text[i], "", NULL) == 0 &&
		      strstr(buf_cstr(&b), code[i]));
	}
	buf_clear(&b);
	CHECK(connect_add_request(&b, &h, 80, "a:b", "c", NULL) == -EINVAL && b.len == 0);
	CHECK(connect_add_request(&b, &h, 80, "a", "c\r\nX: y", NULL) == -EINVAL && b.len == 0);
}

static long reply(const char *text, size_t step, unsigned *ret_status)
{
	struct connect_reply c = CONNECT_REPLY_INIT;
	size_t len = strlen(text);
	long n = 0;

	for (size_t i = step; n == 0 && i < len + step; i += step)
		n = connect_parse_reply(&c, text, i < len ? i : len, NULL);
	*ret_status = c.status;
	return n;
}

static void test_reply(void)
{
	static const char ok[] = "HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\n";
	autobuf struct buf b = BUF_INIT;
	unsigned status;

	for (size_t step = 1; step < sizeof(ok); step += 5)
		CHECK(reply(ok, step, &status) == (long)sizeof(ok) - 1 && status == 200);
	CHECKF(reply("HTTP/1.0 200 OK\r\n\r\n\x16\x03", 1000, &status) == 19,
	       "bytes behind the head of the response belong to the tunnel");
	CHECK(reply("HTTP/1.1 407 Auth\r\nProxy-Authenticate: Basic\r\n\r\n", 3, &status) == -EACCES &&
	      status == 407);
	CHECK(reply("HTTP/1.1 502 Bad\r\n\r\n", 3, &status) == -ECONNREFUSED && status == 502);
	CHECK(reply("HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\n\r\n", 3, &status) ==
	      -ECONNREFUSED);
	CHECK(reply("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", 1000, &status) == -EBADMSG);
	CHECK(reply("SSH-2.0", 1, &status) == -EBADMSG &&
	      reply("HTTP/1.1 200 OK\n\n", 1000, &status) == -EBADMSG);
	CHECK(reply("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", 1000, &status) == -EBADMSG);
	buf_adds(&b, "HTTP/1.1 200 OK\r\nX: ");
	while (b.len < CONNECT_REPLY_MAX)
		buf_addc(&b, 'x');
	CHECKF(reply(b.data, 1000, &status) == -EBADMSG,
	       "a head that is too large is refused before its end");
}

int main(void)
{
	test_request();
	test_reply();
	return tap_done();
}
