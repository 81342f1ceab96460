/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/netlink/route_query.h"
#include "tap.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <string.h>

#define SEQ 7

struct response {
	struct nlmsghdr head;
	union {
		struct rtmsg route;
		struct nlmsgerr error;
	};
};

static struct response a_route(uint8_t type)
{
	struct response r = { .head = { .nlmsg_len = NLMSG_LENGTH(sizeof(struct rtmsg)),
					.nlmsg_type = RTM_NEWROUTE,
					.nlmsg_seq = SEQ } };

	r.route.rtm_type = type;
	return r;
}

static struct response an_error(int error)
{
	struct response r = { .head = { .nlmsg_len = NLMSG_LENGTH(sizeof(struct nlmsgerr)),
					.nlmsg_type = NLMSG_ERROR,
					.nlmsg_seq = SEQ } };

	r.error.error = error;
	return r;
}

static int read_one(const struct response *r)
{
	return route_response_type(r, r->head.nlmsg_len, SEQ);
}

static void test_response(void)
{
	struct response r = a_route(RTN_LOCAL), two[2];
	size_t whole = r.head.nlmsg_len;
	char both[sizeof(two)];

	CHECK(read_one(&r) == RTN_LOCAL);
	for (size_t i = 0; i < whole; i++) {
		int want = i < NLMSG_HDRLEN ? 0 : -EPROTO;

		CHECKF(route_response_type(&r, i, SEQ) == want,
		       "a response that is cut after %zu bytes is refused", i);
	}
	for (uint32_t i = 0; i < whole; i++) {
		r.head.nlmsg_len = i;
		CHECKF(route_response_type(&r, whole, SEQ) == -EPROTO,
		       "a response that claims %u bytes is refused", i);
	}
	r.head.nlmsg_len = UINT32_MAX;
	CHECKF(route_response_type(&r, whole, SEQ) == -EPROTO, "a response that claims 4 GiB is refused");
	r = a_route(RTN_UNSPEC);
	CHECKF(read_one(&r) == -EPROTO, "a route without a type is refused");
	r = an_error(-ENETUNREACH);
	CHECK(read_one(&r) == -ENETUNREACH);
	r.head.nlmsg_len -= 4;
	CHECKF(read_one(&r) == -EPROTO, "an error that is too short is refused");
	r = an_error(0);
	CHECKF(read_one(&r) == -EPROTO, "a success without a route is refused");
	r = an_error(1);
	CHECKF(read_one(&r) == -EPROTO, "a positive error is never a type");
	r = a_route(RTN_UNICAST);
	r.head.nlmsg_seq = SEQ - 1;
	CHECKF(read_one(&r) == 0, "the response to an earlier query is skipped");
	two[0] = r;
	two[1] = a_route(RTN_LOCAL);
	memcpy(both, &two[0], whole);
	memcpy(both + NLMSG_ALIGN(whole), &two[1], whole);
	CHECKF(route_response_type(both, NLMSG_ALIGN(whole) + whole, SEQ) == RTN_LOCAL,
	       "the response after one to an earlier query is read");
	r = a_route(RTN_UNICAST);
	r.head.nlmsg_type = NLMSG_DONE;
	CHECKF(read_one(&r) == 0, "a message of another type is skipped");
}

static void test_query(void)
{
	struct route_query q = ROUTE_QUERY_INIT;
	struct err e = ERR_INIT;
	struct in_addr lo = { htonl(INADDR_LOOPBACK) };

	CHECKF(route_query_type(&q, AF_INET, &lo) == -EBADF, "a query without a socket fails");
	CHECK(route_query_open(&q, &e) == 0);
	CHECK(route_query_type(&q, AF_INET, &lo) == RTN_LOCAL);
	CHECKF(route_query_type(&q, AF_INET, &lo) == RTN_LOCAL, "a second query on the same socket succeeds");
	route_query_close(&q);
	CHECK(q.fd == -1);
}

int main(void)
{
	test_response();
	test_query();
	return tap_done();
}
