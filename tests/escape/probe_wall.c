/* SPDX-License-Identifier: Apache-2.0 */
/* The wall of the network: other ways to put a packet on a wire than to connect, and to change what is wired. */
#include "probe.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/fib_rules.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/netlink.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

static struct sockaddr_in address4(const char *text, long port)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };

	inet_pton(AF_INET, text, &sa.sin_addr);
	return sa;
}

/* A datagram to the host, from a socket that was prepared; whether it arrived is seen there. */
static enum verdict send_to(int fd, const char *address, long port, const char *event)
{
	struct sockaddr_in sa = address4(address, port);

	return sendto(fd, "x", 1, MSG_DONTWAIT, (struct sockaddr *)&sa, sizeof(sa)) < 0 ? held()
											: asks(event);
}

static int datagram(void)
{
	return socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
}

static enum verdict p_spoof(void)
{
	struct sockaddr_in from = address4("127.0.0.99", 0);
	autoclose int fd = datagram();
	int on = 1;

	if (fd < 0 || setsockopt(fd, IPPROTO_IP, IP_FREEBIND, &on, sizeof(on)) < 0 ||
	    bind(fd, (struct sockaddr *)&from, sizeof(from)) < 0)
		return held();
	return send_to(fd, "127.0.0.1", param_num("udp_port"), "udp");
}

/* Past the routes, by each interface there is. */
static enum verdict p_bind_device(void)
{
	struct sockaddr_in sa = address4("127.0.0.1", param_num("udp_port"));
	struct if_nameindex *names = if_nameindex();
	int sent = 0;

	for (struct if_nameindex *n = names; n && n->if_index; n++) {
		autoclose int fd = datagram();

		if (setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, n->if_name, (socklen_t)strlen(n->if_name)) ==
			    0 &&
		    sendto(fd, "x", 1, MSG_DONTWAIT, (struct sockaddr *)&sa, sizeof(sa)) == 1)
			sent++;
	}
	if_freenameindex(names);
	return sent ? asks("udp") : held();
}

static enum verdict p_fast_open(void)
{
	struct sockaddr_in sa = address4("127.0.0.1", param_num("tcp_port"));
	autoclose int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ssize_t n = sendto(fd, "x", 1, MSG_FASTOPEN | MSG_NOSIGNAL, (struct sockaddr *)&sa, sizeof(sa));

	return n < 0 ? held() : asks("tcp");
}

static enum verdict p_broadcast(void)
{
	autoclose int fd = datagram();
	int on = 1;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &on, sizeof(on)) < 0)
		return held();
	return send_to(fd, "127.255.255.255", param_num("group_port"), "group");
}

static enum verdict p_multicast(void)
{
	const struct in_addr lo = { htonl(INADDR_LOOPBACK) };
	autoclose int fd = datagram();

	if (fd < 0 || setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &lo, sizeof(lo)) < 0)
		return held();
	return send_to(fd, "239.77.77.77", param_num("group_port"), "group");
}

/* Every protocol of IP but those that are promised. */
static enum verdict p_protocol_sweep(void)
{
	static const int families[] = { AF_INET, AF_INET6 };
	static const int types[] = {
		SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET, SOCK_DCCP, SOCK_PACKET
	};

	for (size_t f = 0; f < ARRAY_SIZE(families); f++) {
		for (size_t t = 0; t < ARRAY_SIZE(types); t++) {
			for (int p = 0; p <= 262; p++) {
				bool plain = (types[t] == SOCK_STREAM && (p == 0 || p == IPPROTO_TCP)) ||
					     (types[t] == SOCK_DGRAM && (p == 0 || p == IPPROTO_UDP));
				int fd = plain ? -1 : socket(families[f], types[t] | SOCK_CLOEXEC, p);

				if (fd >= 0)
					return broken("opened a socket of type %d, protocol %d", types[t], p);
			}
		}
	}
	return held();
}

static enum verdict p_own_headers(void)
{
	autoclose int fd = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW);
	int on = 1;

	return fd < 0 ? held()
		      : judge(setsockopt(fd, IPPROTO_IP, IP_HDRINCL, &on, sizeof(on)),
			      "writes its own headers");
}

static enum verdict option6(int option, const void *data, size_t len, const char *what)
{
	autoclose int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	return fd < 0 ? held()
		      : judge_optional(setsockopt(fd, IPPROTO_IPV6, option, data, (socklen_t)len), what);
}

static enum verdict p_hop_options(void)
{
	static const uint8_t pad[8] = { 0, 0, 1, 4, 0, 0, 0, 0 };

	return option6(IPV6_HOPOPTS, pad, sizeof(pad), "adds hop-by-hop options");
}

static enum verdict p_dest_options(void)
{
	static const uint8_t pad[8] = { 0, 0, 1, 4, 0, 0, 0, 0 };

	return option6(IPV6_DSTOPTS, pad, sizeof(pad), "adds destination options");
}

/* One request to the kernel's network configuration, and its answer. */
static int ask_kernel(struct nlmsghdr *req)
{
	autoclose int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	struct {
		struct nlmsghdr h;
		struct nlmsgerr e;
		char rest[512];
	} answer = { 0 };

	req->nlmsg_flags |= NLM_F_REQUEST | NLM_F_ACK;
	if (fd < 0 || send(fd, req, req->nlmsg_len, 0) < 0 || recv(fd, &answer, sizeof(answer), 0) < 0)
		return -1;
	errno = -answer.e.error;
	return answer.h.nlmsg_type == NLMSG_ERROR && answer.e.error == 0 ? 0 : -1;
}

static enum verdict p_rule_add(void)
{
	struct {
		struct nlmsghdr h;
		struct fib_rule_hdr r;
		struct rtattr priority;
		uint32_t number;
	} req = {
		.h = { .nlmsg_len = sizeof(req), .nlmsg_type = RTM_NEWRULE, .nlmsg_flags = NLM_F_CREATE },
		.r = { .family = AF_INET, .table = RT_TABLE_MAIN, .action = FR_ACT_TO_TBL },
		.priority = { sizeof(struct rtattr) + 4, FRA_PRIORITY },
		.number = 7,
	};

	return judge(ask_kernel(&req.h), "added a rule of routing");
}

static enum verdict p_neighbour_add(void)
{
	struct {
		struct nlmsghdr h;
		struct ndmsg n;
		struct rtattr dst;
		uint32_t addr;
		struct rtattr mac;
		uint8_t bytes[8];
	} req = {
		.h = { .nlmsg_len = sizeof(req), .nlmsg_type = RTM_NEWNEIGH, .nlmsg_flags = NLM_F_CREATE },
		.n = { .ndm_family = AF_INET, .ndm_ifindex = 1, .ndm_state = NUD_PERMANENT },
		.dst = { sizeof(struct rtattr) + 4, NDA_DST },
		.addr = htonl(0xc0000203),
		.mac = { sizeof(struct rtattr) + 6, NDA_LLADDR },
	};

	return judge(ask_kernel(&req.h), "added a neighbour");
}

static enum verdict p_qdisc_add(void)
{
	struct {
		struct nlmsghdr h;
		struct tcmsg t;
		struct rtattr kind;
		char text[8];
	} req = {
		.h = { .nlmsg_len = sizeof(req),
		       .nlmsg_type = RTM_NEWQDISC,
		       .nlmsg_flags = NLM_F_CREATE | NLM_F_REPLACE },
		.t = { .tcm_family = AF_UNSPEC, .tcm_ifindex = 1, .tcm_parent = TC_H_ROOT },
		.kind = { sizeof(struct rtattr) + 6, TCA_KIND },
		.text = "pfifo",
	};

	return judge_optional(ask_kernel(&req.h), "changed a queue");
}

/* An interface into the namespace of somebody else; the control's own, so that it stays where it is. */
static enum verdict p_link_move(void)
{
	struct {
		struct nlmsghdr h;
		struct ifinfomsg i;
		struct rtattr ns;
		uint32_t pid;
		struct rtattr mtu;
		uint32_t bytes;
	} req = {
		.h = { .nlmsg_len = sizeof(req), .nlmsg_type = RTM_NEWLINK },
		.i = { .ifi_index = 1 },
		.ns = { sizeof(struct rtattr) + 4, IFLA_NET_NS_PID },
		.pid = (uint32_t)getpid(),
		.mtu = { sizeof(struct rtattr) + 4, IFLA_MTU },
		.bytes = 9000,
	};

	return judge(ask_kernel(&req.h), "moved an interface");
}

const struct probe probes_wall[] = {
	{ "spoofed_source", p_spoof, CTL_SAME },	  { "bind_device", p_bind_device, CTL_SAME },
	{ "fast_open", p_fast_open, CTL_SAME },		  { "broadcast", p_broadcast, CTL_SAME },
	{ "multicast", p_multicast, CTL_SAME },		  { "protocol_sweep", p_protocol_sweep, CTL_USERNS },
	{ "own_headers", p_own_headers, CTL_USERNS },	  { "hop_options", p_hop_options, CTL_USERNS },
	{ "dest_options", p_dest_options, CTL_USERNS },	  { "rule_add", p_rule_add, CTL_USERNS },
	{ "neighbour_add", p_neighbour_add, CTL_USERNS }, { "qdisc_add", p_qdisc_add, CTL_USERNS },
	{ "link_move", p_link_move, CTL_USERNS },	  { 0 },
};
