/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/net/host.h"
#include "codec/net/punycode.h"
#include "tap.h"

#include <errno.h>

static void test_canonical(void)
{
	static const struct {
		const char *in, *out;
		enum host_kind kind;
	} good[] = {
		{ "github.com", "github.com", HOST_NAME },
		{ "localhost", "localhost", HOST_NAME },
		{ "_dmarc.example.org", "_dmarc.example.org", HOST_NAME },
		{ "r3---sn-4g5e6nsz.googlevideo.com", "r3---sn-4g5e6nsz.googlevideo.com", HOST_NAME },
		{ "1.2.3.example", "1.2.3.example", HOST_NAME },
		{ "123.com", "123.com", HOST_NAME },
		{ "0xg", "0xg", HOST_NAME },
		{ "xn--bcher-kva.example", "xn--bcher-kva.example", HOST_NAME },
		{ "XN--MNCHEN-3YA.de", "xn--mnchen-3ya.de", HOST_NAME },
		{ "xn--p1ai", "xn--p1ai", HOST_NAME },
		{ "127.0.0.1", "127.0.0.1", HOST_ADDR },
		{ "127.0.0.1.", "127.0.0.1", HOST_ADDR },
		{ "::1", "::1", HOST_ADDR },
		{ "[::1]", "::1", HOST_ADDR },
		{ "[2001:DB8:0::1]", "2001:db8::1", HOST_ADDR },
		{ "[::ffff:127.0.0.1]", "127.0.0.1", HOST_ADDR },
	};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		struct host h = { 0 };
		struct err e = ERR_INIT;
		int r = host_canon(good[i].in, strlen(good[i].in), &h, &e);

		CHECKF(r == 0 && h.kind == good[i].kind && !strcmp(h.text, good[i].out) &&
			       h.len == strlen(h.text),
		       "%s is parsed as %s %s%s", good[i].in,
		       good[i].kind == HOST_NAME ? "the name" : "the address", good[i].out, e.msg);
	}
}

static bool refused(const char *in, size_t len, const char *word)
{
	struct err e = ERR_INIT;
	struct host h = { .len = 77 };

	return host_canon(in, len, &h, &e) == -EINVAL && h.len == 77 && (!word || strstr(e.msg, word));
}

static void test_refused(void)
{
	static const char *const bad[] = { "",	     ".",	   "..",     "a..b",	  ".a",	   "a..",
					   "-a.com", "a-.com",	   "a.-b",   "a/b",	  "a:b:c", "a,b",
					   "[::1",   "::1]",	   "[::1].", "[1.2.3.4]", "[]",	   "[a]",
					   "::1%lo", "[::1%25lo]", "a\\b",   "*.a.com",	  "a b",   " a",
					   "a\t",    "a\n",	   "a?b",    "a#b" };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECKF(refused(bad[i], strlen(bad[i]), NULL), "the host '%s' is refused", bad[i]);
}

static void test_lengths(void)
{
	char name[300];
	struct host h;

	memset(name, 'a', sizeof(name));
	CHECK(host_canon(name, 63, &h, NULL) == 0);
	CHECK(refused(name, 64, "63"));
	for (int i = 50; i < 300; i += 50)
		name[i] = '.';
	CHECK(host_canon(name, 253, &h, NULL) == 0 && h.len == 253);
	CHECK(refused(name, 254, "253"));
	name[253] = '.';
	CHECKF(host_canon(name, 254, &h, NULL) == 0 && h.len == 253,
	       "a name of 253 bytes and a dot is accepted");
}

/* The cases of shared experience, by what went wrong elsewhere. */
static void test_case_06_control_bytes(void)
{
	CHECKF(refused("github.com\0.evil.org", 20, "NUL"), "case 6: a NUL in a name is refused");
	CHECKF(refused("git\x01hub.com", 11, "control"), "case 6: a control byte in a name is refused");
	CHECKF(refused("github.com\r\n", 12, "control"), "case 6: a line end in a name is refused");
	CHECKF(refused("github.com\x7f", 11, "control"), "case 6: DEL in a name is refused");
}

static void test_case_07_dot_and_case(void)
{
	static const char *const same[] = { "github.com", "GitHub.Com", "github.com.", "GITHUB.COM." };
	struct host a, b;

	CHECK(host_canon("github.com", 10, &a, NULL) == 0);
	for (size_t i = 0; i < 4; i++)
		CHECKF(host_canon(same[i], strlen(same[i]), &b, NULL) == 0 && host_eq(&a, &b),
		       "case 7: %s is the host github.com", same[i]);
}

static void test_case_09_unicode(void)
{
	static const char *const bad[] = { "xn--",     "xn--a-",       "xn--abc-", "xn---", "xn--a-ecp.xn--",
					   "xn--\x80", "xn--99999999", "xn--a--",  "xn--0" };

	CHECKF(refused("b\xc3\xbc"
		       "cher.example",
		       14, "xn--"),
	       "case 9: a name in Unicode is refused, and the way to write it named");
	CHECKF(refused("g\xd1\x96thub.com", 11, "xn--"), "case 9: a look-alike is refused");
	CHECKF(refused("github\xe3\x80\x82"
		       "com",
		       12, "xn--"),
	       "case 9: a dot of another script is refused");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECKF(refused(bad[i], strlen(bad[i]), NULL), "case 9: %s does not decode and is refused",
		       bad[i]);
	CHECK(punycode_is_valid("ihqwcrb4cv8a8dqg056pqjye", 24)); /* RFC 3492, 7.1 (B) */
	CHECK(punycode_is_valid("egbpdaj6bu4bxfgehfvwxn", 22));	  /* (A) */
	CHECK(punycode_is_valid("d9juau41awczczp", 15));	  /* (R) */
	CHECK(punycode_is_valid("80akhbyknj4f", 12));
	CHECK(!punycode_is_valid("", 0) && !punycode_is_valid("-", 1) && !punycode_is_valid("a", 0));
}

static void test_case_14_odd_addresses(void)
{
	static const char *const odd[] = { "2130706433",  "0x7f.1",  "0x7f000001",   "0177.0.0.1",
					   "127.1",	  "127.0.1", "017700000001", "1.2.3.256",
					   "1.2.3.4.5",	  "foo.1",   "foo.0x1",	     "0x",
					   "127.0.0.0x1", "0X7F.1",  "1.2.3.04",     "127.0.0.1..",
					   "256",	  "foo.08" };

	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
		CHECKF(refused(odd[i], strlen(odd[i]), NULL), "case 14: the host %s is refused", odd[i]);
	CHECKF(refused("user@127.0.0.1", 14, "@"), "case 14: the host user@127.0.0.1 is refused");
	CHECKF(refused("127.0.0.1%2e", 12, "percent"), "case 14: a percent sign is refused");
	CHECKF(refused("127\xe3\x80\x82"
		       "0.0.1",
		       11, "xn--"),
	       "case 14: dots of another script are refused");
}

static void test_ports(void)
{
	static const struct {
		const char *in, *host;
		uint16_t fallback, port;
	} good[] = {
		{ "github.com:443", "github.com", 0, 443 },
		{ "GitHub.com.:1", "github.com", 443, 1 },
		{ "github.com", "github.com", 443, 443 },
		{ "[::1]:65535", "::1", 0, 65535 },
		{ "[::1]", "::1", 80, 80 },
		{ "10.0.0.1:8443", "10.0.0.1", 0, 8443 },
	};
	static const char *const bad[] = { "a",	       "a:",   "a:0",	  "a:65536",  "a:00443", "a:4 3",
					   "a:+43",    ":443", "::1:443", "[::1]443", "[::1]:",	 "a:b:1",
					   "a:123456", "a:-1", "a:1\n",	  "[::1]x:1", "" };
	struct host h;
	uint16_t port;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		CHECKF(host_port_parse(good[i].in, strlen(good[i].in), good[i].fallback, &h, &port, NULL) ==
				       0 &&
			       !strcmp(h.text, good[i].host) && port == good[i].port,
		       "%s is %s port %u", good[i].in, good[i].host, (unsigned)good[i].port);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECKF(host_port_parse(bad[i], strlen(bad[i]), 0, &h, &port, NULL) == -EINVAL,
		       "the host and port '%s' are refused", bad[i]);
}

static void test_write(void)
{
	autobuf struct buf b = BUF_INIT;
	struct host h;

	CHECK(host_canon("::1", 3, &h, NULL) == 0 && host_labels(&h) == 0);
	host_add(&b, &h, 443);
	CHECK_STR(buf_cstr(&b), "[::1]:443");
	buf_clear(&b);
	CHECK(host_canon("a.b.example", 11, &h, NULL) == 0 && host_labels(&h) == 3);
	host_add(&b, &h, 0);
	CHECK_STR(buf_cstr(&b), "a.b.example");
}

int main(void)
{
	test_canonical();
	test_refused();
	test_lengths();
	test_case_06_control_bytes();
	test_case_07_dot_and_case();
	test_case_09_unicode();
	test_case_14_odd_addresses();
	test_ports();
	test_write();
	return tap_done();
}
