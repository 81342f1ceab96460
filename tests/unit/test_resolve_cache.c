/* SPDX-License-Identifier: Apache-2.0 */
/* The cache of a resolver's responses, on a fake clock. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "dial/connect/resolve_cache.h"
#include "tap.h"

#include <errno.h>

#define S NSEC_PER_SEC

static const unsigned char key[CACHE_KEY_LEN] = "sixteen bytes...";

static struct host name(const char *stem, unsigned n)
{
	char text[64];
	struct host h;

	snprintf(text, sizeof(text), "%s%u.example.test", stem, n);
	if (host_canon(text, strlen(text), &h, NULL) < 0)
		CHECKF(false, "the name %s can be parsed", text);
	return h;
}

static struct resolve_entry *add(struct resolve_cache *c, const struct host *h, int status, uint32_t ttl,
				 uint64_t now)
{
	int r = 0;
	struct resolve_entry *x = resolve_cache_add(c, h, &r);

	if (x) {
		x->answer.status = status;
		x->answer.ttl = ttl;
		resolve_cache_answered(c, x, now);
	}
	return x;
}

static void test_ttl(struct resolve_cache *c)
{
	struct host a = name("a", 0), b = name("b", 0), d = name("d", 0);
	struct host e = name("e", 0);

	add(c, &a, 0, 60, 100 * S);
	CHECK(resolve_cache_find(c, &a, 159 * S) != NULL);
	CHECK(resolve_cache_left(resolve_cache_find(c, &a, 130 * S), 130 * S) == 30);
	CHECKF(!resolve_cache_find(c, &a, 160 * S), "a response is kept for its time to live");
	CHECKF(!resolve_cache_find(c, &a, 100 * S), "an expired response is removed from the cache");
	add(c, &b, 0, 0, 100 * S);
	CHECKF(resolve_cache_find(c, &b, (100 + RESOLVE_TTL_MIN - 1) * S),
	       "a response with a time to live of 0 is kept for some seconds");
	CHECK(!resolve_cache_find(c, &b, (100 + RESOLVE_TTL_MIN) * S));
	add(c, &b, 0, UINT32_MAX, 100 * S);
	CHECKF(!resolve_cache_find(c, &b, (100 + RESOLVE_TTL_MAX) * S),
	       "a response with a time to live of 136 years is kept for an hour");
	add(c, &d, -ENOENT, 86400, 100 * S);
	CHECK(resolve_cache_find(c, &d, 101 * S)->answer.status == -ENOENT);
	CHECKF(!resolve_cache_find(c, &d, (100 + RESOLVE_TTL_NO_NAME) * S),
	       "the absence of a name is kept shortly");
	add(c, &e, -EREMOTEIO, 86400, 100 * S);
	CHECKF(!resolve_cache_find(c, &e, (100 + RESOLVE_TTL_FAILED) * S),
	       "a failed lookup is kept very shortly");
}

/* A sandbox that asks for a million names. */
static void test_bound(struct resolve_cache *c)
{
	struct host first = name("first", 0), last;

	resolve_cache_forget(c);
	add(c, &first, 0, 3600, 0);
	for (unsigned i = 0; i < 1000000; i++) {
		last = name("n", i);
		add(c, &last, 0, 3600, 0);
		if (i % 1000 == 0 && i < 500000)
			(void)resolve_cache_find(c, &first, 0);
		if (c->n > RESOLVE_CACHE_MAX)
			CHECKF(false, "the cache holds %zu responses, more than its bound", c->n);
		if (i == 490000)
			CHECKF(resolve_cache_find(c, &first, 0), "a response in use stays in a full cache");
	}
	CHECK(c->n == RESOLVE_CACHE_MAX);
	CHECK(resolve_cache_find(c, &last, 0) != NULL);
	CHECKF(!resolve_cache_find(c, &first, 0), "a response without use leaves a full cache");
}

static void test_pending(struct resolve_cache *c)
{
	static struct resolve_entry *x[RESOLVE_PENDING_MAX];
	struct host h;
	int r = 0;

	resolve_cache_forget(c);
	CHECK(c->n == 0);
	for (unsigned i = 0; i < RESOLVE_PENDING_MAX; i++) {
		h = name("p", i);
		x[i] = resolve_cache_add(c, &h, &r);
		if (!x[i])
			CHECKF(false, "open query %u is accepted", i);
	}
	h = name("one-more", 0);
	CHECKF(!resolve_cache_add(c, &h, &r) && r == -EBUSY, "the number of open queries has a bound");
	CHECKF(resolve_cache_find(c, &x[0]->name, UINT64_MAX) == x[0], "open queries do not expire");
	resolve_cache_forget(c);
	CHECK(c->n == RESOLVE_PENDING_MAX);
	for (unsigned i = 0; i < RESOLVE_PENDING_MAX; i++)
		resolve_cache_answered(c, x[i], 0);
	resolve_cache_forget(c);
	CHECK(c->n == 0 && c->n_pending == 0);
}

static void test_interleave(void)
{
	struct addr v6[3] = { { { 0x20, 1 } }, { { 0x20, 2 } }, { { 0x20, 3 } } };
	struct addr v4[2] = { addr_from_v4(0x01010101), addr_from_v4(0x01010102) }, many[100];
	struct resolve_answer a = { 0 };

	resolve_interleave(&a, v6, 3, v4, 2);
	CHECK(a.n_addrs == 5 && addr_eq(&a.addrs[0], &v6[0]) && addr_eq(&a.addrs[1], &v4[0]) &&
	      addr_eq(&a.addrs[2], &v6[1]) && addr_eq(&a.addrs[4], &v6[2]));
	for (unsigned i = 0; i < 100; i++)
		many[i] = addr_from_v4(0x02000000 + i / 2);
	a = (struct resolve_answer){ 0 };
	resolve_interleave(&a, NULL, 0, many, 100);
	CHECKF(a.n_addrs == RESOLVE_ADDRS_MAX && addr_v4(&a.addrs[1]) == 0x02000001,
	       "a response has each address once, up to its bound");
}

static void test_conf(void)
{
	static const char text[] =
		"# nameserver 1.1.1.1\nnameserver 9.9.9.9\nsearch x\nnameserver\t2620:fe::fe \r\n"
		"nameserver fe80::1%eth0\nnameserverx 8.8.8.8\nnameserver 010.0.0.1\nnameserver 127.0.0.53";
	struct resolve_server s[RESOLVE_SERVERS_MAX];
	char out[ADDR_TEXT_LEN];
	size_t n = resolver_read_conf(text, sizeof(text) - 1, s);

	CHECK(n == 3);
	CHECK_STR(addr_format(&s[0].addr, out), "9.9.9.9");
	CHECK_STR(addr_format(&s[1].addr, out), "2620:fe::fe");
	CHECK_STR(addr_format(&s[2].addr, out), "127.0.0.53");
	CHECK(s[0].port == 53);
	CHECK(resolver_read_conf("", 0, s) == 0);
}

int main(void)
{
	struct resolve_cache c;

	resolve_cache_init(&c, key);
	test_ttl(&c);
	test_bound(&c);
	test_pending(&c);
	resolve_cache_release(&c);
	test_interleave();
	test_conf();
	return tap_done();
}
