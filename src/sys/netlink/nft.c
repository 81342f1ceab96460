/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nf_tables expressions as netlink attributes, written straight into the buffer of an nl (netlink.h).
 * A match loads a field into register 1 and compares it; actions follow. It must not decide which rules there are.
 */
#include "sys/netlink/nft.h"

#include "base/fd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/netlink.h>
#include <stddef.h>
#include <string.h>

#define REG_A NFT_REG_1
#define REG_B NFT_REG_2
#define NFLOG_MESSAGE 512 /* the kernel's buffer for one message: small, so that the socket can queue many */

static void begin_message(struct nl *n, const char *what, uint16_t subsys, uint16_t type, uint16_t flags,
			  uint8_t family, uint16_t id)
{
	const struct nfgenmsg h = { .nfgen_family = family, .version = NFNETLINK_V0, .res_id = htons(id) };

	nl_begin(n, what, subsys ? (uint16_t)(subsys << 8 | type) : type, flags, &h, sizeof(h));
}

static void begin_nftables(struct nl *n, const char *what, uint16_t type, uint16_t flags)
{
	begin_message(n, what, NFNL_SUBSYS_NFTABLES, type, flags, NFPROTO_INET, 0);
}

void nft_begin(struct nl *n, const char *table)
{
	begin_message(n, "packet rules", 0, NFNL_MSG_BATCH_BEGIN, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES);
	begin_nftables(n, "a table of packet rules", NFT_MSG_NEWTABLE, NLM_F_CREATE | NLM_F_EXCL);
	nl_put_str(n, NFTA_TABLE_NAME, table);
}

void nft_end(struct nl *n)
{
	/* Only new kernels acknowledge the end itself; the acknowledgement of the last rule comes after the commit. */
	nl_want_ack(n);
	begin_message(n, "packet rules", 0, NFNL_MSG_BATCH_END, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES);
}

void nft_chain(struct nl *n, const char *table, const char *chain, uint32_t hook, int32_t priority)
{
	size_t nest;

	begin_nftables(n, "a chain of packet rules", NFT_MSG_NEWCHAIN, NLM_F_CREATE | NLM_F_EXCL);
	nl_put_str(n, NFTA_CHAIN_TABLE, table);
	nl_put_str(n, NFTA_CHAIN_NAME, chain);
	nest = nl_nest(n, NFTA_CHAIN_HOOK);
	nl_put_be32(n, NFTA_HOOK_HOOKNUM, hook);
	nl_put_be32(n, NFTA_HOOK_PRIORITY, (uint32_t)priority);
	nl_unnest(n, nest);
	nl_put_str(n, NFTA_CHAIN_TYPE, "filter");
}

struct nft_rule nft_rule(struct nl *n, const char *what, const char *table, const char *chain)
{
	begin_nftables(n, what, NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND);
	nl_put_str(n, NFTA_RULE_TABLE, table);
	nl_put_str(n, NFTA_RULE_CHAIN, chain);
	return (struct nft_rule){ n, nl_nest(n, NFTA_RULE_EXPRESSIONS) };
}

void nft_rule_end(struct nft_rule *r)
{
	nl_unnest(r->n, r->list);
}

struct expr {
	struct nl *n;
	size_t elem, data;
};

static struct expr expr(struct nft_rule *r, const char *name)
{
	struct expr x = { r->n, nl_nest(r->n, NFTA_LIST_ELEM), 0 };

	nl_put_str(r->n, NFTA_EXPR_NAME, name);
	x.data = nl_nest(r->n, NFTA_EXPR_DATA);
	return x;
}

static void expr_end(struct expr *x)
{
	nl_unnest(x->n, x->data);
	nl_unnest(x->n, x->elem);
}

static void put_value(struct nl *n, uint16_t attr, const void *data, size_t len)
{
	size_t nest = nl_nest(n, attr);

	nl_put(n, NFTA_DATA_VALUE, data, len);
	nl_unnest(n, nest);
}

static void add_compare(struct nft_rule *r, uint32_t op, const void *data, size_t len)
{
	struct expr x = expr(r, "cmp");

	nl_put_be32(x.n, NFTA_CMP_SREG, REG_A);
	nl_put_be32(x.n, NFTA_CMP_OP, op);
	put_value(x.n, NFTA_CMP_DATA, data, len);
	expr_end(&x);
}

static void load_meta(struct nft_rule *r, uint32_t key)
{
	struct expr x = expr(r, "meta");

	nl_put_be32(x.n, NFTA_META_DREG, REG_A);
	nl_put_be32(x.n, NFTA_META_KEY, key);
	expr_end(&x);
}

static void load_payload(struct nft_rule *r, uint32_t base, uint32_t offset, size_t len)
{
	struct expr x = expr(r, "payload");

	nl_put_be32(x.n, NFTA_PAYLOAD_DREG, REG_A);
	nl_put_be32(x.n, NFTA_PAYLOAD_BASE, base);
	nl_put_be32(x.n, NFTA_PAYLOAD_OFFSET, offset);
	nl_put_be32(x.n, NFTA_PAYLOAD_LEN, (uint32_t)len);
	expr_end(&x);
}

static void match_family(struct nft_rule *r, uint8_t family)
{
	load_meta(r, NFT_META_NFPROTO);
	add_compare(r, NFT_CMP_EQ, &family, 1);
}

void nft_is_ipv4(struct nft_rule *r)
{
	match_family(r, NFPROTO_IPV4);
}

void nft_is_ipv6(struct nft_rule *r)
{
	match_family(r, NFPROTO_IPV6);
}

void nft_is_proto(struct nft_rule *r, uint8_t l4proto)
{
	load_meta(r, NFT_META_L4PROTO);
	add_compare(r, NFT_CMP_EQ, &l4proto, 1);
}

void nft_is_not_out(struct nft_rule *r, uint32_t oif)
{
	load_meta(r, NFT_META_OIF);
	add_compare(r, NFT_CMP_NEQ, &oif, sizeof(oif));
}

void nft_is_net(struct nft_rule *r, uint32_t offset, const void *data, size_t len)
{
	load_payload(r, NFT_PAYLOAD_NETWORK_HEADER, offset, len);
	add_compare(r, NFT_CMP_EQ, data, len);
}

void nft_is_not_net(struct nft_rule *r, uint32_t offset, const void *data, size_t len)
{
	load_payload(r, NFT_PAYLOAD_NETWORK_HEADER, offset, len);
	add_compare(r, NFT_CMP_NEQ, data, len);
}

void nft_is_dport(struct nft_rule *r, uint16_t port)
{
	uint16_t be = htons(port);

	load_payload(r, NFT_PAYLOAD_TRANSPORT_HEADER, 2, sizeof(be));
	add_compare(r, NFT_CMP_EQ, &be, sizeof(be));
}

static void add_verdict(struct nft_rule *r, uint32_t code)
{
	struct expr x = expr(r, "immediate");
	size_t data, nest;

	nl_put_be32(x.n, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
	data = nl_nest(x.n, NFTA_IMMEDIATE_DATA);
	nest = nl_nest(x.n, NFTA_DATA_VERDICT);
	nl_put_be32(x.n, NFTA_VERDICT_CODE, code);
	nl_unnest(x.n, nest);
	nl_unnest(x.n, data);
	expr_end(&x);
}

void nft_accept(struct nft_rule *r)
{
	add_verdict(r, NF_ACCEPT);
}

void nft_drop(struct nft_rule *r)
{
	add_verdict(r, NF_DROP);
}

static void load_value(struct nft_rule *r, uint32_t reg, const void *data, size_t len)
{
	struct expr x = expr(r, "immediate");

	nl_put_be32(x.n, NFTA_IMMEDIATE_DREG, reg);
	put_value(x.n, NFTA_IMMEDIATE_DATA, data, len);
	expr_end(&x);
}

static void add_tproxy(struct nft_rule *r, uint32_t family, const void *addr, size_t len, uint16_t port)
{
	uint16_t be = htons(port);
	struct expr x;

	load_value(r, REG_A, addr, len);
	load_value(r, REG_B, &be, sizeof(be));
	x = expr(r, "tproxy");
	nl_put_be32(x.n, NFTA_TPROXY_FAMILY, family);
	nl_put_be32(x.n, NFTA_TPROXY_REG_ADDR, REG_A);
	nl_put_be32(x.n, NFTA_TPROXY_REG_PORT, REG_B);
	expr_end(&x);
}

void nft_tproxy4(struct nft_rule *r, struct in_addr addr, uint16_t port)
{
	add_tproxy(r, NFPROTO_IPV4, &addr, sizeof(addr), port);
}

void nft_tproxy6(struct nft_rule *r, const struct in6_addr *addr, uint16_t port)
{
	add_tproxy(r, NFPROTO_IPV6, addr, sizeof(*addr), port);
}

void nft_log(struct nft_rule *r, uint16_t group, uint32_t bytes)
{
	uint16_t be = htons(group);
	struct expr x = expr(r, "log");

	nl_put(x.n, NFTA_LOG_GROUP, &be, sizeof(be));
	nl_put_be32(x.n, NFTA_LOG_SNAPLEN, bytes);
	expr_end(&x);
}

void nft_reject(struct nft_rule *r, uint8_t code)
{
	struct expr x = expr(r, "reject");

	nl_put_be32(x.n, NFTA_REJECT_TYPE, NFT_REJECT_ICMPX_UNREACH);
	nl_put_u8(x.n, NFTA_REJECT_ICMP_CODE, code);
	expr_end(&x);
}

int nflog_open(uint16_t group, uint32_t bytes, int *ret_fd, struct err *e)
{
	const struct nfulnl_msg_config_cmd bind = { .command = NFULNL_CFG_CMD_BIND };
	const struct nfulnl_msg_config_mode mode = { .copy_range = htonl(bytes),
						     .copy_mode = NFULNL_COPY_PACKET };
	const uint16_t flags = htons(NFULNL_CFG_F_SEQ);
	struct nl n;
	int r = nl_open(&n, NETLINK_NETFILTER, e);

	if (r < 0)
		return r;
	begin_message(&n, "copies of refused packets", NFNL_SUBSYS_ULOG, NFULNL_MSG_CONFIG, 0, AF_UNSPEC,
		      group);
	nl_put(&n, NFULA_CFG_CMD, &bind, sizeof(bind));
	nl_put(&n, NFULA_CFG_MODE, &mode, sizeof(mode));
	/* Sequence numbers show how many messages were lost. A threshold of 1 sends each packet at once: packets in the
	 * kernel's queue would be lost at the end of the sandbox. */
	nl_put(&n, NFULA_CFG_FLAGS, &flags, sizeof(flags));
	nl_put_be32(&n, NFULA_CFG_QTHRESH, 1);
	nl_put_be32(&n, NFULA_CFG_NLBUFSIZ, NFLOG_MESSAGE);
	nl_want_ack(&n);
	r = nl_commit(&n, e);
	/* EINVAL: the kernel has no nflog. */
	if (r == -EINVAL)
		r = -EOPNOTSUPP;
	if (r == 0)
		r = fd_set_nonblock(n.fd, true);
	if (r < 0)
		fd_close(n.fd);
	else
		*ret_fd = n.fd;
	return r;
}
