/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts the refused packets of nflog.h. Parses hostile packet bytes: only lengths that were checked are
 * read. Reports, never lets anything through.
 */
#include "egress/core/nflog.h"

#include "base/cleanup.h"
#include "base/fd.h"

#include <errno.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define KINDS_MAX 64 /* kinds counted apart in one second; the rest is counted together */
#define READS_MAX 64 /* per event, so that other work gets its turn */
#define LAST_READS 4096

struct packet_count {
	struct nflog_packet what;
	uint64_t n;
};

struct nflog {
	struct watch w;
	struct packet_count counts[KINDS_MAX];
	unsigned n;
	uint64_t others;
	uint32_t next; /* the next sequence number, once one has been seen */
	bool is_counting, is_overrun;
};

static bool proto_has_ports(uint8_t proto)
{
	return proto == IPPROTO_TCP || proto == IPPROTO_UDP || proto == IPPROTO_SCTP ||
	       proto == IPPROTO_DCCP || proto == IPPROTO_UDPLITE;
}

static void take_port(struct nflog_packet *p, const uint8_t *data, size_t len)
{
	if (proto_has_ports(p->proto) && len >= 4)
		p->port = (uint16_t)(data[2] << 8 | data[3]);
}

int nflog_parse_packet(const uint8_t *data, size_t len, struct nflog_packet *ret)
{
	struct nflog_packet p = { 0 };
	size_t head;

	if (len >= 20 && data[0] >> 4 == 4) {
		head = (size_t)(data[0] & 15u) * 4;
		p.proto = data[9];
		p.to = addr_from_bytes4(data + 16);
		/* Only the first fragment of a packet has ports. */
		if (head >= 20 && head <= len && (data[6] & 0x1f) == 0 && data[7] == 0)
			take_port(&p, data + head, len - head);
	} else if (len >= 40 && data[0] >> 4 == 6) {
		p.proto = data[6];
		p.to = addr_from_bytes16(data + 24);
		take_port(&p, data + 40, len - 40);
	} else {
		return -EBADMSG;
	}
	*ret = p;
	return 0;
}

static void parse_log_message(const uint8_t *data, size_t len,
			      void (*fn)(void *, const struct nflog_packet *), void *ctx)
{
	struct nflog_packet p;
	struct nlattr a;
	uint32_t seq = 0;
	bool has_seq = false;

	while (len >= sizeof(a)) {
		size_t step;

		memcpy(&a, data, sizeof(a));
		if (a.nla_len < sizeof(a) || a.nla_len > len)
			return;
		/* The sequence number precedes the packet. */
		if ((a.nla_type & NLA_TYPE_MASK) == NFULA_SEQ && a.nla_len == sizeof(a) + sizeof(seq)) {
			memcpy(&seq, data + sizeof(a), sizeof(seq));
			has_seq = true;
		}
		if ((a.nla_type & NLA_TYPE_MASK) == NFULA_PAYLOAD &&
		    nflog_parse_packet(data + sizeof(a), a.nla_len - sizeof(a), &p) == 0) {
			p.seq = ntohl(seq);
			p.has_seq = has_seq;
			fn(ctx, &p);
		}
		step = NLA_ALIGN(a.nla_len);
		if (step >= len)
			return;
		data += step;
		len -= step;
	}
}

void nflog_parse(const uint8_t *data, size_t len, void (*fn)(void *ctx, const struct nflog_packet *p),
		 void *ctx)
{
	const size_t head = NLMSG_HDRLEN + NLMSG_ALIGN(sizeof(struct nfgenmsg));
	struct nlmsghdr h;

	while (len >= sizeof(h)) {
		size_t step;

		memcpy(&h, data, sizeof(h));
		if (h.nlmsg_len < sizeof(h) || h.nlmsg_len > len)
			return;
		if (h.nlmsg_type == (NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_PACKET) && h.nlmsg_len >= head)
			parse_log_message(data + head, h.nlmsg_len - head, fn, ctx);
		step = NLMSG_ALIGN(h.nlmsg_len);
		if (step >= len)
			return;
		data += step;
		len -= step;
	}
}

/* How many packets before this one the kernel dropped for lack of room. */
static uint32_t count_lost(struct nflog *n, const struct nflog_packet *p)
{
	uint32_t lost = p->has_seq && n->is_counting ? p->seq - n->next : 0;

	if (p->has_seq) {
		n->next = p->seq + 1;
		n->is_counting = true;
	}
	n->is_overrun = n->is_overrun && lost == 0;
	return lost;
}

static void count_packet(void *ctx, const struct nflog_packet *p)
{
	struct egress *eg = ctx;
	struct nflog *n = eg->nflog;
	uint32_t lost = count_lost(n, p);

	n->others += lost;
	eg->stats.refused += 1 + (uint64_t)lost;
	for (unsigned i = 0; i < n->n; i++) {
		struct nflog_packet *q = &n->counts[i].what;

		if (q->proto == p->proto && q->port == p->port && addr_eq(&q->to, &p->to)) {
			n->counts[i].n++;
			return;
		}
	}
	if (n->n == KINDS_MAX)
		n->others++;
	else
		n->counts[n->n++] = (struct packet_count){ *p, 1 };
}

/* False: the socket is empty. */
static bool read_packets(struct egress *eg)
{
	ssize_t n = recv(eg->nflog->w.fd, eg->scratch, EGRESS_SCRATCH, MSG_DONTWAIT);

	if (n < 0 && errno == ENOBUFS) {
		eg->nflog->is_overrun = true; /* the next sequence number tells how many were lost */
		return true;
	}
	if (n > 0)
		nflog_parse((const uint8_t *)eg->scratch, (size_t)n, count_packet, eg);
	return n > 0;
}

static void on_packets(struct watch *w, uint32_t events)
{
	(void)events;
	for (int i = 0; i < READS_MAX && read_packets(w->ctx); i++)
		;
}

static const char *proto_name(uint8_t proto, char out[8])
{
	switch (proto) {
	case IPPROTO_TCP:
		return "tcp";
	case IPPROTO_UDP:
		return "udp";
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:
		return "icmp";
	case IPPROTO_SCTP:
		return "sctp";
	default:
		snprintf(out, 8, "%u", proto);
		return out;
	}
}

void egress_nflog_tick(struct egress *eg)
{
	struct nflog *n = eg->nflog;
	char proto[8], addr[ADDR_TEXT_LEN];
	struct json *l;

	if (!n)
		return;
	/* No packet followed the dropped ones: at least one was lost. */
	n->others += n->is_overrun;
	n->is_overrun = false;
	for (unsigned i = 0; i < n->n; i++) {
		const struct packet_count *c = &n->counts[i];

		l = journal_begin(&eg->journal, "refused");
		json_str(l, "proto", proto_name(c->what.proto, proto));
		if (c->what.port)
			json_u64(l, "port", c->what.port);
		json_str(l, "addr", addr_format(&c->what.to, addr));
		json_u64(l, "count", c->n);
		journal_end(&eg->journal);
	}
	if (n->others) {
		l = journal_begin(&eg->journal, "refused");
		json_str(l, "proto", "others");
		json_u64(l, "count", n->others);
		journal_end(&eg->journal);
	}
	n->n = 0;
	n->others = 0;
}

int egress_nflog_open(struct egress *eg, int fd, struct err *e)
{
	int r;

	eg->nflog = calloc(1, sizeof(*eg->nflog));
	if (!eg->nflog)
		return err_sys(e, -ENOMEM, "cannot count the packets that the wall refuses");
	eg->nflog->w = (struct watch){ .fd = fd, .fn = on_packets, .ctx = eg };
	r = fd_set_nonblock(fd, true);
	if (r == 0)
		r = loop_watch(&eg->loop, &eg->nflog->w, EPOLLIN);
	return r < 0 ? err_sys(e, r, "cannot count the packets that the wall refuses") : 0;
}

void egress_nflog_close(struct egress *eg)
{
	if (!eg->nflog)
		return;
	/* As many as the socket can hold: a sandbox that keeps sending cannot delay the exit. */
	for (int i = 0; i < LAST_READS && read_packets(eg); i++)
		;
	egress_nflog_tick(eg);
	loop_unwatch(&eg->loop, &eg->nflog->w);
	fd_close(eg->nflog->w.fd);
	free(eg->nflog);
	eg->nflog = NULL;
}
