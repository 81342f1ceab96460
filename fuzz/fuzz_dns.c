/* SPDX-License-Identifier: Apache-2.0 */
/* A query from inside, and every answer that it could get: within its size, and whole in the eyes of the C library. */
#include "codec/net/dns.h"

#include <arpa/nameser.h>
#include <resolv.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_reply(const uint8_t *out, size_t len, size_t max)
{
	ns_msg h;
	ns_rr rr;

	BUG_ON(len > max || len < 12 || ns_initparse(out, (int)len, &h) < 0);
	for (ns_sect s = ns_s_qd; s < ns_s_max; s++) {
		for (int i = 0; i < ns_msg_count(h, s); i++)
			BUG_ON(ns_parserr(&h, s, i, &rr) < 0);
	}
}

static void check_query(const struct dns_query *q)
{
	struct host again;

	BUG_ON(!q->has_question);
	BUG_ON(strlen(q->text) > HOST_MAX || q->name_len == 0 || q->name[q->name_len - 1] != 0);
	if (q->kind != DNS_NAME_HOST && q->kind != DNS_NAME_PTR)
		return;
	BUG_ON(host_canon(q->text, strlen(q->text), &again, NULL) < 0 || !host_eq(&again, &q->host));
	BUG_ON(strcmp(q->text, q->host.text) != 0);
}

static void check_replies(const struct dns_query *q)
{
	struct addr a[100];
	uint8_t out[DNS_REPLY_MAX];
	size_t max = dns_udp_max(q);

	for (uint32_t i = 0; i < 100; i++)
		a[i] = addr_from_v4(i);
	check_reply(out, dns_reply_addrs(q, a, 100, 1, max, out), max);
	check_reply(out, dns_reply_addrs(q, a, 1, 1, max, out), max);
	if (q->kind == DNS_NAME_HOST)
		check_reply(out, dns_reply_ptr(q, &q->host, 1, max, out), max);
	check_reply(out, dns_reply_empty(q, DNS_NXDOMAIN, 1, max, out), max);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t out[DNS_REPLY_MAX];
	const uint8_t *msg;
	struct dns_query q;
	size_t len;
	long n = dns_tcp_next(data, size, &msg, &len);
	int r;

	BUG_ON(n > 0 && (size_t)n > size);
	r = dns_parse(data, size, &q);
	if (r == 0)
		check_query(&q);
	if (r >= 0)
		check_reply(out, dns_reply_empty(&q, (enum dns_rcode)r, 1, 512, out), 512);
	if (r >= 0 && q.has_question)
		check_replies(&q);
	return 0;
}
