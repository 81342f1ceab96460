/* SPDX-License-Identifier: Apache-2.0 */
/* The network: listeners of the host, interfaces and routes, and the socket families that no namespace
 * covers. */
#include "probe.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/capability.h>
#include <linux/if_packet.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/vm_sockets.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

static enum verdict reach(int family, const char *address, long port, int type, const char *event)
{
	struct sockaddr_in in4 = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port) };
	autoclose int fd = socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr *sa = family == AF_INET ? (struct sockaddr *)&in4 : (struct sockaddr *)&in6;
	socklen_t len = family == AF_INET ? sizeof(in4) : sizeof(in6);
	struct pollfd pfd = { .fd = fd, .events = POLLOUT };
	int err = 0;
	socklen_t err_len = sizeof(err);

	if (fd < 0)
		return held();
	inet_pton(family, address, family == AF_INET ? (void *)&in4.sin_addr : (void *)&in6.sin6_addr);
	if (type == SOCK_DGRAM)
		return sendto(fd, "x", 1, 0, sa, len) < 0 || !event ? held() : asks(event);
	if (connect(fd, sa, len) < 0 && errno != EINPROGRESS)
		return held();
	if (poll(&pfd, 1, 1500) == 0)
		return held_for("no answer");
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &err_len) < 0 || err) {
		errno = err;
		return held();
	}
	return event ? asks(event) : broken("connected to %s", address);
}

static enum verdict p_tcp_loopback(void)
{
	return reach(AF_INET, "127.0.0.1", param_num("tcp_port"), SOCK_STREAM, "tcp");
}

static enum verdict p_tcp6_loopback(void)
{
	if (!has_param("tcp6_port"))
		return not_here("this host has no IPv6 loopback");
	return reach(AF_INET6, "::1", param_num("tcp6_port"), SOCK_STREAM, "tcp6");
}

static enum verdict p_tcp_mapped(void)
{
	if (!has_param("tcp6_port"))
		return not_here("this host has no IPv6 loopback");
	return reach(AF_INET6, "::ffff:127.0.0.1", param_num("tcp_port"), SOCK_STREAM, "tcp");
}

static enum verdict p_udp_loopback(void)
{
	return reach(AF_INET, "127.0.0.1", param_num("udp_port"), SOCK_DGRAM, "udp");
}

static enum verdict p_tcp_address(void)
{
	if (!has_param("address4"))
		return not_here("this host has no address but loopback");
	return reach(AF_INET, param("address4"), param_num("tcp_port"), SOCK_STREAM, "tcp");
}

static void lo_up(void)
{
	struct ifreq ifr = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	autoclose int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	ioctl(fd, SIOCSIFFLAGS, &ifr);
}

/* A server of the control's own, on that address in its own namespace: no packet leaves any machine. */
static int far_server(const char *address)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_port = htons(80) };
	struct ifreq ifr = { .ifr_name = "lo" };
	autoclose int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	pid_t pid;

	inet_pton(AF_INET, address, &sa.sin_addr);
	memcpy(&ifr.ifr_addr, &sa, sizeof(sa));
	ioctl(fd, SIOCSIFADDR, &ifr);
	lo_up();
	if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 || listen(fd, 1) < 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		int c = accept(fd, NULL, NULL);

		_exit(send(c, "far away", 8, MSG_NOSIGNAL) != 8);
	}
	return pid;
}

/*
 * Behind the wall whoever connects is accepted by the gateway, which then decides. So what counts is what is heard from
 * there, not that somebody answered.
 */
static enum verdict far_address(const char *address)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_port = htons(80) };
	autoclose int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct pollfd pfd = { .fd = fd };
	char text[16] = "";
	ssize_t n;

	if (in_control && far_server(address) < 0)
		return probe_error("the control's listener: %s", errno_name(errno));
	inet_pton(AF_INET, address, &sa.sin_addr);
	if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 && errno != EINPROGRESS)
		return held();
	pfd.events = POLLOUT;
	if (poll(&pfd, 1, 1500) == 0)
		return held_for("no answer");
	/* The gateway decides by these bytes whom it refuses, and how. */
	if (send(fd, "GET / HTTP/1.0\r\n\r\n", 18, MSG_NOSIGNAL) < 0)
		return held();
	pfd.events = POLLIN;
	if (poll(&pfd, 1, 1500) == 0)
		return held_for("no answer");
	n = recv(fd, text, sizeof(text) - 1, 0);
	if (n < 0)
		return held();
	return strcmp(text, "far away") == 0 ? broken("talked to %s", address)
					     : held_for("somebody else answered");
}

static enum verdict p_tcp_metadata(void)
{
	return far_address("169.254.169.254");
}

static enum verdict p_tcp_internet(void)
{
	return far_address("192.0.2.1");
}

/* Those of a sandbox have lo, and a pair that has no other end. */
static enum verdict p_interfaces(void)
{
	struct ifaddrs *all, *i;
	enum verdict v = held_for("only its own");

	if (getifaddrs(&all) < 0)
		return held();
	for (i = all; i; i = i->ifa_next) {
		struct sockaddr_in *in4 = (struct sockaddr_in *)(void *)i->ifa_addr;
		char text[INET_ADDRSTRLEN];

		if (!in4 || in4->sin_family != AF_INET ||
		    !inet_ntop(AF_INET, &in4->sin_addr, text, sizeof(text)))
			continue;
		if (strcmp(i->ifa_name, "lo") != 0 && strcmp(text, "10.0.2.15") != 0)
			v = broken("the address %s of %s is here", text, i->ifa_name);
	}
	freeifaddrs(all);
	if (in_control && v == V_HELD)
		return not_here("this host has only lo");
	return v;
}

static enum verdict p_proc_net_tcp(void)
{
	static char text[1 << 16];
	char want[32];

	snprintf(want, sizeof(want), "0100007F:%04lX", (unsigned long)param_num("tcp_port"));
	if (read_small("/proc/net/tcp", text, sizeof(text)) < 0)
		return held();
	return strstr(text, want) ? broken("the host's sockets are listed") : held_for("not listed");
}

static enum verdict p_proc_net_unix(void)
{
	static char text[1 << 20];

	if (read_small("/proc/net/unix", text, sizeof(text)) < 0)
		return held();
	return strstr(text, param("abstract")) ? broken("the host's sockets are listed")
					       : held_for("not listed");
}

static enum verdict open_socket(int family, int type, int protocol, const char *what)
{
	return judge_optional(socket(family, type | SOCK_CLOEXEC, protocol), what);
}

static enum verdict p_raw_icmp(void)
{
	return open_socket(AF_INET, SOCK_RAW, IPPROTO_ICMP, "opened a raw socket");
}

static enum verdict p_raw_ip6(void)
{
	return open_socket(AF_INET6, SOCK_RAW, IPPROTO_ICMPV6, "opened a raw IPv6 socket");
}

static enum verdict p_packet(void)
{
	return open_socket(AF_PACKET, SOCK_RAW, htons(3), "opened a packet socket");
}

static enum verdict p_vsock(void)
{
	return open_socket(AF_VSOCK, SOCK_STREAM, 0, "opened a vsock socket, which is not namespaced");
}

static enum verdict p_vsock_high_bits(void)
{
	return judge_optional(
		syscall(SYS_socket, 0xffffffff00000000UL | AF_VSOCK, 0xffffffff00000000UL | SOCK_STREAM, 0),
		"opened a vsock socket past the filter");
}

static enum verdict p_alg(void)
{
	return open_socket(AF_ALG, SOCK_SEQPACKET, 0, "opened a kernel crypto socket");
}

/* Every family and type but those that are promised. */
static enum verdict p_family_sweep(void)
{
	static const int types[] = { SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET };

	for (int family = 0; family < 64; family++) {
		if (family == AF_UNIX || family == AF_INET || family == AF_INET6 || family == AF_NETLINK)
			continue;
		for (size_t t = 0; t < ARRAY_SIZE(types); t++) {
			if (socket(family, types[t] | SOCK_CLOEXEC, 0) >= 0)
				return broken("opened a socket of family %d", family);
		}
	}
	return held();
}

static enum verdict p_socketpair_sweep(void)
{
	int p[2];

	for (int family = 2; family < 64; family++) {
		if (family == AF_INET || family == AF_INET6 || family == AF_NETLINK)
			continue;
		if (socketpair(family, SOCK_DGRAM, 0, p) == 0)
			return broken("opened a pair of sockets of family %d", family);
		if (errno != EPERM && errno != EAFNOSUPPORT && errno != ENOSYS && errno != EACCES)
			return broken("family %d reached the kernel (%s)", family, errno_name(errno));
	}
	return held();
}

static enum verdict netlink(int protocol, const char *what)
{
	return open_socket(AF_NETLINK, SOCK_RAW, protocol, what);
}

static enum verdict p_netlink_kobject(void)
{
	return netlink(NETLINK_KOBJECT_UEVENT, "opened the kernel's device events");
}

static enum verdict p_netlink_audit(void)
{
	return netlink(NETLINK_AUDIT, "opened the kernel's audit");
}

static enum verdict p_netlink_netfilter(void)
{
	return netlink(NETLINK_NETFILTER, "opened the packet filter");
}

static enum verdict p_netlink_generic(void)
{
	return netlink(NETLINK_GENERIC, "opened generic netlink");
}

static enum verdict p_netlink_sweep(void)
{
	for (int protocol = 1; protocol < MAX_LINKS; protocol++) {
		if (socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol) >= 0)
			return broken("opened netlink protocol %d", protocol);
	}
	return held();
}

/* Sends one route-netlink request and gives back the kernel's answer: 0 or a negative errno in errno. */
static int rtnetlink(struct nlmsghdr *req)
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

static enum verdict p_link_add(void)
{
	struct {
		struct nlmsghdr h;
		struct ifinfomsg i;
		struct rtattr name;
		char name_text[8];
		struct rtattr info;
		struct rtattr kind;
		char kind_text[8];
	} req = {
		.h = { .nlmsg_len = sizeof(req),
		       .nlmsg_type = RTM_NEWLINK,
		       .nlmsg_flags = NLM_F_CREATE | NLM_F_EXCL },
		.name = { sizeof(struct rtattr) + 7, IFLA_IFNAME },
		.name_text = "probe0",
		.info = { 2 * sizeof(struct rtattr) + 8, IFLA_LINKINFO },
		.kind = { sizeof(struct rtattr) + 7, 1 },
		.kind_text = "bridge",
	};

	return judge(rtnetlink(&req.h), "made a network interface");
}

static enum verdict p_link_change(void)
{
	struct {
		struct nlmsghdr h;
		struct ifinfomsg i;
	} req = { .h = { .nlmsg_len = sizeof(req), .nlmsg_type = RTM_NEWLINK },
		  .i = { .ifi_index = 1, .ifi_change = IFF_UP } };

	return judge(rtnetlink(&req.h), "took lo down");
}

static enum verdict p_route_add(void)
{
	struct {
		struct nlmsghdr h;
		struct rtmsg r;
		struct rtattr dst;
		uint32_t dst_addr;
		struct rtattr oif;
		uint32_t oif_index;
	} req = {
		.h = { .nlmsg_len = sizeof(req), .nlmsg_type = RTM_NEWROUTE, .nlmsg_flags = NLM_F_CREATE },
		.r = { .rtm_family = AF_INET,
		       .rtm_dst_len = 32,
		       .rtm_table = RT_TABLE_MAIN,
		       .rtm_protocol = RTPROT_STATIC,
		       .rtm_scope = RT_SCOPE_LINK,
		       .rtm_type = RTN_UNICAST },
		.dst = { sizeof(struct rtattr) + 4, RTA_DST },
		.dst_addr = htonl(0xc0000201),
		.oif = { sizeof(struct rtattr) + 4, RTA_OIF },
		.oif_index = 1,
	};

	if (in_control)
		lo_up();
	return judge(rtnetlink(&req.h), "added a route");
}

static enum verdict p_address_add(void)
{
	struct {
		struct nlmsghdr h;
		struct ifaddrmsg a;
		struct rtattr local;
		uint32_t addr;
	} req = {
		.h = { .nlmsg_len = sizeof(req), .nlmsg_type = RTM_NEWADDR, .nlmsg_flags = NLM_F_CREATE },
		.a = { .ifa_family = AF_INET, .ifa_prefixlen = 32, .ifa_index = 1 },
		.local = { sizeof(struct rtattr) + 4, IFA_LOCAL },
		.addr = htonl(0xc0000202),
	};

	return judge(rtnetlink(&req.h), "added an address");
}

static enum verdict p_interface_ioctl(void)
{
	struct ifreq ifr = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_PROMISC };
	autoclose int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	return judge(ioctl(fd, SIOCSIFFLAGS, &ifr), "changed an interface");
}

static enum verdict socket_option(int level, int option, const char *what)
{
	autoclose int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int on = 1;

	if (fd < 0)
		return held();
	return judge(setsockopt(fd, level, option, &on, sizeof(on)), what);
}

static enum verdict p_transparent(void)
{
	return socket_option(IPPROTO_IP, IP_TRANSPARENT, "made a transparent socket");
}

static enum verdict p_socket_mark(void)
{
	return socket_option(SOL_SOCKET, SO_MARK, "marked its packets");
}

static enum verdict p_buffer_force(void)
{
	return socket_option(SOL_SOCKET, SO_RCVBUFFORCE, "took more socket memory than allowed");
}

static enum verdict p_tcp_repair(void)
{
	return socket_option(IPPROTO_TCP, 19, "put a connection into repair mode");
}

const struct probe probes_net[] = {
	{ "tcp_loopback", p_tcp_loopback, CTL_SAME },
	{ "tcp6_loopback", p_tcp6_loopback, CTL_SAME },
	{ "tcp_mapped", p_tcp_mapped, CTL_SAME },
	{ "udp_loopback", p_udp_loopback, CTL_SAME },
	{ "tcp_address", p_tcp_address, CTL_SAME },
	{ "tcp_metadata", p_tcp_metadata, CTL_USERNS },
	{ "tcp_internet", p_tcp_internet, CTL_USERNS },
	{ "interfaces", p_interfaces, CTL_SAME },
	{ "proc_net_tcp", p_proc_net_tcp, CTL_SAME },
	{ "proc_net_unix", p_proc_net_unix, CTL_SAME },
	{ "raw_icmp", p_raw_icmp, CTL_USERNS },
	{ "raw_ip6", p_raw_ip6, CTL_USERNS },
	{ "packet", p_packet, CTL_USERNS },
	{ "vsock", p_vsock, CTL_SAME },
	{ "vsock_high_bits", p_vsock_high_bits, CTL_SAME },
	{ "alg", p_alg, CTL_SAME },
	{ "family_sweep", p_family_sweep, CTL_USERNS },
	{ "socketpair_sweep", p_socketpair_sweep, CTL_SAME },
	{ "netlink_kobject", p_netlink_kobject, CTL_SAME },
	{ "netlink_audit", p_netlink_audit, CTL_SAME },
	{ "netlink_netfilter", p_netlink_netfilter, CTL_SAME },
	{ "netlink_generic", p_netlink_generic, CTL_SAME },
	{ "netlink_sweep", p_netlink_sweep, CTL_SAME },
	{ "link_add", p_link_add, CTL_USERNS },
	{ "link_change", p_link_change, CTL_USERNS },
	{ "route_add", p_route_add, CTL_USERNS },
	{ "address_add", p_address_add, CTL_USERNS },
	{ "interface_ioctl", p_interface_ioctl, CTL_USERNS },
	{ "transparent_socket", p_transparent, CTL_USERNS },
	{ "socket_mark", p_socket_mark, CTL_USERNS },
	{ "socket_buffer_force", p_buffer_force, CTL_ROOT, 0, CAP_NET_ADMIN },
	{ "tcp_repair", p_tcp_repair, CTL_USERNS },
	{ 0 },
};
