/* SPDX-License-Identifier: Apache-2.0 */
/* RTM_GETROUTE for one destination, and the type in its response. Changes no route. */
#include "sys/netlink/route_query.h"

#include "base/cleanup.h"

#include <errno.h>
#include <limits.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>

#define RESPONSE_MAX 4096
#define DATAGRAMS_MAX 16 /* unrelated ones that are skipped for one query */

struct route_request {
	struct nlmsghdr head;
	struct rtmsg route;
	struct rtattr attr;
	uint8_t dst[16];
};

int route_query_open(struct route_query *q, struct err *e)
{
	q->fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	return q->fd < 0 ? err_sys(e, -errno, "cannot query the kernel's routing") : 0;
}

void route_query_close(struct route_query *q)
{
	fd_close(q->fd);
	*q = ROUTE_QUERY_INIT;
}

static int send_route_request(struct route_query *q, int family, const void *dst)
{
	const size_t n = family == AF_INET ? 4 : 16;
	struct route_request r = { .head = { .nlmsg_type = RTM_GETROUTE, .nlmsg_flags = NLM_F_REQUEST } };
	const size_t len = offsetof(struct route_request, dst) + n;
	ssize_t sent;

	r.head.nlmsg_len = (uint32_t)len;
	r.head.nlmsg_seq = ++q->seq;
	r.route.rtm_family = (unsigned char)family;
	r.route.rtm_dst_len = (unsigned char)(n * 8);
	r.attr.rta_type = RTA_DST;
	r.attr.rta_len = (unsigned short)RTA_LENGTH(n);
	memcpy(r.dst, dst, n);
	do {
		sent = send(q->fd, &r, len, 0);
	} while (sent < 0 && errno == EINTR);
	return sent < 0 ? -errno : 0;
}

static int route_error(const char *data, size_t len)
{
	int error;

	if (len < sizeof(struct nlmsgerr))
		return -EPROTO;
	memcpy(&error, data + offsetof(struct nlmsgerr, error), sizeof(error));
	return error < 0 && error > INT_MIN ? error : -EPROTO; /* a success would have brought a route */
}

static int route_type(const char *data, size_t len)
{
	struct rtmsg route;

	if (len < sizeof(route))
		return -EPROTO;
	memcpy(&route, data, sizeof(route));
	return route.rtm_type != RTN_UNSPEC ? route.rtm_type : -EPROTO;
}

int route_response_type(const void *data, size_t len, uint32_t seq)
{
	const char *p = data;

	while (len >= NLMSG_HDRLEN) {
		struct nlmsghdr h;
		size_t whole;

		memcpy(&h, p, sizeof(h));
		if (h.nlmsg_len < NLMSG_HDRLEN || h.nlmsg_len > len)
			return -EPROTO;
		if (h.nlmsg_seq == seq && h.nlmsg_type == NLMSG_ERROR)
			return route_error(p + NLMSG_HDRLEN, h.nlmsg_len - NLMSG_HDRLEN);
		if (h.nlmsg_seq == seq && h.nlmsg_type == RTM_NEWROUTE)
			return route_type(p + NLMSG_HDRLEN, h.nlmsg_len - NLMSG_HDRLEN);
		whole = NLMSG_ALIGN((size_t)h.nlmsg_len);
		whole = whole < len ? whole : len;
		p += whole;
		len -= whole;
	}
	return 0;
}

/* The kernel responds before send() returns, so a response that is missing now never comes. */
int route_query_type(struct route_query *q, int family, const void *dst)
{
	int r = send_route_request(q, family, dst);

	for (int i = 0; r == 0 && i < DATAGRAMS_MAX; i++) {
		struct sockaddr_nl from = { 0 };
		socklen_t from_len = sizeof(from);
		char buf[RESPONSE_MAX];
		ssize_t got = recvfrom(q->fd, buf, sizeof(buf), MSG_DONTWAIT | MSG_TRUNC,
				       (struct sockaddr *)&from, &from_len);

		if (got < 0 && errno != EINTR)
			return errno == EAGAIN ? -EPROTO : -errno;
		if (got > (ssize_t)sizeof(buf))
			return -EMSGSIZE;
		if (got > 0 && from_len == sizeof(from) && from.nl_pid == 0)
			r = route_response_type(buf, (size_t)got, q->seq);
	}
	return r ? r : -EPROTO;
}
