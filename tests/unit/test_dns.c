/* SPDX-License-Identifier: Apache-2.0 */
/* Queries made by hand; answers read back with the C library's parser. */
#include "codec/net/dns.h"
#include "tap.h"

#include <arpa/nameser.h>
#include <errno.h>
#include <resolv.h>

struct msg {
	uint8_t b[8192];
	size_t len;
};

static void put(struct msg *m, const void *data, size_t n)
{
	memcpy(m->b + m->len, data, n);
	m->len += n;
}

#define PUT(m, text) put(m, text, sizeof(text) - 1)

static void put_name(struct msg *m, const char *name)
{
	while (*name) {
		size_t n = strcspn(name, ".");
		uint8_t len = (uint8_t)n;

		put(m, &len, 1);
		put(m, name, n);
		name += n + (name[n] == '.');
	}
	PUT(m, "\0");
}

static void put_type(struct msg *m, unsigned type, unsigned klass)
{
	const uint8_t b[4] = { (uint8_t)(type >> 8), (uint8_t)type, (uint8_t)(klass >> 8), (uint8_t)klass };

	put(m, b, 4);
}

static struct msg query(const char *name, unsigned type)
{
	struct msg m = { .len = 0 };

	PUT(&m, "\x12\x34\x01\0\0\1\0\0\0\0\0\0");
	put_name(&m, name);
	put_type(&m, type, DNS_IN);
	return m;
}

/* With an OPT record that offers this size and has these options. */
static struct msg query_edns(const char *name, unsigned type, unsigned size, const char *options, size_t n)
{
	struct msg m = query(name, type);

	m.b[11] = 1;
	PUT(&m, "\0");
	put_type(&m, DNS_OPT, size);
	PUT(&m, "\0\0\x80\0");
	m.b[m.len++] = (uint8_t)(n >> 8);
	m.b[m.len++] = (uint8_t)n;
	put(&m, options, n);
	return m;
}

static int parse(const struct msg *m, struct dns_query *q)
{
	return dns_parse(m->b, m->len, q);
}

static void test_query(void)
{
	struct msg m = query("GitHub.COM", DNS_A);
	struct dns_query q;

	CHECK(parse(&m, &q) == 0 && q.id == 0x1234 && q.rd && !q.cd && q.type == DNS_A && q.klass == DNS_IN);
	CHECK(q.kind == DNS_NAME_HOST && !q.edns && dns_udp_max(&q) == 512);
	CHECK_STR(q.host.text, "github.com");
	CHECKF(q.name_len == 12 && !memcmp(q.name, "\6GitHub\3COM", 12),
	       "a query keeps the spelling of its name");
	m = query("", DNS_NS);
	CHECK(parse(&m, &q) == 0 && q.kind == DNS_NAME_ROOT);
	m = query("*.example.org", DNS_A);
	CHECK(parse(&m, &q) == 0 && q.kind == DNS_NAME_ODD);
	CHECK_STR(q.text, "*.example.org");
	m = query("127.1", DNS_A);
	CHECKF(parse(&m, &q) == 0 && q.kind == DNS_NAME_ODD, "case 14: 127.1 is an odd name");
	m = query("10.0.0.1", DNS_A);
	CHECKF(parse(&m, &q) == 0 && q.kind == DNS_NAME_ODD, "an address is an odd name");
	m = query_edns("a.example", DNS_AAAA, 4096,
		       "\0\x0a\0\x8"
		       "12345678",
		       12);
	CHECK(parse(&m, &q) == 0 && q.edns && q.dnssec_ok && q.edns_size == 4096 && dns_udp_max(&q) == 1232);
	m = query_edns("a.example", DNS_AAAA, 100, "", 0);
	CHECK(parse(&m, &q) == 0 && dns_udp_max(&q) == 512);
	m = query_edns("a.example", DNS_AAAA, 600, "", 0);
	CHECK(parse(&m, &q) == 0 && dns_udp_max(&q) == 600);
}

static void test_ptr(void)
{
	struct msg m = query("4.3.2.1.in-addr.arpa", DNS_PTR);
	char text[ADDR_TEXT_LEN];
	struct dns_query q;

	CHECK(parse(&m, &q) == 0 && q.kind == DNS_NAME_PTR && addr_v4(&q.addr) == 0x01020304);
	m = query("1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.B.D.0.1.0.0.2.ip6.arpa", DNS_PTR);
	CHECK(parse(&m, &q) == 0 && q.kind == DNS_NAME_PTR);
	CHECK_STR(addr_format(&q.addr, text), "2001:db8::1");
	m = query("3.2.1.in-addr.arpa", DNS_PTR);
	CHECK(parse(&m, &q) == 0 && q.kind == DNS_NAME_HOST);
	m = query("04.3.2.1.in-addr.arpa", DNS_PTR);
	CHECK(parse(&m, &q) == 0 && q.kind == DNS_NAME_HOST);
	m = query("g.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.B.D.0.1.0.0.2.ip6.arpa", DNS_PTR);
	CHECK(parse(&m, &q) == 0 && q.kind == DNS_NAME_HOST);
}

static void test_case_06_bytes(void)
{
	static const char odd[] = "\0\1\t\n\r .\x7f\x80\xff";
	struct dns_query q;

	for (size_t i = 0; i < sizeof(odd) - 1; i++) {
		struct msg m = query("github.com", DNS_A);

		m.b[15] = (uint8_t)odd[i];
		CHECKF(parse(&m, &q) == DNS_FORMERR && !q.has_question,
		       "case 6: byte 0x%02x in a label is refused", (unsigned)(uint8_t)odd[i]);
	}
}

static void test_malformed(void)
{
	struct msg m = query("github.com", DNS_A), n = m;
	struct dns_query q;
	bool refused = true;

	for (size_t len = 0; len < m.len; len++) {
		int r = dns_parse(m.b, len, &q);

		refused = refused && r == (len < 12 ? -EBADMSG : DNS_FORMERR);
	}
	CHECKF(refused, "a query that is cut off is refused at every length");
	n.b[n.len++] = 0;
	CHECKF(parse(&n, &q) == DNS_FORMERR, "a query with a byte more is refused");
	n = m;
	n.b[2] |= 0x80;
	CHECKF(parse(&n, &q) == -EBADMSG, "a response gets no response");
	n = m;
	n.b[2] |= 0x10;
	CHECKF(parse(&n, &q) == DNS_NOTIMP && q.opcode == 2, "an unknown opcode is not implemented");
	n = m;
	n.b[12] = 0xc0;
	CHECKF(parse(&n, &q) == DNS_FORMERR, "a compressed name is refused");
	n.b[12] = 0x40;
	CHECKF(parse(&n, &q) == DNS_FORMERR, "an extended label is refused");
	static const int counts[] = { 5, 7, 9, 11 };
	for (int i = 0; i < 4; i++) {
		n = m;
		n.b[counts[i]]++;
		CHECKF(parse(&n, &q) == DNS_FORMERR, "a query with a count of absent records is refused (%d)",
		       i);
	}
	n = m;
	n.b[5] = 0;
	CHECKF(parse(&n, &q) == DNS_FORMERR, "a query without a question is refused");
	n = m;
	n.b[n.len - 1] = 3;
	CHECKF(parse(&n, &q) == DNS_REFUSED && q.has_question, "a query of an unknown class is refused");
	n = query("github.com", 252);
	CHECKF(parse(&n, &q) == DNS_REFUSED, "a zone transfer is refused");
	n = query_edns("github.com", DNS_A, 1232, "", 0);
	n.b[n.len - 5] = 1;
	CHECKF(parse(&n, &q) == DNS_BADVERS, "a newer version of EDNS is refused");
	n = query_edns("github.com", DNS_A, 1232, "\0\1\0\5abc", 7);
	CHECKF(parse(&n, &q) == DNS_FORMERR && !q.edns, "an EDNS option longer than its record is refused");
	n = query_edns("github.com", DNS_A, 1232, "", 0);
	n.b[29] = 1;
	CHECKF(parse(&n, &q) == DNS_FORMERR, "an additional record that is not OPT is refused");
	n = query("github.com", DNS_A);
	n.len = DNS_QUERY_MAX + 1;
	CHECK(parse(&n, &q) == DNS_FORMERR);
}

static void test_name_lengths(void)
{
	char name[256];
	struct dns_query q;
	struct msg m;

	memset(name, 'a', sizeof(name));
	for (int i = 50; i < 256; i += 51)
		name[i] = '.';
	name[253] = '\0';
	m = query(name, DNS_A);
	CHECK(parse(&m, &q) == 0 && q.kind == DNS_NAME_HOST && q.name_len == 255 && q.host.len == 253);
	name[253] = 'a';
	name[254] = '\0';
	m = query(name, DNS_A);
	CHECK(parse(&m, &q) == DNS_FORMERR);
}

static void check_reply(const uint8_t *out, size_t len, int rcode, int answers, int authority)
{
	ns_msg h;
	ns_rr rr;

	CHECK(ns_initparse(out, (int)len, &h) == 0 && ns_msg_id(h) == 0x1234);
	CHECK(ns_msg_getflag(h, ns_f_qr) == 1 && ns_msg_getflag(h, ns_f_ra) == 1 &&
	      ns_msg_getflag(h, ns_f_rd) == 1);
	CHECKF((int)ns_msg_getflag(h, ns_f_rcode) == rcode && ns_msg_count(h, ns_s_an) == answers &&
		       ns_msg_count(h, ns_s_ns) == authority,
	       "a response has rcode %d, %d answers and %d records of authority", rcode, answers, authority);
	CHECK(ns_parserr(&h, ns_s_qd, 0, &rr) == 0);
}

static void test_reply_addrs(void)
{
	struct msg m = query_edns("GitHub.com", DNS_A, 1232, "", 0);
	struct addr a[] = { addr_from_v4(0x0b000002), { { 0x26, 6, 0x47 } }, addr_from_v4(0x0b000003) };
	uint8_t out[DNS_REPLY_MAX];
	struct dns_query q;
	ns_msg h;
	ns_rr rr = { 0 };
	size_t n;

	CHECK(parse(&m, &q) == 0);
	n = dns_reply_addrs(&q, a, 3, 60, dns_udp_max(&q), out);
	check_reply(out, n, 0, 2, 0);
	CHECK(ns_initparse(out, (int)n, &h) == 0 && ns_parserr(&h, ns_s_an, 1, &rr) == 0);
	CHECK_STR(ns_rr_name(rr), "GitHub.com");
	CHECK(ns_rr_type(rr) == ns_t_a && ns_rr_ttl(rr) == 60 && ns_rr_rdlen(rr) == 4 &&
	      !memcmp(ns_rr_rdata(rr), "\x0b\0\0\3", 4));
	CHECKF(ns_parserr(&h, ns_s_ar, 0, &rr) == 0 && ns_rr_type(rr) == ns_t_opt && ns_rr_class(rr) == 1232,
	       "a query with OPT gets a response with OPT");
	q.type = DNS_AAAA;
	n = dns_reply_addrs(&q, a, 3, 60, 512, out);
	check_reply(out, n, 0, 1, 0);
	n = dns_reply_addrs(&q, a, 1, 60, 512, out);
	CHECKF(n < 512, "the response for AAAA of a name with A only is short");
	check_reply(out, n, 0, 0, 1);
	q.type = DNS_HTTPS;
	n = dns_reply_addrs(&q, a, 3, 60, 512, out);
	check_reply(out, n, 0, 0, 1);
}

static void test_reply_others(void)
{
	struct msg m = query("a.example", DNS_A);
	uint8_t out[DNS_REPLY_MAX];
	struct dns_query q;
	struct host name;
	ns_msg h;
	ns_rr rr;
	size_t n;

	CHECK(parse(&m, &q) == 0);
	static const struct {
		enum dns_rcode rcode;
		int authority;
	} all[] = { { DNS_NOERROR, 1 }, { DNS_NXDOMAIN, 1 }, { DNS_SERVFAIL, 0 },
		    { DNS_REFUSED, 0 }, { DNS_FORMERR, 0 },  { DNS_NOTIMP, 0 } };
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		n = dns_reply_empty(&q, all[i].rcode, 30, 512, out);
		check_reply(out, n, (int)all[i].rcode, 0, all[i].authority);
	}
	n = dns_reply_empty(&q, DNS_NXDOMAIN, 30, 512, out);
	CHECK(ns_initparse(out, (int)n, &h) == 0 && ns_parserr(&h, ns_s_ns, 0, &rr) == 0);
	CHECK(ns_rr_type(rr) == ns_t_soa && ns_rr_ttl(rr) == 30 && ns_rr_rdlen(rr) == 22);
	CHECKF(ns_msg_count(h, ns_s_ar) == 0, "a query without OPT gets a response without OPT");
	m = query("1.0.0.11.in-addr.arpa", DNS_PTR);
	CHECK(parse(&m, &q) == 0 && host_canon("api.example.org", 15, &name, NULL) == 0);
	n = dns_reply_ptr(&q, &name, 60, 512, out);
	check_reply(out, n, 0, 1, 0);
	CHECK(ns_initparse(out, (int)n, &h) == 0 && ns_parserr(&h, ns_s_an, 0, &rr) == 0);
	CHECK(ns_rr_rdlen(rr) == 17 && !memcmp(ns_rr_rdata(rr), "\3api\7example\3org", 17));
	m = query_edns("a.example", DNS_A, 1232, "", 0);
	m.b[m.len - 5] = 1;
	CHECK(parse(&m, &q) == DNS_BADVERS);
	n = dns_reply_empty(&q, DNS_BADVERS, 0, 512, out);
	CHECKF(out[3] == 0x80 && out[n - 6] == 1, "BADVERS has its high bits in the OPT record");
}

static void test_truncated(void)
{
	struct msg m = query("a.example", DNS_A);
	uint8_t out[DNS_REPLY_MAX];
	struct addr a[200];
	struct dns_query q;
	ns_msg h;
	size_t n;

	for (uint32_t i = 0; i < 200; i++)
		a[i] = addr_from_v4(0x0b000000 + i);
	CHECK(parse(&m, &q) == 0);
	n = dns_reply_addrs(&q, a, 200, 60, 512, out);
	CHECK(n <= 512 && ns_initparse(out, (int)n, &h) == 0 && ns_msg_getflag(h, ns_f_tc) == 1);
	CHECK(ns_msg_count(h, ns_s_an) == 30);
	q.edns = true;
	n = dns_reply_addrs(&q, a, 200, 60, SIZE_MAX, out);
	CHECK(n <= DNS_REPLY_MAX && ns_initparse(out, (int)n, &h) == 0 && ns_msg_getflag(h, ns_f_tc) == 1);
	n = dns_reply_addrs(&q, a, 2, 60, 0, out);
	CHECK(ns_initparse(out, (int)n, &h) == 0 && ns_msg_getflag(h, ns_f_tc) == 0);
}

static void test_tcp(void)
{
	static const uint8_t two[] = { 0, 3, 'a', 'b', 'c', 0, 1, 'd' };
	const uint8_t *msg;
	size_t len;
	uint8_t head[2];

	for (size_t i = 0; i < 5; i++)
		CHECK(dns_tcp_next(two, i, &msg, &len) == 0);
	CHECK(dns_tcp_next(two, sizeof(two), &msg, &len) == 5 && len == 3 && msg[0] == 'a');
	CHECK(dns_tcp_next(two + 5, 3, &msg, &len) == 3 && len == 1);
	CHECK(dns_tcp_next((const uint8_t *)"\0\0x", 3, &msg, &len) == -EBADMSG);
	CHECK(dns_tcp_next((const uint8_t *)"\x10\1", 2, &msg, &len) == -EBADMSG);
	dns_tcp_head(head, 0x1234);
	CHECK(head[0] == 0x12 && head[1] == 0x34);
}

static void test_type_names(void)
{
	char out[16];

	CHECK_STR(dns_type_name(1, out), "A");
	CHECK_STR(dns_type_name(65, out), "HTTPS");
	CHECK_STR(dns_type_name(65535, out), "TYPE65535");
	CHECK_STR(dns_type_name(0, out), "TYPE0");
}

int main(void)
{
	test_query();
	test_ptr();
	test_case_06_bytes();
	test_malformed();
	test_name_lengths();
	test_reply_addrs();
	test_reply_others();
	test_truncated();
	test_tcp();
	test_type_names();
	return tap_done();
}
