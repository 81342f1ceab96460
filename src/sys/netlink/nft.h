/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packet rules (nf_tables) and copies of packets (nflog): requests for an nl (netlink.h) on NETLINK_NETFILTER.
 *
 * One table of family inet, so that a rule holds for IPv4 and IPv6 unless it names one of them. All between nft_begin()
 * and nft_end() is one transaction: there are all the rules, or none.
 */
#ifndef SYS_NFT_H
#define SYS_NFT_H

#include "sys/netlink/netlink.h"

#include <netinet/in.h>

void nft_begin(struct nl *n, const char *table);
void nft_end(struct nl *n);

/* A chain of a filter, on hook NF_INET_*, at that priority. What no rule decides is accepted. */
void nft_chain(struct nl *n, const char *table, const char *chain, uint32_t hook, int32_t priority);

/* A rule at the chain's end: matches, then what is to be done, each in the order it is put. */
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
/* Bytes of the network's or the transport's header; the rule must say before which header that is. */
void nft_is_net(struct nft_rule *r, uint32_t offset, const void *data, size_t len);
void nft_is_not_net(struct nft_rule *r, uint32_t offset, const void *data, size_t len);
void nft_is_dport(struct nft_rule *r, uint16_t port);

void nft_accept(struct nft_rule *r);
void nft_drop(struct nft_rule *r);
/* To a transparent socket that listens there, unless there is a connection already. */
void nft_tproxy4(struct nft_rule *r, struct in_addr addr, uint16_t port);
void nft_tproxy6(struct nft_rule *r, const struct in6_addr *addr, uint16_t port);
void nft_log(struct nft_rule *r, uint16_t group, uint32_t bytes);
/* Refused, and told so: `code` is NFT_REJECT_ICMPX_*. */
void nft_reject(struct nft_rule *r, uint8_t code);

/* A socket that gets what nft_log() copies to the group. -EOPNOTSUPP where the kernel has no such thing. */
int nflog_open(uint16_t group, uint32_t bytes, int *ret_fd, struct err *e) MUST_CHECK;

#endif
