/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packet rules (nf_tables) and copies of packets (nflog): requests for an nl (netlink.h) on NETLINK_NETFILTER.
 *
 * One table of family inet, so that a rule holds for IPv4 and IPv6 unless it names one of them. Everything between
 * nft_begin() and nft_end() is one transaction: all rules apply, or none.
 */
#ifndef SYS_NFT_H
#define SYS_NFT_H

#include "sys/netlink/netlink.h"

#include <netinet/in.h>

void nft_begin(struct nl *n, const char *table);
void nft_end(struct nl *n);

/* A filter chain on hook NF_INET_* with this priority. Packets that no rule decides are accepted. */
void nft_chain(struct nl *n, const char *table, const char *chain, uint32_t hook, int32_t priority);

/* A rule at the end of the chain: matches, then actions, in the order in which they are added. */
struct nft_rule {
	struct nl *n;
	size_t list;
};

struct nft_rule nft_rule(struct nl *n, const char *what, const char *table, const char *chain);
void nft_rule_end(struct nft_rule *r);

void nft_is_ipv4(struct nft_rule *r);
void nft_is_ipv6(struct nft_rule *r);
void nft_is_proto(struct nft_rule *r, uint8_t l4proto);
void nft_is_not_out(struct nft_rule *r, uint32_t oif); /* it leaves by another interface than that */
/* Compares bytes of the network or transport header; the rule must match the family or protocol before. */
void nft_is_net(struct nft_rule *r, uint32_t offset, const void *data, size_t len);
void nft_is_not_net(struct nft_rule *r, uint32_t offset, const void *data, size_t len);
void nft_is_dport(struct nft_rule *r, uint16_t port);

void nft_accept(struct nft_rule *r);
void nft_drop(struct nft_rule *r);
/* Redirects to the transparent socket that listens there, unless the packet belongs to a connection already. */
void nft_tproxy4(struct nft_rule *r, struct in_addr addr, uint16_t port);
void nft_tproxy6(struct nft_rule *r, const struct in6_addr *addr, uint16_t port);
void nft_log(struct nft_rule *r, uint16_t group, uint32_t bytes);
/* Rejects the packet with an ICMP error: `code` is NFT_REJECT_ICMPX_*. */
void nft_reject(struct nft_rule *r, uint8_t code);

/* A socket that receives the packets that nft_log() copies to the group. -EOPNOTSUPP on a kernel without nflog. */
int nflog_open(uint16_t group, uint32_t bytes, int *ret_fd, struct err *e) MUST_CHECK;

#endif
