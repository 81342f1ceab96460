/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sockets, the interfaces and the routes of the wall; its rules are in wall_rules.c. Every packet that a sandbox of engine
 * ns sends comes back in on lo, since every address is local (AnyIP: a route `local default dev lo`). Packets of gVisor come
 * in on one end of a pair of interfaces, whose other end gVisor has. No interface may have an end outside the sandbox
 * (wall.W1).
 */
#include "sandbox/wall/wall.h"

#include "base/fd.h"
#include "base/str.h"
#include "ipc/fdpass.h"
#include "sandbox/wall/wall_int.h"
#include "sys/netlink/nft.h"
#include "sys/netlink/rtnl.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <sched.h>
#include <stddef.h>
#include <sys/socket.h>

#define ETH0 100 /* its index; the kernel may put tunnels with small ones into every namespace */
#define ETH1 101

/* The ends of gVisor's pair; each side has one static neighbour entry for the other. */
static const uint8_t mac_wall[6] = { 0x02, 0, 0, 0, 0, 1 }, mac_guest[6] = { 0x02, 0, 0, 0, 0, 2 };

struct in_addr wall_addr4(const char *text)
{
	struct in_addr a;

	BUG_ON(inet_pton(AF_INET, text, &a) != 1);
	return a;
}

struct in6_addr wall_addr6(const char *text)
{
	struct in6_addr a;

	BUG_ON(inet_pton(AF_INET6, text, &a) != 1);
	return a;
}

int *wall_fds(struct wall *w)
{
	_Static_assert(sizeof(*w) == WALL_FDS * sizeof(int), "nothing but descriptors");
	return (int *)w;
}

void wall_release(struct wall *w)
{
	for (size_t i = 0; i < WALL_FDS; i++)
		fd_close(wall_fds(w)[i]);
	*w = WALL_INIT;
}

int wall_send(int sock, const struct wall *w)
{
	struct wall copy = *w;
	int fds[WALL_FDS];
	uint8_t present = 0;
	size_t n = 0;

	for (size_t i = 0; i < WALL_FDS; i++) {
		if (wall_fds(&copy)[i] < 0)
			continue;
		present |= (uint8_t)(1u << i);
		fds[n++] = wall_fds(&copy)[i];
	}
	return fdpass_send(sock, &present, WALL_WORD, fds, n);
}

int wall_unpack(const void *word, const int *fds, size_t n, struct wall *ret)
{
	uint8_t present = *(const uint8_t *)word;

	if (present >> WALL_FDS || (size_t)__builtin_popcount(present) != n) {
		for (size_t i = 0; i < n; i++)
			fd_close(fds[i]);
		return -EPROTO;
	}
	*ret = WALL_INIT;
	for (size_t i = 0; i < WALL_FDS; i++) {
		if (present & (1u << i))
			wall_fds(ret)[i] = *fds++;
	}
	return 0;
}

/* One socket of the wall. */
struct wall_socket {
	size_t at; /* in struct wall */
	int family, type;
	uint16_t port;
	struct {
		int level, name;
	} opts[3];
};

#define AT(field) offsetof(struct wall, field)

static const struct wall_socket wall_sockets[] = {
	{ AT(tcp4), AF_INET, SOCK_STREAM, WALL_PORT, { { IPPROTO_IP, IP_TRANSPARENT } } },
	{ AT(tcp6),
	  AF_INET6,
	  SOCK_STREAM,
	  WALL_PORT,
	  { { IPPROTO_IPV6, IPV6_V6ONLY }, { IPPROTO_IPV6, IPV6_TRANSPARENT } } },
	{ AT(dns_udp4), AF_INET, SOCK_DGRAM, 53, { { IPPROTO_IP, IP_PKTINFO } } },
	/* An answer has the address that was asked as its source, which no interface has. */
	{ AT(dns_udp6),
	  AF_INET6,
	  SOCK_DGRAM,
	  53,
	  { { IPPROTO_IPV6, IPV6_V6ONLY },
	    { IPPROTO_IPV6, IPV6_RECVPKTINFO },
	    { IPPROTO_IPV6, IPV6_FREEBIND } } },
	{ AT(dns_tcp4), AF_INET, SOCK_STREAM, 53, { { 0 } } },
	{ AT(dns_tcp6), AF_INET6, SOCK_STREAM, 53, { { IPPROTO_IPV6, IPV6_V6ONLY } } },
};

static int bind_wall_socket(const struct wall_socket *d, int fd)
{
	struct sockaddr_in a4 = { .sin_family = AF_INET, .sin_port = htons(d->port) };
	struct sockaddr_in6 a6 = { .sin6_family = AF_INET6, .sin6_port = htons(d->port) };

	if (d->port == WALL_PORT) {
		a4.sin_addr = wall_addr4(WALL_GATE4);
		a6.sin6_addr = wall_addr6(WALL_GATE6);
	}
	return d->family == AF_INET ? bind(fd, (struct sockaddr *)&a4, sizeof(a4))
				    : bind(fd, (struct sockaddr *)&a6, sizeof(a6));
}

static int open_wall_socket(const struct wall_socket *d, int *ret)
{
	autoclose int fd = socket(d->family, d->type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	const int on = 1;

	if (fd < 0)
		return -errno;
	for (size_t i = 0; i < ARRAY_SIZE(d->opts) && d->opts[i].name; i++) {
		if (setsockopt(fd, d->opts[i].level, d->opts[i].name, &on, sizeof(on)) < 0)
			return -errno;
	}
	if (bind_wall_socket(d, fd) < 0 || (d->type == SOCK_STREAM && listen(fd, WALL_BACKLOG) < 0))
		return -errno;
	*ret = TAKE_FD(fd);
	return 0;
}

static int open_wall_sockets(struct wall *w, bool ipv6, struct err *e)
{
	for (size_t i = 0; i < ARRAY_SIZE(wall_sockets); i++) {
		int r;

		if (wall_sockets[i].family == AF_INET6 && !ipv6)
			continue;
		r = open_wall_socket(&wall_sockets[i], (int *)(void *)((char *)w + wall_sockets[i].at));
		if (r < 0)
			return err_sys(e, r, "cannot make the sandbox's network (port %u)",
				       wall_sockets[i].port);
	}
	return 0;
}

/* The kernel may have no IPv6, or may deny it to this namespace; then the sandbox has none either. */
static bool is_no_ipv6(int r)
{
	return r == -EACCES || r == -EOPNOTSUPP || r == -EAFNOSUPPORT || r == -ENODEV;
}

/* Makes every IPv6 address local, but multicast groups, whose packets cannot be refused, unreachable. Brings up loopback. */
static int route_all_ipv6(struct nl *n, bool *ret_there, struct err *e)
{
	const struct in6_addr groups = wall_addr6("ff00::");
	struct rtnl_route all = {
		.family = AF_INET6, .type = RTN_LOCAL, .table = RT_TABLE_LOCAL, .oif = RTNL_LO
	};
	struct rtnl_route none = {
		.family = AF_INET6, .type = RTN_UNREACHABLE, .table = RT_TABLE_LOCAL, .dst = &groups, .len = 8
	};
	struct err why = ERR_INIT;
	int r;

	rtnl_up(n, "loopback", RTNL_LO, 0);
	rtnl_route(n, "a route for all IPv6 addresses", &all);
	rtnl_route(n, "no route for IPv6 groups", &none);
	nl_want_ack(n);
	r = nl_commit(n, &why);
	*ret_there = r == 0;
	if (r < 0 && !is_no_ipv6(r))
		return err_set(e, r, "%s", why.msg);
	return 0;
}

/* The same for IPv4; `own`: the source address of outgoing packets, NULL: none is set. */
static void route_all_ipv4(struct nl *n, const struct in_addr *own)
{
	const struct in_addr groups = { htonl(0xe0000000) }; /* 224.0.0.0/3: with broadcast */

	rtnl_route(n, "a route for all addresses",
		   &(struct rtnl_route){ .family = AF_INET,
					 .type = RTN_LOCAL,
					 .table = RT_TABLE_LOCAL,
					 .src = own,
					 .oif = RTNL_LO });
	rtnl_route(n, "no route for groups",
		   &(struct rtnl_route){ .family = AF_INET,
					 .type = RTN_UNREACHABLE,
					 .table = RT_TABLE_LOCAL,
					 .dst = &groups,
					 .len = 3 });
}

/* Without ARP and neighbour discovery: wall.W5. */
static void bring_up_pair_end(struct nl *n, uint32_t index, bool ipv6)
{
	if (ipv6)
		rtnl_quiet(n, index);
	rtnl_up(n, "an interface", index, IFF_NOARP);
}

/* Engine ns: both ends of a pair are inside. Browsers think that a machine without any interface is offline. */
static void wire_ns(struct nl *n, bool ipv6)
{
	const struct rtnl_end eth0 = { "eth0", ETH0, NULL, -1 }, eth1 = { "eth1", ETH1, NULL, -1 };
	const struct in_addr own = wall_addr4(WALL_ADDR);

	rtnl_veth(n, &eth0, &eth1);
	bring_up_pair_end(n, ETH0, ipv6);
	bring_up_pair_end(n, ETH1, ipv6);
	rtnl_addr4(n, ETH0, own);
	route_all_ipv4(n, &own);
}

/* gVisor's side: one address, one neighbour, and routes to all addresses but multicast and broadcast. */
static void wire_gvisor_guest(struct nl *n, int wall_ns, bool ipv6)
{
	static const struct {
		uint32_t dst;
		uint8_t len;
	} world[] = { { 0x00000000, 1 }, { 0x80000000, 2 }, { 0xc0000000, 3 } };
	const struct rtnl_end here = { "eth0", ETH0, mac_guest, -1 },
			      there = { "eth0", ETH0, mac_wall, wall_ns };
	const struct in_addr gate = wall_addr4(WALL_GATE4);

	rtnl_up(n, "loopback", RTNL_LO, 0);
	rtnl_veth(n, &here, &there);
	bring_up_pair_end(n, ETH0, ipv6);
	rtnl_addr4(n, ETH0, wall_addr4(WALL_ADDR));
	rtnl_neigh4(n, ETH0, gate, mac_wall);
	rtnl_route(n, "a route to the gateway",
		   &(struct rtnl_route){ .family = AF_INET,
					 .type = RTN_UNICAST,
					 .table = RT_TABLE_MAIN,
					 .dst = &gate,
					 .len = 32,
					 .oif = ETH0 });
	for (size_t i = 0; i < ARRAY_SIZE(world); i++) {
		const struct in_addr dst = { htonl(world[i].dst) };

		rtnl_route(n, "a route for all addresses",
			   &(struct rtnl_route){ .family = AF_INET,
						 .type = RTN_UNICAST,
						 .table = RT_TABLE_MAIN,
						 .dst = &dst,
						 .len = world[i].len,
						 .via = &gate,
						 .oif = ETH0 });
	}
}

/* The wall's side. The route to gVisor's address is more specific than the one that makes all addresses local. */
static void wire_gvisor_gate(struct nl *n, bool ipv6)
{
	const struct in_addr guest = wall_addr4(WALL_ADDR);

	bring_up_pair_end(n, ETH0, ipv6);
	rtnl_addr4(n, ETH0, wall_addr4(WALL_GATE4));
	rtnl_neigh4(n, ETH0, guest, mac_guest);
	rtnl_route(n, "a route to gVisor",
		   &(struct rtnl_route){ .family = AF_INET,
					 .type = RTN_UNICAST,
					 .table = RT_TABLE_LOCAL,
					 .dst = &guest,
					 .len = 32,
					 .oif = ETH0 });
	route_all_ipv4(n, NULL);
}

/* Moves the process to a new network namespace, which becomes gVisor's; the sockets keep the old one alive. */
static int wire_gvisor(struct nl *gate, bool ipv6, struct err *e)
{
	autoclose int wall_ns = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	struct nl n;
	int r;

	if (wall_ns < 0 || unshare(CLONE_NEWNET) < 0)
		return err_sys(e, -errno, "cannot make gVisor's network namespace");
	r = nl_open(&n, NETLINK_ROUTE, e);
	if (r < 0)
		return r;
	wire_gvisor_guest(&n, wall_ns, ipv6);
	nl_want_ack(&n);
	r = nl_commit(&n, e);
	fd_close(n.fd);
	if (r < 0)
		return r;
	wire_gvisor_gate(gate, ipv6);
	nl_want_ack(gate);
	return nl_commit(gate, e);
}

/* Every packet is refused, not only some each second. Where this cannot be set, refusals are only slower. */
static void lift_icmp_rate_limit(void)
{
	int r = fd_write_file(AT_FDCWD, "/proc/sys/net/ipv4/icmp_ratemask", "0");

	(void)r;
}

/* Without nflog packets are refused all the same, but the refusals are not logged. */
static int open_wall_nflog(struct wall *w, struct err *e)
{
	struct err why = ERR_INIT;
	int r = nflog_open(WALL_NFLOG_GROUP, WALL_NFLOG_BYTES, &w->nflog, &why);

	return r == -EOPNOTSUPP || r == 0 ? 0 : err_set(e, r, "%s", why.msg);
}

static int build_wall(struct nl *n, struct wall *w, bool guest, struct err *e)
{
	bool ipv6;
	int r = route_all_ipv6(n, &ipv6, e);

	if (r == 0)
		r = open_wall_sockets(w, ipv6, e);
	if (r == 0)
		r = open_wall_nflog(w, e);
	if (r == 0)
		r = wall_rules(w, guest, e);
	if (r < 0)
		return r;
	lift_icmp_rate_limit();
	if (guest)
		return wire_gvisor(n, ipv6, e);
	wire_ns(n, ipv6);
	nl_want_ack(n);
	return nl_commit(n, e);
}

int wall_build(struct wall *ret, bool guest, struct err *e)
{
	struct wall w = WALL_INIT;
	struct nl n;
	int r = nl_open(&n, NETLINK_ROUTE, e);

	if (r < 0)
		return r;
	r = build_wall(&n, &w, guest, e);
	fd_close(n.fd);
	if (r < 0) {
		wall_release(&w);
		return r;
	}
	*ret = w;
	return 0;
}
