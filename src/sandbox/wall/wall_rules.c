/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The packet rules of the wall: every packet that comes in, on lo (ns) or from gVisor, passes one chain before routing.
 *
 *   to the sandbox's own addresses (ns)    accepted: it stays inside
 *   port 53, TCP and UDP                   to the sockets on port 53: dns_*
 *   other TCP                              to tcp4 or tcp6, unless it belongs to a connection (tproxy)
 *   everything else                        a copy to nflog, and an ICMP error to the sender
 *
 * The listeners of tproxy are bound to an address and a port that no program uses. A connection to exactly that address goes
 * through tproxy like any other, and the sandbox can bind all other ports itself.
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
#define BEFORE_ROUTING (-150) /* the priority of mangle */

/* Packets to the sandbox's own addresses stay inside; answers of the wall's sockets go there too. */
static void add_own_address_rules(struct nl *n)
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

/* wall.W5. A socket that is bound to an interface bypasses the routes, and each address that it sends to would become an
 * entry of the neighbour table, which the whole machine shares. */
static void add_output_rules(struct nl *n)
{
	struct nft_rule r;

	nft_chain(n, TABLE, CHAIN_OUT, NF_INET_LOCAL_OUT, BEFORE_ROUTING);
	r = nft_rule(n, "nothing but loopback", TABLE, CHAIN_OUT);
	nft_is_not_out(&r, RTNL_LO);
	nft_drop(&r);
	nft_rule_end(&r);
}

/* gVisor has one address; packets with another source are dropped. */
static void add_gvisor_source_rule(struct nl *n)
{
	const struct in_addr own = wall_addr4(WALL_ADDR);
	struct nft_rule r = nft_rule(n, "no other sender", TABLE, CHAIN);

	nft_is_ipv4(&r);
	nft_is_not_net(&r, offsetof(struct ip, ip_src), &own, sizeof(own));
	nft_drop(&r);
	nft_rule_end(&r);
}

static void add_dns_rule(struct nl *n, uint8_t proto)
{
	struct nft_rule r = nft_rule(n, "port 53", TABLE, CHAIN);

	nft_is_proto(&r, proto);
	nft_is_dport(&r, 53);
	nft_accept(&r);
	nft_rule_end(&r);
}

static void add_tproxy_rules(struct nl *n, bool ipv6)
{
	const struct in6_addr gate6 = wall_addr6(WALL_GATE6);
	struct nft_rule r = nft_rule(n, "TCP to coffer-egress (tproxy)", TABLE, CHAIN);

	nft_is_ipv4(&r);
	nft_is_proto(&r, IPPROTO_TCP);
	nft_tproxy4(&r, wall_addr4(WALL_GATE4), WALL_PORT);
	nft_accept(&r);
	nft_rule_end(&r);
	if (ipv6) {
		r = nft_rule(n, "IPv6 TCP to coffer-egress (tproxy)", TABLE, CHAIN);
		nft_is_ipv6(&r);
		nft_is_proto(&r, IPPROTO_TCP);
		nft_tproxy6(&r, &gate6, WALL_PORT);
		nft_accept(&r);
		nft_rule_end(&r);
	}
	/* The remaining TCP packets belong to a connection whose socket is bound to a foreign address. */
	r = nft_rule(n, "other TCP", TABLE, CHAIN);
	nft_is_proto(&r, IPPROTO_TCP);
	nft_accept(&r);
	nft_rule_end(&r);
}

/* wall.W4. A closed port makes QUIC clients fall back to TCP. */
static void add_refusal_rules(struct nl *n, bool log)
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
		add_gvisor_source_rule(&n);
	} else {
		add_output_rules(&n);
		add_own_address_rules(&n);
	}
	add_dns_rule(&n, IPPROTO_UDP);
	add_dns_rule(&n, IPPROTO_TCP);
	add_tproxy_rules(&n, w->tcp6 >= 0);
	add_refusal_rules(&n, w->nflog >= 0);
	nft_end(&n);
	r = nl_commit(&n, e);
	fd_close(n.fd);
	if (r < 0 && (r == -ENOENT || r == -EOPNOTSUPP || r == -EPROTONOSUPPORT))
		return err_hint(e, r,
				"the kernel needs nf_tables with tproxy and reject (modules nft_tproxy, "
				"nft_reject_inet); --net none needs no network");
	return r;
}
