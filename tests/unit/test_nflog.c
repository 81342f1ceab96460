/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/core/nflog.h"
#include "tap.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/netlink.h>

static const uint8_t udp4[] = { 0x45, 0,  0, 28, 0, 0, 0,    0, 64, 17,	  0, 0, 10, 0,
				2,    15, 8, 8,	 8, 8, 0x80, 1, 1,  0xbb, 0, 8, 0,  0 };

static unsigned n_told;
static struct nflog_packet last;

static void tell(void *ctx, const struct nflog_packet *p)
{
	(void)ctx;
	n_told++;
	last = *p;
}

static void test_packet(void)
{
	struct nflog_packet p;
	uint8_t v6[48] = { 0x60, 0, 0, 0, 0, 8, 17, 64 }, b[sizeof(udp4)];
	char text[ADDR_TEXT_LEN];

	CHECK(nflog_parse_packet(udp4, sizeof(udp4), &p) == 0 && p.proto == 17 && p.port == 443);
	CHECK_STR(addr_format(&p.to, text), "8.8.8.8");
	for (size_t i = 0; i < sizeof(udp4); i++) {
		int r = nflog_parse_packet(udp4, i, &p);

		if (r != (i < 20 ? -EBADMSG : 0) || (r == 0 && p.port != (i >= 24 ? 443 : 0)))
			CHECKF(false, "a packet that is cut after %zu bytes gives only its whole fields", i);
	}
	memcpy(b, udp4, sizeof(b));
	b[7] = 1;
	CHECKF(nflog_parse_packet(b, sizeof(b), &p) == 0 && p.port == 0,
	       "a later fragment of a packet has no port");
	memcpy(b, udp4, sizeof(b));
	b[0] = 0x4f;
	CHECKF(nflog_parse_packet(b, sizeof(b), &p) == 0 && p.port == 0,
	       "a header that is longer than its packet gives no port");
	v6[24] = 0x20;
	v6[43] = 53;
	CHECK(nflog_parse_packet(v6, sizeof(v6), &p) == 0 && p.proto == 17 && p.port == 53);
	CHECK_STR(addr_format(&p.to, text), "2000::");
	CHECK(nflog_parse_packet((const uint8_t *)"\x50", 1, &p) == -EBADMSG);
}

static void test_messages(void)
{
	struct {
		struct nlmsghdr h;
		struct nfgenmsg g;
		struct nlattr prefix;
		char text[8];
		struct nlattr seq;
		uint32_t number;
		struct nlattr payload;
		uint8_t packet[sizeof(udp4)];
	} m = { .h = { .nlmsg_len = sizeof(m), .nlmsg_type = NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_PACKET },
		.prefix = { sizeof(m.prefix) + 6, NFULA_PREFIX },
		.seq = { sizeof(m.seq) + sizeof(m.number), NFULA_SEQ },
		.number = htonl(70000),
		.payload = { sizeof(m.payload) + sizeof(udp4), NFULA_PAYLOAD } },
	  two[2];

	memcpy(m.packet, udp4, sizeof(udp4));
	two[0] = two[1] = m;
	nflog_parse((const uint8_t *)two, sizeof(two), tell, NULL);
	CHECK(n_told == 2 && last.port == 443 && last.has_seq && last.seq == 70000);
	nflog_parse((const uint8_t *)two, sizeof(two) - 1, tell, NULL);
	CHECKF(n_told == 3, "a message that is cut off is not read");
	m.payload.nla_len = 3;
	nflog_parse((const uint8_t *)&m, sizeof(m), tell, NULL);
	m.payload.nla_len = 60000;
	nflog_parse((const uint8_t *)&m, sizeof(m), tell, NULL);
	m.h.nlmsg_len = 3;
	nflog_parse((const uint8_t *)&m, sizeof(m), tell, NULL);
	CHECKF(n_told == 3, "messages with inconsistent lengths are not read");
}

int main(void)
{
	test_packet();
	test_messages();
	return tap_done();
}
