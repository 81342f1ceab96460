/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wall for real, in user and network namespaces of our own: a child builds it, goes into an inner user namespace and
 * does what it is told; the parent has the sockets, and is the gateway. Once as for engine ns, and once as for gVisor,
 * where the kernel of the second namespace stands in for gVisor's.
 */
#include "wallinside.h"

static bool wait_for(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, PATIENCE) == 1;
}

/* The gateway's part of one connection: what was asked for is sent back. */
static bool serve(int listener, char asked[64])
{
	struct sockaddr_storage sa = { 0 };
	socklen_t len = sizeof(sa);
	autoclose int c = wait_for(listener) ? accept(listener, NULL, NULL) : -1;
	char hello[8];

	if (c < 0 || getsockname(c, (struct sockaddr *)&sa, &len) < 0 || !wait_for(c) ||
	    recv(c, hello, sizeof(hello), 0) != 5)
		return false;
	show(&sa, asked);
	return send(c, asked, strlen(asked), MSG_NOSIGNAL) > 0;
}

static void connects(struct inside *in, int listener, const char *addr, uint16_t port, const char *from)
{
	char asked[64] = "nothing", want[80];
	struct outcome out;
	bool served;

	snprintf(want, sizeof(want), "%s %u", addr, port);
	tell(in, 'c', addr, port, from);
	served = serve(listener, asked);
	out = hear(in);
	CHECKF(served && strcmp(asked, want) == 0 && out.err == 0 && strcmp(out.text, want) == 0,
	       "a connection to %s%s%s is accepted with its address (%s, %s)", want, from[0] ? " from " : "",
	       from, asked, strerror(out.err));
}

/* An error, and at once: not when patience is over. */
static void refused(struct inside *in, char what, const char *addr, uint16_t port, int err1, int err2)
{
	struct outcome out;

	tell(in, what, addr, port, "");
	out = hear(in);
	CHECKF(out.err == err1 || out.err == err2, "an attempt '%c' at %s port %u is refused (%s)", what,
	       addr, port, strerror(out.err));
}

static void answers_datagram(struct inside *in, int fd, const char *addr)
{
	alignas(8) char control[256] = { 0 };
	char text[64] = "";
	struct sockaddr_storage peer = { 0 };
	struct iovec iov = { text, sizeof(text) };
	struct msghdr m = { .msg_name = &peer,
			    .msg_namelen = sizeof(peer),
			    .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };
	char asked[64] = "nothing";
	struct outcome out;

	tell(in, 'u', addr, 53, "");
	if (CHECKF(wait_for(fd) && recvmsg(fd, &m, 0) == 5, "a datagram to port 53 of %s arrives", addr)) {
		struct cmsghdr *c = CMSG_FIRSTHDR(&m);
		struct in_pktinfo *p4 = c ? (void *)CMSG_DATA(c) : NULL;
		struct in6_pktinfo *p6 = (void *)p4;

		if (c && c->cmsg_type == IP_PKTINFO && c->cmsg_level == IPPROTO_IP) {
			inet_ntop(AF_INET, &p4->ipi_addr, asked, sizeof(asked));
			p4->ipi_spec_dst = p4->ipi_addr;
			p4->ipi_ifindex = 0;
		} else if (c) {
			inet_ntop(AF_INET6, &p6->ipi6_addr, asked, sizeof(asked));
			p6->ipi6_ifindex = 0;
		}
		iov.iov_len = 5;
		CHECKF(sendmsg(fd, &m, 0) == 5, "a datagram from %s can be sent back (%s)", addr,
		       strerror(errno));
	}
	out = hear(in);
	CHECKF(strcmp(asked, addr) == 0 && out.err == 0 && strcmp(out.text, "hello") == 0,
	       "a datagram's address %s is known, and its response arrives (%s, %s)", addr, asked,
	       strerror(out.err));
}

/* The packet's own bytes, of the first that was copied to us; their number. */
static size_t read_copy(int fd, uint8_t out[WALL_NFLOG_BYTES])
{
	alignas(8) char buf[8192];
	ssize_t n = wait_for(fd) ? recv(fd, buf, sizeof(buf), 0) : -1;
	struct nlmsghdr *h = (void *)buf;
	char *p = buf + NLMSG_HDRLEN + 4;

	if (n < (ssize_t)(NLMSG_HDRLEN + 4))
		return 0;
	while (p + NLA_HDRLEN <= buf + h->nlmsg_len) {
		struct nlattr *a = (void *)p;
		size_t len = a->nla_len - (size_t)NLA_HDRLEN;

		if ((a->nla_type & NLA_TYPE_MASK) == NFULA_PAYLOAD && len <= WALL_NFLOG_BYTES) {
			memcpy(out, p + NLA_HDRLEN, len);
			return len;
		}
		p += NLA_ALIGN(a->nla_len);
	}
	return 0;
}

static void copies_refused(struct inside *in)
{
	uint8_t packet[WALL_NFLOG_BYTES] = { 0 };
	size_t n;

	refused(in, 'u', "5.6.7.8", 443, ECONNREFUSED, ECONNREFUSED);
	if (in->wall.nflog < 0) {
		tap_skip("copies of refused packets are received", "this kernel has no nflog");
		return;
	}
	n = read_copy(in->wall.nflog, packet);
	CHECKF(n >= 28 && packet[9] == IPPROTO_UDP && memcmp(packet + 16, "\5\6\7\10", 4) == 0 &&
		       packet[22] == 1 && packet[23] == 187,
	       "a refused packet is reported: %zu bytes", n);
}

static void own_affairs(struct inside *in)
{
	static const char *const own[] = { "127.0.0.1", "127.1.2.3", WALL_ADDR, "::1" };
	struct outcome out;

	for (size_t i = 0; i < ARRAY_SIZE(own) - in->guest; i++) {
		tell(in, 'l', own[i], 8080, "");
		out = hear(in);
		CHECKF(out.err == 0 && strcmp(out.text, "inside") == 0,
		       "a server inside at %s is reached inside (%s)", own[i], strerror(out.err));
		refused(in, 'c', own[i], 1, ECONNREFUSED, ECONNREFUSED);
	}
	tell(in, 'a', "", 0, "");
	out = hear(in);
	CHECK_STR(out.text, WALL_ADDR);
}

/* No socket inside stands before ours. */
static void stands_first(struct inside *in)
{
	char asked[64] = "";
	struct outcome out;

	refused(in, 'b', "0.0.0.0", 53, EADDRINUSE, EADDRINUSE);
	refused(in, 'b', "8.8.8.8", 53, EADDRINUSE, EADDRINUSE);
	refused(in, 'b', "10.0.2.2", 1, EADDRINUSE, EADDRINUSE);
	tell(in, 'l', "9.8.7.6", 80, "");
	CHECK(serve(in->wall.tcp4, asked));
	out = hear(in);
	CHECKF(out.err == 0 && strcmp(out.text, "9.8.7.6 80") == 0,
	       "a server inside on a foreign address is not reached (%s)", out.text);
}

static void groups_are_nowhere(struct inside *in)
{
	static const char *const groups[] = { "224.0.0.1", "239.255.255.250", "255.255.255.255",
					      "240.0.0.1" };

	for (size_t i = 0; i < ARRAY_SIZE(groups); i++) {
		refused(in, 'c', groups[i], 80, ENETUNREACH, EHOSTUNREACH);
		refused(in, 'u', groups[i], 80, ENETUNREACH, EHOSTUNREACH);
	}
	refused(in, 'c', "ff02::1", 80, ENETUNREACH, EHOSTUNREACH);
}

static void cannot_be_changed(struct inside *in)
{
	struct outcome out;

	tell(in, 'w', "", 0, "");
	out = hear(in);
	CHECKF(out.err == EPERM && strstr(out.text, "loopback"),
	       "a wall cannot be built from inside, and the failed request is named: %s", out.text);
	if (in->guest)
		return;
	tell(in, 'n', "", 0, "");
	out = hear(in);
	CHECK_STR(out.text, "0 sent, 0 neighbours");
}

static void closed(struct inside *in)
{
	for (size_t i = 0; i < WALL_FDS; i++) {
		close(wall_fds(&in->wall)[i]);
		wall_fds(&in->wall)[i] = -1;
	}
	if (!in->guest)
		refused(in, 'c', "1.2.3.4", 443, ECONNREFUSED, ECONNREFUSED);
}

static void test_wall(bool guest)
{
	struct inside in = { .wall = WALL_INIT };

	printf("# %s\n", guest ? "guest" : "ns");
	if (!start(&in, guest))
		return;
	connects(&in, in.wall.tcp4, "1.2.3.4", 7777, "");
	connects(&in, in.wall.tcp4, "169.254.169.254", 80, "");
	connects(&in, in.wall.tcp4, "10.0.0.1", 22, "");
	connects(&in, in.wall.tcp4, "10.0.2.2", 1, "");
	connects(&in, in.wall.tcp4, "11.0.0.1", 65535, "");
	connects(&in, in.wall.dns_tcp4, "8.8.8.8", 53, "");
	answers_datagram(&in, in.wall.dns_udp4, "9.9.9.9");
	answers_datagram(&in, in.wall.dns_udp4, WALL_NAMESERVER);
	copies_refused(&in);
	own_affairs(&in);
	groups_are_nowhere(&in);
	if (in.wall.tcp6 < 0) {
		tap_skip("IPv6 is walled too", "this kernel has none");
	} else if (guest) {
		refused(&in, 'c', "2001:db8::1", 443, ENETUNREACH, EADDRNOTAVAIL);
	} else {
		connects(&in, in.wall.tcp6, "2001:db8::1", 443, "");
		refused(&in, 'c', "fe80::1:2", 443, EINVAL, EINVAL); /* on which link? */
		connects(&in, in.wall.dns_tcp6, "2001:db8::53", 53, "");
		answers_datagram(&in, in.wall.dns_udp6, "2001:db8::35");
		refused(&in, 'u', "2001:db8::35", 443, ECONNREFUSED, ECONNREFUSED);
	}
	if (!guest) {
		connects(&in, in.wall.tcp4, "1.2.3.4", 80, "5.5.5.5");
		connects(&in, in.wall.tcp4, "1.2.3.4", 80, "127.0.0.1");
		stands_first(&in);
	}
	cannot_be_changed(&in);
	closed(&in);
	stop(&in);
}

int main(void)
{
	test_wall(false);
	test_wall(true);
	return tap_done();
}
