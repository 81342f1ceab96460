/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads queries. dns_reply.c writes the responses. The bytes are hostile: anything but one plain question is
 * refused (dns.D1).
 */
#include "codec/net/dns.h"

#include "base/hex.h"

#include <errno.h>
#include <string.h>

enum {
	HEADER = 12,
	FLAG_QR = 0x8000,
	FLAG_TC = 0x0200,
	FLAG_RD = 0x0100,
	FLAG_CD = 0x0010,
	UDP_MAX_PLAIN = 512,
	TYPE_TKEY = 249,
	TYPE_AXFR = 252,
};

/* The rest of the message. */
struct reader {
	const uint8_t *p;
	size_t len;
};

static bool take_bytes(struct reader *r, size_t n, const uint8_t **ret)
{
	if (r->len < n)
		return false;
	*ret = r->p;
	r->p += n;
	r->len -= n;
	return true;
}

static bool take16(struct reader *r, uint16_t *ret)
{
	const uint8_t *p;

	if (!take_bytes(r, 2, &p))
		return false;
	*ret = (uint16_t)(p[0] << 8 | p[1]);
	return true;
}

/* Reads one label after its length byte, to text in lower case. */
static bool take_label(struct reader *r, size_t n, struct dns_query *q, size_t *text_len)
{
	const uint8_t *p;

	if (n > HOST_LABEL_MAX || !take_bytes(r, n, &p) || q->name_len + 1 + n > DNS_NAME_WIRE_MAX - 1)
		return false;
	q->name[q->name_len++] = (uint8_t)n;
	if (*text_len)
		q->text[(*text_len)++] = '.';
	for (size_t i = 0; i < n; i++) {
		if (p[i] < 0x21 || p[i] > 0x7e || p[i] == '.')
			return false;
		q->name[q->name_len++] = p[i];
		q->text[(*text_len)++] = (char)(p[i] >= 'A' && p[i] <= 'Z' ? p[i] | 0x20 : p[i]);
	}
	return true;
}

static bool take_name(struct reader *r, struct dns_query *q)
{
	size_t text_len = 0;
	const uint8_t *p;

	for (;;) {
		if (!take_bytes(r, 1, &p))
			return false;
		if (*p == 0)
			break;
		if (!take_label(r, *p, q, &text_len))
			return false;
	}
	q->name[q->name_len++] = 0;
	q->text[text_len] = '\0';
	return true;
}

/* The length of text before suffix; 0 when text does not end with suffix, or is nothing else. */
static size_t before(const char *text, const char *suffix)
{
	size_t n = strlen(text), s = strlen(suffix);

	return n > s && strcmp(text + n - s, suffix) == 0 ? n - s : 0;
}

static bool ptr_v4(const char *text, struct addr *ret)
{
	size_t n = before(text, ".in-addr.arpa");
	struct addr a;

	if (n == 0 || addr_parse(text, n, &a, NULL) < 0 || !addr_is_v4(&a) || memchr(text, ':', n))
		return false;
	const uint8_t b[4] = { a.b[15], a.b[14], a.b[13], a.b[12] };
	*ret = addr_from_bytes4(b);
	return true;
}

static bool ptr_v6(const char *text, struct addr *ret)
{
	struct addr a = { 0 };

	if (before(text, ".ip6.arpa") != 63)
		return false;
	for (size_t i = 0; i < 32; i++) {
		int digit = hex_digit(text[2 * i]); /* in lower case, as all of the text is */

		if (digit < 0 || (i < 31 && text[2 * i + 1] != '.'))
			return false;
		a.b[15 - i / 2] |= (uint8_t)(digit << (i % 2 ? 4 : 0));
	}
	*ret = a;
	return true;
}

static enum dns_name_kind name_kind(struct dns_query *q)
{
	if (q->text[0] == '\0')
		return DNS_NAME_ROOT;
	if (host_canon(q->text, strlen(q->text), &q->host, NULL) < 0 || q->host.kind != HOST_NAME)
		return DNS_NAME_ODD;
	if (ptr_v4(q->text, &q->addr) || ptr_v6(q->text, &q->addr))
		return DNS_NAME_PTR;
	return DNS_NAME_HOST;
}

static bool take_question(struct reader *r, struct dns_query *q)
{
	if (!take_name(r, q) || !take16(r, &q->type) || !take16(r, &q->klass))
		return false;
	q->kind = name_kind(q);
	q->has_question = true;
	return true;
}

/* dns.D1: the only record that a query may have is OPT, whose owner is the root. */
static bool take_opt(struct reader *r, struct dns_query *q)
{
	uint16_t type, size, flags, left, code, n;
	const uint8_t *name, *ext, *data;

	if (!take_bytes(r, 1, &name) || *name != 0 || !take16(r, &type) || type != DNS_OPT ||
	    !take16(r, &size) || !take_bytes(r, 2, &ext) || !take16(r, &flags) || !take16(r, &left) ||
	    left != r->len)
		return false;
	while (r->len) {
		if (!take16(r, &code) || !take16(r, &n) || !take_bytes(r, n, &data))
			return false;
	}
	q->edns = true;
	q->edns_size = size;
	q->edns_version = ext[1];
	q->dnssec_ok = flags & 0x8000;
	return true;
}

static int parse_records(struct reader *r, const uint16_t counts[4], struct dns_query *q)
{
	if (counts[0] != 1 || counts[1] || counts[2] || counts[3] > 1)
		return DNS_FORMERR;
	if (!take_question(r, q))
		return DNS_FORMERR;
	if (counts[3] && !take_opt(r, q))
		return DNS_FORMERR;
	if (r->len)
		return DNS_FORMERR;
	if (q->edns && q->edns_version)
		return DNS_BADVERS;
	if (q->klass != DNS_IN || (q->type >= TYPE_TKEY && q->type <= TYPE_AXFR))
		return DNS_REFUSED;
	return q->type == DNS_OPT || q->type == 0 ? DNS_FORMERR : 0;
}

int dns_parse(const uint8_t *msg, size_t len, struct dns_query *ret)
{
	struct reader r = { msg, len };
	uint16_t flags, counts[4];

	*ret = (struct dns_query){ 0 };
	if (len < HEADER || !take16(&r, &ret->id) || !take16(&r, &flags) || (flags & FLAG_QR))
		return -EBADMSG;
	for (int i = 0; i < 4; i++) {
		if (!take16(&r, &counts[i]))
			return -EBADMSG;
	}
	ret->opcode = flags >> 11 & 15;
	ret->rd = flags & FLAG_RD;
	ret->cd = flags & FLAG_CD;
	if (ret->opcode)
		return DNS_NOTIMP;
	if (len > DNS_QUERY_MAX || (flags & FLAG_TC))
		return DNS_FORMERR;
	return parse_records(&r, counts, ret);
}

size_t dns_udp_max(const struct dns_query *q)
{
	if (!q->edns || q->edns_size < UDP_MAX_PLAIN)
		return UDP_MAX_PLAIN;
	return q->edns_size < DNS_REPLY_MAX ? q->edns_size : DNS_REPLY_MAX;
}

long dns_tcp_next(const uint8_t *data, size_t len, const uint8_t **ret, size_t *ret_len)
{
	size_t n;

	if (len < 2)
		return 0;
	n = (size_t)data[0] << 8 | data[1];
	if (n == 0 || n > DNS_QUERY_MAX)
		return -EBADMSG;
	if (len - 2 < n)
		return 0;
	*ret = data + 2;
	*ret_len = n;
	return (long)n + 2;
}

void dns_tcp_head(uint8_t out[2], size_t len)
{
	BUG_ON(len > UINT16_MAX);
	out[0] = (uint8_t)(len >> 8);
	out[1] = (uint8_t)len;
}

static const struct {
	uint16_t type;
	char name[7];
} type_names[] = {
	{ DNS_A, "A" },	    { DNS_NS, "NS" },	{ DNS_CNAME, "CNAME" }, { DNS_SOA, "SOA" },
	{ DNS_PTR, "PTR" }, { DNS_MX, "MX" },	{ DNS_TXT, "TXT" },	{ DNS_AAAA, "AAAA" },
	{ DNS_SRV, "SRV" }, { DNS_OPT, "OPT" }, { DNS_SVCB, "SVCB" },	{ DNS_HTTPS, "HTTPS" },
	{ DNS_ANY, "ANY" },
};

char *dns_type_name(uint16_t type, char out[16])
{
	for (size_t i = 0; i < sizeof(type_names) / sizeof(type_names[0]); i++) {
		if (type_names[i].type == type) {
			memcpy(out, type_names[i].name, sizeof(type_names[i].name));
			return out;
		}
	}
	snprintf(out, 16, "TYPE%u", (unsigned)type);
	return out;
}
