/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/net/addr.h"
#include "tap.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>

static struct addr must(const char *s)
{
	struct err e = ERR_INIT;
	struct addr a = { 0 };

	if (addr_parse(s, strlen(s), &a, &e) < 0)
		CHECKF(false, "%s is an address (%s)", s, e.msg);
	return a;
}

static void test_text(void)
{
	static const struct {
		const char *in, *out;
	} good[] = {
		{ "0.0.0.0", "0.0.0.0" },
		{ "255.255.255.255", "255.255.255.255" },
		{ "192.168.10.1", "192.168.10.1" },
		{ "::", "::" },
		{ "::1", "::1" },
		{ "1::", "1::" },
		{ "2001:DB8:0:0:1:0:0:1", "2001:db8::1:0:0:1" },
		{ "2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1" },
		{ "2001:0db8::0001", "2001:db8::1" },
		{ "1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0" },
		{ "::2:3:4:5:6:7:8", "0:2:3:4:5:6:7:8" },
		{ "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8" },
		{ "0:0:1:0:0:0:1:0", "0:0:1::1:0" },
		{ "64:ff9b::10.0.0.1", "64:ff9b::a00:1" },
		{ "::ffff:10.0.0.1", "10.0.0.1" },
		{ "::FFFF:a00:1", "10.0.0.1" },
		{ "::127.0.0.1", "::7f00:1" },
	};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		struct addr a = must(good[i].in);
		char text[ADDR_TEXT_LEN];

		CHECKF(!strcmp(addr_format(&a, text), good[i].out), "%s is written %s, and that is %s",
		       good[i].in, good[i].out, text);
	}
}

static void test_text_refused(void)
{
	static const char *const bad[] = {
		"",
		".",
		"1",
		"127.1",
		"1.2.3",
		"1.2.3.4.5",
		"1.2.3.4.",
		".1.2.3.4",
		"1..2.3",
		"256.1.1.1",
		"01.2.3.4",
		"0177.0.0.1",
		"0x7f.0.0.1",
		"2130706433",
		"1.2.3.4 ",
		" 1.2.3.4",
		"1.2.3.-4",
		"+1.2.3.4",
		"1.2.3.1000",
		"1.2.3.4/32",
		":",
		":::",
		"1:",
		":1",
		"1:2:3:4:5:6:7",
		"1:2:3:4:5:6:7:8:9",
		"1::2::3",
		"1::2:3:4:5:6:7:8",
		"::12345",
		"::g",
		"::1%eth0",
		"[::1]",
		"::1.2.3",
		"::1.2.3.4:5",
		"1.2.3.4::",
		"1:2:3:4:5:6:7:1.2.3.4",
		"::ffff:0x7f.0.0.1",
		"::ffff:127.1",
		"fe80::1%25lo",
		"1:2:3:4:5:6:7:8::",
	};
	struct addr a;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECKF(addr_parse(bad[i], strlen(bad[i]), &a, NULL) == -EINVAL, "the address '%s' is refused",
		       bad[i]);
	CHECKF(addr_parse("1.2.3.4\0", 8, &a, NULL) == -EINVAL, "an address with a NUL is refused");
	CHECKF(addr_parse("1.2.3.45", 7, &a, NULL) == 0 && addr_v4(&a) == 0x01020304,
	       "an address ends at its length, not at its NUL");
}

static void test_classes(void)
{
	static const struct {
		const char *text;
		enum addr_class class;
	} all[] = {
		{ "8.8.8.8", ADDR_GLOBAL },
		{ "11.0.0.1", ADDR_GLOBAL },
		{ "9.255.255.255", ADDR_GLOBAL },
		{ "172.15.255.255", ADDR_GLOBAL },
		{ "172.32.0.0", ADDR_GLOBAL },
		{ "100.63.255.255", ADDR_GLOBAL },
		{ "100.128.0.0", ADDR_GLOBAL },
		{ "223.255.255.255", ADDR_GLOBAL },
		{ "168.63.129.17", ADDR_GLOBAL },
		{ "0.0.0.0", ADDR_UNSPECIFIED },
		{ "0.1.2.3", ADDR_THIS_NETWORK },
		{ "127.0.0.1", ADDR_LOOPBACK },
		{ "127.255.255.254", ADDR_LOOPBACK },
		{ "10.1.2.3", ADDR_PRIVATE },
		{ "172.16.0.1", ADDR_PRIVATE },
		{ "172.31.255.255", ADDR_PRIVATE },
		{ "192.168.0.1", ADDR_PRIVATE },
		{ "100.64.0.1", ADDR_CGNAT },
		{ "100.127.255.255", ADDR_CGNAT },
		{ "169.254.1.1", ADDR_LINK_LOCAL },
		{ "169.254.169.254", ADDR_METADATA },
		{ "169.254.170.2", ADDR_METADATA },
		{ "100.100.100.200", ADDR_METADATA },
		{ "168.63.129.16", ADDR_METADATA },
		{ "192.0.0.192", ADDR_METADATA },
		{ "fd00:ec2::254", ADDR_METADATA },
		{ "192.0.0.8", ADDR_RESERVED },
		{ "192.0.2.1", ADDR_DOCUMENTATION },
		{ "198.51.100.7", ADDR_DOCUMENTATION },
		{ "203.0.113.9", ADDR_DOCUMENTATION },
		{ "192.88.99.1", ADDR_RELAY },
		{ "192.175.48.1", ADDR_ANYCAST_SINK },
		{ "198.18.0.1", ADDR_BENCHMARK },
		{ "198.19.255.255", ADDR_BENCHMARK },
		{ "224.0.0.1", ADDR_MULTICAST },
		{ "239.255.255.250", ADDR_MULTICAST },
		{ "240.0.0.1", ADDR_RESERVED },
		{ "255.255.255.255", ADDR_BROADCAST },
		{ "::", ADDR_UNSPECIFIED },
		{ "::1", ADDR_LOOPBACK },
		{ "::7f00:1", ADDR_V4_COMPAT },
		{ "::8.8.8.8", ADDR_V4_COMPAT },
		{ "::ffff:0:8.8.8.8", ADDR_V4_COMPAT },
		{ "::ffff:8.8.8.8", ADDR_GLOBAL },
		{ "::ffff:127.0.0.1", ADDR_LOOPBACK },
		{ "::ffff:169.254.169.254", ADDR_METADATA },
		{ "64:ff9b::8.8.8.8", ADDR_NAT64 },
		{ "64:ff9b::10.0.0.1", ADDR_NAT64 },
		{ "64:ff9b:1:ffff::1", ADDR_NAT64 },
		{ "64:ff9b:2::1", ADDR_RESERVED },
		{ "100::1", ADDR_DISCARD },
		{ "2001::1", ADDR_TEREDO },
		{ "2001:0:4136:e378:8000:63bf:3fff:fdd2", ADDR_TEREDO },
		{ "2001:2::1", ADDR_BENCHMARK },
		{ "2001:10::1", ADDR_ORCHID },
		{ "2001:2f::1", ADDR_ORCHID },
		{ "2001:1::1", ADDR_RESERVED },
		{ "2001:1ff:ffff::1", ADDR_RESERVED },
		{ "2001:200::1", ADDR_GLOBAL },
		{ "2001:db8::1", ADDR_DOCUMENTATION },
		{ "3fff:fff::1", ADDR_DOCUMENTATION },
		{ "2002:7f00:1::1", ADDR_6TO4 },
		{ "2620:4f:8000::1", ADDR_ANYCAST_SINK },
		{ "2606:4700::1111", ADDR_GLOBAL },
		{ "2606:4700::5efe:a00:1", ADDR_ISATAP },
		{ "2606:4700::200:5efe:a00:1", ADDR_ISATAP },
		{ "2606:4700::100:5efe:a00:1", ADDR_GLOBAL },
		{ "4000::1", ADDR_RESERVED },
		{ "5f00::1", ADDR_SRV6 },
		{ "fc00::1", ADDR_ULA },
		{ "fdff::1", ADDR_ULA },
		{ "fe80::1", ADDR_LINK_LOCAL },
		{ "febf::1", ADDR_LINK_LOCAL },
		{ "fec0::1", ADDR_SITE_LOCAL },
		{ "fe00::1", ADDR_RESERVED },
		{ "ff02::1", ADDR_MULTICAST },
		{ "1::1", ADDR_RESERVED },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct addr a = must(all[i].text);

		CHECKF(addr_special(&a) == all[i].class, "%s is an address of class %s (got: %s)",
		       all[i].text, addr_special_name(all[i].class), addr_special_name(addr_special(&a)));
	}
}

static enum addr_class class_of(const char *s)
{
	struct addr a = must(s);

	return addr_special(&a);
}

/* No way to write an address that is not for everybody makes it one that is. */
static void test_cases_15_24_29(void)
{
	static const char *const same[] = {
		"::ffff:", "::", "64:ff9b::", "64:ff9b:1::", "::ffff:0:", "2606:4700::5efe:", "fe80::5efe:"
	};
	static const char *const inner[] = { "169.254.169.254", "127.0.0.1", "10.0.0.1", "192.168.1.1" };

	for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
		for (size_t k = 0; k < sizeof(inner) / sizeof(inner[0]); k++) {
			char text[64];

			snprintf(text, sizeof(text), "%s%s", same[i], inner[k]);
			CHECKF(class_of(text) != ADDR_GLOBAL, "cases 15, 24: %s is not for everybody", text);
		}
	}
	CHECKF(class_of("169.254.169.254") == ADDR_METADATA && class_of("::ffff:a9fe:a9fe") == ADDR_METADATA,
	       "case 29: the address of cloud metadata is known in both families");
}

static bool in(const char *range, const char *text)
{
	struct addr a = must(text);
	struct addr_range r = { 0 };

	return addr_range_parse(range, strlen(range), &r, NULL) == 0 && addr_range_contains(&r, &a);
}

static void test_ranges(void)
{
	struct addr_range r, s;
	struct err e = ERR_INIT;
	char text[ADDR_RANGE_TEXT_LEN];

	CHECK(in("10.0.0.0/8", "10.255.0.1") && !in("10.0.0.0/8", "11.0.0.0"));
	CHECK(in("10.0.0.0/8", "::ffff:10.1.1.1") && in("::ffff:10.0.0.0/104", "10.1.1.1"));
	CHECK(in("0.0.0.0/0", "1.2.3.4") && !in("0.0.0.0/0", "2606:4700::1"));
	CHECKF(!in("::/0", "1.2.3.4") && in("::/0", "2606:4700::1"), "::/0 is all of IPv6 and no IPv4");
	CHECK(in("1.2.3.4", "1.2.3.4") && !in("1.2.3.4", "1.2.3.5") && in("1.2.3.4/31", "1.2.3.5"));
	CHECK(in("fd00::/9", "fd7f::1") && !in("fd00::/9", "fd80::1"));
	CHECK(addr_range_parse("10.0.0.1/8", 10, &r, &e) == -EINVAL);
	CHECKF(strstr(e.msg, "10.0.0.0/8") != NULL, "a refused range comes with its right form: %s", e.msg);
	CHECK(addr_range_parse("10.0.0.0/8", 10, &r, &e) == 0 && addr_range_len(&r) == 8 && r.bits == 104);
	CHECK_STR(addr_range_format(&r, text), "10.0.0.0/8");
	CHECK(addr_range_parse("10.2.0.0/16", 11, &s, &e) == 0);
	CHECK(addr_range_covers(&r, &s) && !addr_range_covers(&s, &r) && addr_range_covers(&r, &r));
	CHECK(addr_range_count(&r) == 1u << 24);
	struct addr a = addr_range_at(&r, 0x010203);
	CHECK(addr_v4(&a) == 0x0a010203);
	CHECK(addr_range_parse("2001:db8::/32", 13, &r, &e) == 0 && addr_range_count(&r) == UINT64_MAX);
	CHECK_STR(addr_range_format(&r, text), "2001:db8::/32");
	static const char *const bad[] = { "10.0.0.0/33", "10.0.0.0/",	  "10.0.0.0/08",  "10.0.0.0/-1",
					   "10.0.0.0/8 ", "10.0.0/8",	  "::/129",	  "::1/64",
					   "/8",	  "10.0.0.0/8/8", "::ffff:0:0/95" };
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECKF(addr_range_parse(bad[i], strlen(bad[i]), &r, NULL) == -EINVAL,
		       "the range %s is refused", bad[i]);
}

static void test_sockaddr(void)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET,
				  .sin_port = htons(443),
				  .sin_addr = { htonl(0x01020304) } };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(8443) };
	uint8_t out[ADDR_SOCKADDR_LEN];
	struct addr a, b = must("2606:4700::1");
	uint16_t port = 0;

	CHECK(addr_from_sockaddr(&v4, sizeof(v4), &a, &port) == 0 && addr_v4(&a) == 0x01020304 &&
	      port == 443);
	CHECK(addr_to_sockaddr(&a, 443, out) == sizeof(v4) && memcmp(out, &v4, sizeof(v4)) == 0);
	memcpy(&v6.sin6_addr, b.b, 16);
	CHECK(addr_from_sockaddr(&v6, sizeof(v6), &a, &port) == 0 && addr_eq(&a, &b) && port == 8443);
	CHECK(addr_to_sockaddr(&a, 8443, out) == sizeof(v6) && memcmp(out, &v6, sizeof(v6)) == 0);
	memcpy(&v6.sin6_addr, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x7f\0\0\1", 16);
	CHECK(addr_from_sockaddr(&v6, sizeof(v6), &a, &port) == 0 && addr_special(&a) == ADDR_LOOPBACK);
	CHECK(addr_from_sockaddr(&v6, 1, &a, &port) == -EAFNOSUPPORT);
	CHECK(addr_from_sockaddr(&v6, 23, &a, &port) == -EAFNOSUPPORT);
	v4.sin_family = AF_UNIX;
	CHECK(addr_from_sockaddr(&v4, sizeof(v4), &a, &port) == -EAFNOSUPPORT);
}

int main(void)
{
	test_text();
	test_text_refused();
	test_classes();
	test_cases_15_24_29();
	test_ranges();
	test_sockaddr();
	return tap_done();
}
