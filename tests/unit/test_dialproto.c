/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "egress/wire/dialproto.h"
#include "tap.h"

static struct dial_req good(void)
{
	struct dial_req q = { .type = DIAL_REQ, .id = 7, .generation = 3, .port = 443, .kind = DIAL_NAME };

	memcpy(q.host, "api.example.com", 15);
	return q;
}

static bool takes(const void *m, size_t len)
{
	union dial_msg ret;

	return dialproto_parse_to_dial(m, len, &ret) == 0;
}

static bool takes_req(struct dial_req q)
{
	return takes(&q, sizeof(q));
}

static void set_host(struct dial_req *q, const char *s)
{
	memset(q->host, 0, sizeof(q->host));
	memcpy(q->host, s, strlen(s));
}

static void test_hosts(void)
{
	static const char *const bad[] = { "",
					   "API.example.com",
					   "api.example.com.",
					   "10.0.0.1",
					   "2130706433",
					   "0x7f.1",
					   "a b.example.com",
					   "a\nb.example.com",
					   "b\303\274cher.example",
					   "a..b",
					   "[::1]",
					   "user@example.com",
					   "example.com:443" };
	struct dial_req q = good();

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		set_host(&q, bad[i]);
		CHECKF(!takes_req(q), "a request for host '%s' is refused", bad[i]);
	}
	set_host(&q, "xn--bcher-kva.example");
	CHECKF(takes_req(q), "a request for a host in punycode is accepted");
	memset(q.host, 'a', sizeof(q.host));
	CHECKF(!takes_req(q), "a request for a host without an end is refused");
	q = good();
	q.host[100] = 'x';
	CHECKF(!takes_req(q), "a host with bytes after its end is refused");
}

static void test_fields(void)
{
	struct dial_req q = good();

	CHECK(takes_req(q));
	q.port = 0;
	CHECK(!takes_req(q));
	q.flags = DIAL_RESOLVE_ONLY;
	CHECKF(takes_req(q), "port 0 is accepted with RESOLVE_ONLY");
	q.flags = 2;
	CHECK(!takes_req(q));
	q = good();
	q.kind = 2;
	CHECK(!takes_req(q));
	q = good();
	q.addr[3] = 1;
	CHECKF(!takes_req(q), "a request with a name and an address is refused");
	q.kind = DIAL_ADDR;
	CHECKF(!takes_req(q), "a request with an address and no name is accepted");
	set_host(&q, "");
	CHECK(takes_req(q));
	memcpy(q.proxy_set, "res-1", 5);
	CHECK(takes_req(q));
	q.proxy_set[7] = 1;
	CHECK(!takes_req(q));
	q = good();
	memcpy(q.proxy_set, "a/b", 3);
	CHECK(!takes_req(q));
	q = good();
	q.sticky[0] = 7;
	CHECK(!takes_req(q));
}

static void test_sizes(void)
{
	struct dial_req q = good();
	struct dial_cancel c = { .type = DIAL_CANCEL, .id = 7 };
	struct dial_fault f = { .type = DIAL_FAULT, .proxy_set = "p", .proxy = "h:1" };
	struct dial_rep r = { .type = DIAL_REP, .status = -13, .why = "no" };
	union dial_msg m;
	char big[sizeof(m) + 1] = { 0 };

	for (size_t i = 0; i < sizeof(q); i++) {
		if (takes(&q, i))
			CHECKF(false, "a request of %zu bytes is refused", i);
	}
	memcpy(big, &q, sizeof(q));
	CHECK(!takes(big, sizeof(q) + 1));
	CHECK(!takes(big, sizeof(big)));
	CHECK(takes(&c, sizeof(c)));
	CHECK(!takes(&c, sizeof(c) - 1));
	CHECK(takes(&f, sizeof(f)));
	f.reserved = 1;
	CHECK(!takes(&f, sizeof(f)));
	CHECKF(!takes(&r, sizeof(r)), "a reply that is sent to dial is refused");
	CHECK(dialproto_parse_to_egress(&r, sizeof(r), &m) == 0 && m.rep.status == -13);
	CHECKF(dialproto_parse_to_egress(&q, sizeof(q), &m) < 0,
	       "a request that is sent to egress is refused");
	r.status = 1;
	CHECK(dialproto_parse_to_egress(&r, sizeof(r), &m) < 0);
	r.status = 0;
	r.why[0] = '\033';
	CHECKF(dialproto_parse_to_egress(&r, sizeof(r), &m) < 0, "a reason with a control byte is refused");
	r.type = 4711;
	CHECK(dialproto_parse_to_egress(&r, sizeof(r), &m) < 0);
}

static void test_request(void)
{
	struct dial_req q;
	struct host h;

	CHECK(host_canon("API.Example.com", 15, &h, NULL) == 0);
	dialproto_request(&q, 5, &h, 443, 0);
	CHECK(takes_req(q) && q.id == 5 && q.kind == DIAL_NAME);
	CHECK_STR(q.host, "api.example.com");
	CHECK(host_canon("10.0.0.1", 8, &h, NULL) == 0);
	dialproto_request(&q, 6, &h, 80, 0);
	CHECK(takes_req(q) && q.kind == DIAL_ADDR && q.addr[12] == 10);
}

int main(void)
{
	test_hosts();
	test_fields();
	test_sizes();
	test_request();
	return tap_done();
}
