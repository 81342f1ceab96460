/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a packet meets the wall: whatever comes in, on lo (ns) or from gVisor, passes one chain of rules before anything else
 * looks at it.
 *
 *   to the sandbox's own addresses (ns)    its own affair
 *   port 53, TCP and UDP                   to whoever listens on port 53: dns_*
 *   other TCP                              to tcp4 or tcp6, unless it belongs to a connection (tproxy)
 *   everything else                        a copy to nflog, and an ICMP error to the sender
 *
 * The listeners of tproxy are bound to an address and a port that nobody has a use for: whoever connects to exactly that
 * meets tproxy first, like everybody, and the sandbox keeps all other ports for itself.
 */
#include "sandbox/wall/wall_int.h"

#include "base/fd.h"
#include "sys/netlink/nft.h"
#include "sys/netlink/rtnl.h"

#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <stddef.h>

#define TABLE "wall"
#define CHAIN "in"
#define CHAIN_OUT "out"
#define BEFORE_ROUTING (-150) /* the priority that mangle has */

/* To addresses of the sandbox's own: what is said there stays there, and so do answers of ours. */
static void own_rules(struct nl *n)
{
	const struct in_addr own = wall_addr4(WALL_ADDR);
	const struct in6_addr lo6 = in6addr_loopback;
	const uint8_t lo4 = IN_LOOPBACKNET;
	struct nft_rule r = nft_rule(n, "loopback stays", TABLE, CHAIN);

	nft_is_ipv4(&r);
	nft_is_net(&r, offsetof(struct ip, ip_dst), &lo4, sizeof(lo4));
	nft_accept(&r);
	nft_rule_end(&r);
	r = nft_rule(n, "the own address stays", TABLE, CHAIN);
	nft_is_ipv4(&r);
	nft_is_net(&r, offsetof(struct ip, ip_dst), &own, sizeof(own));
	nft_accept(&r);
	nft_rule_end(&r);
	r = nft_rule(n, "IPv6 loopback stays", TABLE, CHAIN);
	nft_is_ipv6(&r);
	nft_is_net(&r, offsetof(struct ip6_hdr, ip6_dst), &lo6, sizeof(lo6));
	nft_accept(&r);
	nft_rule_end(&r);
}

/* W5. Who binds a socket to an interface is sent past the routes, and each address that he names there would be a
 * neighbour of ours, in a table that is the whole machine's. */
static void out_rules(struct nl *n)
{
	struct nft_rule r;

	nft_chain(n, TABLE, CHAIN_OUT, NF_INET_LOCAL_OUT, BEFORE_ROUTING);
	r = nft_rule(n, "nothing but loopback", TABLE, CHAIN_OUT);
	nft_is_not_out(&r, RTNL_LO);
	nft_drop(&r);
	nft_rule_end(&r);
}

/* gVisor has one address, and who says that he has another gets no answer. */
static void guest_rules(struct nl *n)
{
	const struct in_addr own = wall_addr4(WALL_ADDR);
	struct nft_rule r = nft_rule(n, "no other sender", TABLE, CHAIN);

	nft_is_ipv4(&r);
	nft_is_not_net(&r, offsetof(struct ip, ip_src), &own, sizeof(own));
	nft_drop(&r);
	nft_rule_end(&r);
}

static void dns_rule(struct nl *n, uint8_t proto)
{
	struct nft_rule r = nft_rule(n, "port 53", TABLE, CHAIN);

	nft_is_proto(&r, proto);
	nft_is_dport(&r, 53);
	nft_accept(&r);
	nft_rule_end(&r);
}

static void tcp_rules(struct nl *n, bool ipv6)
{
	const struct in6_addr gate6 = wall_addr6(WALL_GATE6);
	struct nft_rule r = nft_rule(n, "TCP to the gateway (tproxy)", TABLE, CHAIN);

	nft_is_ipv4(&r);
	nft_is_proto(&r, IPPROTO_TCP);
	nft_tproxy4(&r, wall_addr4(WALL_GATE4), WALL_PORT);
	nft_accept(&r);
	nft_rule_end(&r);
	if (ipv6) {
		r = nft_rule(n, "IPv6 TCP to the gateway (tproxy)", TABLE, CHAIN);
		nft_is_ipv6(&r);
		nft_is_proto(&r, IPPROTO_TCP);
		nft_tproxy6(&r, &gate6, WALL_PORT);
		nft_accept(&r);
		nft_rule_end(&r);
	}
	/* What is left belongs to a connection of a socket that is bound to an address of somebody else's. */
	r = nft_rule(n, "other TCP", TABLE, CHAIN);
	nft_is_proto(&r, IPPROTO_TCP);
	nft_accept(&r);
	nft_rule_end(&r);
}

/* W4. QUIC and the like take a closed port as a reason to try TCP. */
static void refuse_rules(struct nl *n, bool log)
{
	struct nft_rule r;

	if (log) {
		r = nft_rule(n, "copies of refused packets", TABLE, CHAIN);
		nft_log(&r, WALL_NFLOG_GROUP, WALL_NFLOG_BYTES);
		nft_rule_end(&r);
	}
	r = nft_rule(n, "no other UDP", TABLE, CHAIN);
	nft_is_proto(&r, IPPROTO_UDP);
	nft_reject(&r, NFT_REJECT_ICMPX_PORT_UNREACH);
	nft_rule_end(&r);
	r = nft_rule(n, "nothing else", TABLE, CHAIN);
	nft_reject(&r, NFT_REJECT_ICMPX_ADMIN_PROHIBITED);
	nft_rule_end(&r);
}

int wall_rules(const struct wall *w, bool guest, struct err *e)
{
	struct nl n;
	int r = nl_open(&n, NETLINK_NETFILTER, e);

	if (r < 0)
		return r;
	nft_begin(&n, TABLE);
	nft_chain(&n, TABLE, CHAIN, NF_INET_PRE_ROUTING, BEFORE_ROUTING);
	if (guest) {
		guest_rules(&n);
	} else {
		out_rules(&n);
		own_rules(&n);
	}
	dns_rule(&n, IPPROTO_UDP);
	dns_rule(&n, IPPROTO_TCP);
	tcp_rules(&n, w->tcp6 >= 0);
	refuse_rules(&n, w->nflog >= 0);
	nft_end(&n);
	r = nl_commit(&n, e);
	fd_close(n.fd);
	if (r < 0 && (r == -ENOENT || r == -EOPNOTSUPP || r == -EPROTONOSUPPORT))
		return err_hint(e, r,
				"the kernel needs nf_tables with tproxy and reject (modules nft_tproxy, "
				"nft_reject_inet); --net none does without a network");
	return r;
}
