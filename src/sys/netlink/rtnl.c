/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of rtnetlink: veth pairs, interfaces up, addresses, routes, neighbours. Adds to a batch;
 * nl_commit() sends it. Nothing is sent and nothing is allocated here.
 */
#include "sys/netlink/rtnl.h"

#include <linux/if.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <sys/socket.h>

static void put_veth_end(struct nl *n, const struct rtnl_end *end)
{
	nl_put_str(n, IFLA_IFNAME, end->name);
	if (end->mac)
		nl_put(n, IFLA_ADDRESS, end->mac, 6);
	if (end->netns >= 0)
		nl_put_u32(n, IFLA_NET_NS_FD, (uint32_t)end->netns);
}

void rtnl_veth(struct nl *n, const struct rtnl_end *a, const struct rtnl_end *b)
{
	const struct ifinfomsg ha = { .ifi_index = (int)a->index }, hb = { .ifi_index = (int)b->index };
	size_t info, data, peer;

	nl_begin(n, "a pair of interfaces", RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &ha, sizeof(ha));
	put_veth_end(n, a);
	info = nl_nest(n, IFLA_LINKINFO);
	nl_put_str(n, IFLA_INFO_KIND, "veth");
	data = nl_nest(n, IFLA_INFO_DATA);
	peer = nl_nest(n, VETH_INFO_PEER);
	nl_append(n, &hb, sizeof(hb));
	put_veth_end(n, b);
	nl_unnest(n, peer);
	nl_unnest(n, data);
	nl_unnest(n, info);
}

void rtnl_up(struct nl *n, const char *what, uint32_t index, uint32_t flags)
{
	const struct ifinfomsg h = { .ifi_index = (int)index,
				     .ifi_flags = IFF_UP | flags,
				     .ifi_change = IFF_UP | flags };

	nl_begin(n, what, RTM_NEWLINK, 0, &h, sizeof(h));
}

void rtnl_quiet(struct nl *n, uint32_t index)
{
	const struct ifinfomsg h = { .ifi_index = (int)index };
	size_t spec, inet6;

	nl_begin(n, "an interface without IPv6 of its own", RTM_NEWLINK, 0, &h, sizeof(h));
	spec = nl_nest(n, IFLA_AF_SPEC);
	inet6 = nl_nest(n, AF_INET6);
	nl_put_u8(n, IFLA_INET6_ADDR_GEN_MODE, IN6_ADDR_GEN_MODE_NONE);
	nl_unnest(n, inet6);
	nl_unnest(n, spec);
}

void rtnl_addr4(struct nl *n, uint32_t index, struct in_addr addr)
{
	const struct ifaddrmsg h = { .ifa_family = AF_INET, .ifa_prefixlen = 32, .ifa_index = index };

	nl_begin(n, "an address", RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, &h, sizeof(h));
	nl_put(n, IFA_LOCAL, &addr, sizeof(addr));
	nl_put(n, IFA_ADDRESS, &addr, sizeof(addr));
}

static uint8_t route_scope(const struct rtnl_route *r)
{
	if (r->type == RTN_LOCAL)
		return RT_SCOPE_HOST;
	return r->type == RTN_UNICAST && !r->via ? RT_SCOPE_LINK : RT_SCOPE_UNIVERSE;
}

void rtnl_route(struct nl *n, const char *what, const struct rtnl_route *r)
{
	const struct rtmsg h = { .rtm_family = r->family,
				 .rtm_dst_len = r->len,
				 .rtm_table = r->table,
				 .rtm_protocol = RTPROT_STATIC,
				 .rtm_scope = route_scope(r),
				 .rtm_type = r->type,
				 .rtm_flags = r->onlink ? RTNH_F_ONLINK : 0 };
	size_t len = r->family == AF_INET ? 4 : 16;

	nl_begin(n, what, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, &h, sizeof(h));
	if (r->dst)
		nl_put(n, RTA_DST, r->dst, len);
	if (r->via)
		nl_put(n, RTA_GATEWAY, r->via, len);
	if (r->src)
		nl_put(n, RTA_PREFSRC, r->src, len);
	if (r->oif)
		nl_put_u32(n, RTA_OIF, r->oif);
}

void rtnl_neigh4(struct nl *n, uint32_t index, struct in_addr addr, const uint8_t mac[6])
{
	const struct ndmsg h = { .ndm_family = AF_INET,
				 .ndm_ifindex = (int)index,
				 .ndm_state = NUD_PERMANENT };

	nl_begin(n, "a neighbour", RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, &h, sizeof(h));
	nl_put(n, NDA_DST, &addr, sizeof(addr));
	nl_put(n, NDA_LLADDR, mac, 6);
}
