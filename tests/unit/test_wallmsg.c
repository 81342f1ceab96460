/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "egress/wire/wallmsg.h"
#include "tap.h"

/* A message with room for more than any may have. */
struct wall_message {
	struct wallmsg_head h;
	uint8_t data[WALLMSG_DATAGRAM_MAX + 1];
};

static struct wallmsg_peer peer(const char *addr, uint16_t port)
{
	struct wallmsg_peer p = { .port = port };

	CHECK(addr_parse(addr, strlen(addr), &p.addr, NULL) == 0);
	return p;
}

static struct wall_message stream(const char *to, uint16_t port)
{
	struct wall_message m = { .h = { .type = WALLMSG_STREAM, .family = WALLMSG_V4 } };

	m.h.to = peer(to, port);
	m.h.from = peer(strchr(to, ':') ? "2001:db8::7" : "10.0.2.15", 40000);
	m.h.family = strchr(to, ':') ? WALLMSG_V6 : WALLMSG_V4;
	return m;
}

static struct wall_message query(const char *to, size_t len)
{
	struct wall_message m = stream(to, 53);

	m.h.type = WALLMSG_QUERY;
	m.h.len = (uint16_t)len;
	memset(m.data, 'q', len);
	return m;
}

/* Did a message that was refused change the result? */
static bool is_touched;

static bool takes_bytes(const struct wall_message *m, size_t len, unsigned n_fds)
{
	struct wallmsg_head h = { .type = 77 };
	int r = wallmsg_parse(m, len, n_fds, &h);

	is_touched = is_touched || (r < 0 && h.type != 77);
	return r == 0 && memcmp(&h, &m->h, sizeof(h)) == 0;
}

static bool takes(struct wall_message m, unsigned n_fds)
{
	return takes_bytes(&m, sizeof(m.h) + m.h.len, n_fds);
}

static void test_streams(void)
{
	static const char *const outside[] = { "11.0.0.7", "8.8.8.8", "10.1.2.3", "2001:db8::1", "fd00::1" };
	static const char *const inside[] = { "0.0.0.0",   "127.0.0.1", "127.255.0.1",
					      "224.0.0.1", "239.1.1.1", "::",
					      "::1",	   "ff02::1",	"255.255.255.255" };

	for (size_t i = 0; i < ARRAY_SIZE(outside); i++)
		CHECKF(takes(stream(outside[i], 443), 1), "a stream to %s is taken", outside[i]);
	for (size_t i = 0; i < ARRAY_SIZE(inside); i++) {
		CHECKF(!takes(stream(inside[i], 443), 1), "a stream to %s, which stays inside, is refused",
		       inside[i]);
		CHECKF(takes(stream(inside[i], 53), 1), "a stream for DNS to %s is taken", inside[i]);
	}
	CHECKF(takes(stream("8.8.8.8", 0), 1), "a stream to port 0 is taken, to be denied");
	CHECKF(!takes(stream("8.8.8.8", 443), 0), "a stream without a descriptor is refused");
	CHECKF(!takes(stream("8.8.8.8", 443), 2), "a stream with two descriptors is refused");
}

static void test_queries(void)
{
	struct wall_message m = query("10.0.2.3", 40);

	CHECKF(takes(m, 0), "a query is taken");
	CHECKF(!takes(m, 1), "a query with a descriptor is refused");
	CHECKF(takes(query("127.0.0.1", 40), 0), "a query to a resolver on loopback is taken");
	CHECKF(takes(query("2001:db8::53", 40), 0), "a query over IPv6 is taken");
	CHECKF(takes(query("10.0.2.3", 0), 0), "an empty query is taken");
	CHECKF(takes(query("10.0.2.3", WALLMSG_DATAGRAM_MAX), 0), "a query of the maximum length is taken");
	CHECKF(!takes(query("10.0.2.3", WALLMSG_DATAGRAM_MAX + 1), 0), "a longer query is refused");
	m.h.from.port = 0;
	CHECKF(takes(m, 0), "a query from port 0 is taken: a program can send one");
	m.h.to.port = 5353;
	CHECKF(!takes(m, 0), "a query to another port than 53 is refused");
}

static void test_lengths(void)
{
	struct wall_message s = stream("8.8.8.8", 443), q = query("10.0.2.3", 40);
	bool is_any = false;

	for (size_t n = 0; n < sizeof(q.h) + 100; n++) {
		is_any = is_any || (n != sizeof(s.h) && takes_bytes(&s, n, 1)) ||
			 (n != sizeof(q.h) + 40 && takes_bytes(&q, n, 0));
	}
	CHECKF(!is_any, "no message of another length than its head says is taken");
	s.h.len = 4;
	CHECKF(!takes(s, 1), "a stream with bytes after its head is refused");
}

static void test_fields(void)
{
	const struct wall_message good = stream("8.8.8.8", 443);
	struct wall_message m = good;
	bool is_any = false;

	CHECK(takes(m, 1));
	for (uint32_t type = 0; type < 300; type++) {
		m.h.type = type;
		is_any = is_any || (type != WALLMSG_STREAM && takes(m, 1)) ||
			 (type != WALLMSG_QUERY && takes(m, 0));
	}
	m.h.type = 0x10000 + WALLMSG_STREAM;
	CHECKF(!is_any && !takes(m, 1), "no other type is taken, egress's own included");
	m = good;
	is_any = false;
	for (unsigned family = 0; family < 256; family++) {
		m.h.family = (uint8_t)family;
		is_any = is_any || (family != WALLMSG_V4 && takes(m, 1));
	}
	CHECKF(!is_any, "no other family than the addresses' is taken");
	m = good;
	m.h.from = peer("2001:db8::7", 40000);
	CHECKF(!takes(m, 1), "addresses of two families are refused");
	m.h.family = WALLMSG_V6;
	CHECKF(!takes(m, 1), "addresses of two families are refused as the other family, too");
	m = good;
	m.h.zero = 1;
	CHECKF(!takes(m, 1), "an unused byte of the head that is not zero is refused");
	m = good;
	m.h.from.zero[1] = 1;
	CHECKF(!takes(m, 1), "an unused byte of `from` that is not zero is refused");
	m = good;
	m.h.to.zero[0] = 1;
	CHECKF(!takes(m, 1), "an unused byte of `to` that is not zero is refused");
}

static void test_reply(void)
{
	struct wall_message q = query("10.0.2.3", 40);
	struct wallmsg_head r = wallmsg_reply(&q.h, 99);

	CHECK(r.type == WALLMSG_REPLY && r.len == 99 && r.family == WALLMSG_V4);
	CHECKF(memcmp(&r.to, &q.h.from, sizeof(r.to)) == 0, "a reply goes to the sender of its query");
	CHECKF(memcmp(&r.from, &q.h.to, sizeof(r.from)) == 0, "a reply comes from the address of its query");
}

int main(void)
{
	test_streams();
	test_queries();
	test_lengths();
	test_fields();
	test_reply();
	CHECKF(!is_touched, "a message that is refused leaves the result as it was");
	return tap_done();
}
