/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes responses: header, the question as the query had it, records as long as they fit, OPT if the query
 * had one. No response is larger than `max` (dns.D3).
 */
#include "codec/net/dns.h"

#include <string.h>

enum {
	FLAG_QR = 0x8000,
	FLAG_TC = 0x0200,
	FLAG_RD = 0x0100,
	FLAG_RA = 0x0080,
	FLAG_CD = 0x0010,
	AT_FLAGS = 2,
	AT_ANSWERS = 6,
	AT_AUTHORITY = 8,
	AT_ADDITIONAL = 10,
	HEADER = 12,
	OPT_LEN = 11,
	RECORD_HEAD = 10, /* after the owner's name */
	MIN_MAX = 512,
	NAME_OF_QUESTION = 0xc000 | HEADER,
};

/* `max` is reduced by the OPT record, so that no record has to be removed again to make room for it. */
struct writer {
	uint8_t *out;
	size_t len, max;
	bool cut;
};

static void put_bytes(struct writer *w, const void *data, size_t n)
{
	BUG_ON(w->len + n > DNS_REPLY_MAX);
	memcpy(w->out + w->len, data, n);
	w->len += n;
}

static void put8(struct writer *w, unsigned v)
{
	const uint8_t b = (uint8_t)v;

	put_bytes(w, &b, 1);
}

static void put16(struct writer *w, unsigned v)
{
	put8(w, v >> 8);
	put8(w, v);
}

static void put32(struct writer *w, uint32_t v)
{
	put16(w, v >> 16);
	put16(w, v);
}

static void add16_at(struct writer *w, size_t at, unsigned v)
{
	unsigned sum = ((unsigned)w->out[at] << 8 | w->out[at + 1]) + v;

	w->out[at] = (uint8_t)(sum >> 8);
	w->out[at + 1] = (uint8_t)sum;
}

static void begin_reply(struct writer *w, const struct dns_query *q, enum dns_rcode rcode, size_t max,
			uint8_t *out)
{
	unsigned flags = FLAG_QR | (unsigned)q->opcode << 11 | FLAG_RA | ((unsigned)rcode & 15);

	max = max < MIN_MAX ? MIN_MAX : max > DNS_REPLY_MAX ? DNS_REPLY_MAX : max;
	*w = (struct writer){ .out = out, .max = q->edns ? max - OPT_LEN : max };
	put16(w, q->id);
	put16(w, flags | (q->rd ? FLAG_RD : 0) | (q->cd ? FLAG_CD : 0));
	put16(w, q->has_question);
	put16(w, 0);
	put32(w, 0);
	if (q->has_question) {
		put_bytes(w, q->name, q->name_len);
		put16(w, q->type);
		put16(w, q->klass);
	}
}

static size_t end_reply(struct writer *w, const struct dns_query *q, enum dns_rcode rcode)
{
	if (w->cut)
		add16_at(w, AT_FLAGS, FLAG_TC);
	if (q->edns) {
		put8(w, 0);
		put16(w, DNS_OPT);
		put16(w, DNS_REPLY_MAX);
		put8(w, (unsigned)rcode >> 4);
		put8(w, 0);
		put16(w, q->dnssec_ok ? 0x8000 : 0);
		put16(w, 0);
		add16_at(w, AT_ADDITIONAL, 1);
	}
	return w->len;
}

/* Writes the head of a record in the answer section if the whole record fits. */
static bool put_answer_head(struct writer *w, unsigned type, uint32_t ttl, size_t data_len)
{
	w->cut = w->cut || w->len + 2 + RECORD_HEAD + data_len > w->max;
	if (w->cut)
		return false;
	put16(w, NAME_OF_QUESTION);
	put16(w, type);
	put16(w, DNS_IN);
	put32(w, ttl);
	put16(w, (unsigned)data_len);
	add16_at(w, AT_ANSWERS, 1);
	return true;
}

/* An SOA record of the root, whose only purpose is the time for which a negative response may be cached. */
static void soa(struct writer *w, uint32_t ttl)
{
	put8(w, 0);
	put16(w, DNS_SOA);
	put16(w, DNS_IN);
	put32(w, ttl);
	put16(w, 22);
	put16(w, 0); /* two empty names */
	put32(w, 1);
	put32(w, 3600);
	put32(w, 600);
	put32(w, 86400);
	put32(w, ttl);
	add16_at(w, AT_AUTHORITY, 1);
}

size_t dns_reply_empty(const struct dns_query *q, enum dns_rcode rcode, uint32_t ttl, size_t max,
		       uint8_t out[DNS_REPLY_MAX])
{
	struct writer w;

	begin_reply(&w, q, rcode, max, out);
	if (rcode == DNS_NOERROR || rcode == DNS_NXDOMAIN)
		soa(&w, ttl);
	return end_reply(&w, q, rcode);
}

size_t dns_reply_addrs(const struct dns_query *q, const struct addr *a, size_t n, uint32_t ttl, size_t max,
		       uint8_t out[DNS_REPLY_MAX])
{
	bool v6 = q->type == DNS_AAAA, any = false;
	size_t len = v6 ? 16 : 4;
	struct writer w;

	begin_reply(&w, q, DNS_NOERROR, max, out);
	for (size_t i = 0; i < n && (v6 || q->type == DNS_A); i++) {
		if (addr_is_v4(&a[i]) == v6)
			continue;
		any = true;
		if (put_answer_head(&w, q->type, ttl, len))
			put_bytes(&w, a[i].b + 16 - len, len);
	}
	if (!any)
		soa(&w, ttl);
	return end_reply(&w, q, DNS_NOERROR);
}

/* Writes "a.bc" as the bytes 1 a 2 b c 0. */
static size_t wire_name(const struct host *h, uint8_t out[DNS_NAME_WIRE_MAX])
{
	size_t at = 0;

	for (size_t i = 0; i <= h->len; i++) {
		if (i == h->len || h->text[i] == '.') {
			out[at] = (uint8_t)(i - at);
			at = i + 1;
		} else {
			out[i + 1] = (uint8_t)h->text[i];
		}
	}
	out[at] = 0;
	return at + 1;
}

size_t dns_reply_ptr(const struct dns_query *q, const struct host *name, uint32_t ttl, size_t max,
		     uint8_t out[DNS_REPLY_MAX])
{
	uint8_t wire[DNS_NAME_WIRE_MAX];
	size_t len = wire_name(name, wire);
	struct writer w;

	BUG_ON(name->kind != HOST_NAME);
	begin_reply(&w, q, DNS_NOERROR, max, out);
	if (put_answer_head(&w, DNS_PTR, ttl, len))
		put_bytes(&w, wire, len);
	return end_reply(&w, q, DNS_NOERROR);
}
