/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DNS messages on the sandbox's side (RFC 1035, 6891): one query in, one answer out. What real servers answer is
 * parsed by c-ares elsewhere. Pure.
 *
 * Invariants
 *  D1  A query has exactly one question and, beside it, nothing but at most one OPT record. Its name is not
 *      compressed, and each byte of a label is printable ASCII without space and dot: everything else is FORMERR.
 *      Nothing may follow the last record.
 *  D2  The name is given as host_canon() has it; one that is well-formed but no host (a wildcard, digits only) is
 *      DNS_NAME_ODD and has only its text. The answer repeats the question in the case in which it was asked.
 *  D3  An answer is never larger than `max`; records that do not fit are left out and TC is set.
 *  D4  The answer has an OPT record exactly when the query had one that could be read. No option is ever echoed.
 */
#ifndef CODEC_DNS_H
#define CODEC_DNS_H

#include "codec/net/addr.h"
#include "codec/net/host.h"

#define DNS_QUERY_MAX 4096 /* longer than any resolver sends */
#define DNS_REPLY_MAX 1232 /* also what we say that we take by UDP */
#define DNS_NAME_WIRE_MAX 255

enum dns_type {
	DNS_A = 1,
	DNS_NS = 2,
	DNS_CNAME = 5,
	DNS_SOA = 6,
	DNS_PTR = 12,
	DNS_MX = 15,
	DNS_TXT = 16,
	DNS_AAAA = 28,
	DNS_SRV = 33,
	DNS_OPT = 41,
	DNS_SVCB = 64,
	DNS_HTTPS = 65,
	DNS_ANY = 255,
};

enum dns_class { DNS_IN = 1 };

enum dns_rcode {
	DNS_NOERROR = 0,
	DNS_FORMERR = 1,
	DNS_SERVFAIL = 2,
	DNS_NXDOMAIN = 3,
	DNS_NOTIMP = 4,
	DNS_REFUSED = 5,
	DNS_BADVERS = 16,
};

enum dns_name_kind {
	DNS_NAME_HOST, /* query.host is a name; an address literal asked as a name is ODD */
	DNS_NAME_PTR,  /* below in-addr.arpa or ip6.arpa and whole: query.addr; query.host too */
	DNS_NAME_ROOT,
	DNS_NAME_ODD,
};

struct dns_query {
	uint16_t id;
	uint8_t opcode;
	bool rd, cd;
	bool has_question; /* what follows is set */
	uint16_t type, klass;
	enum dns_name_kind kind;
	struct host host;
	struct addr addr;
	char text[HOST_MAX + 1];	 /* lower case, no trailing dot; for the log */
	uint8_t name[DNS_NAME_WIRE_MAX]; /* as asked */
	uint8_t name_len;
	bool edns, dnssec_ok;
	uint8_t edns_version;
	uint16_t edns_size;
};

/*
 * 0, or the enum dns_rcode to answer with by dns_reply_empty() (*ret is set as far as it goes), or -EBADMSG when it
 * is no query at all (shorter than a header, or itself an answer) and must not be answered.
 */
int dns_parse(const uint8_t *msg, size_t len, struct dns_query *ret) MUST_CHECK;

/* How large an answer to this query may be by UDP: 512, or what it offers up to DNS_REPLY_MAX. */
size_t dns_udp_max(const struct dns_query *q);

/*
 * Answers, written to out; max is dns_udp_max(), or DNS_REPLY_MAX on TCP, at least 512. Each returns the length.
 * Of addresses, those of the family that was asked for are taken; none is NODATA.
 * dns_reply_empty() is NODATA (with DNS_NOERROR), NXDOMAIN or an error; the first two carry an SOA that lets them
 * be remembered for `ttl` seconds.
 */
size_t dns_reply_addrs(const struct dns_query *q, const struct addr *a, size_t n, uint32_t ttl, size_t max,
		       uint8_t out[DNS_REPLY_MAX]);
size_t dns_reply_ptr(const struct dns_query *q, const struct host *name, uint32_t ttl, size_t max,
		     uint8_t out[DNS_REPLY_MAX]);
size_t dns_reply_empty(const struct dns_query *q, enum dns_rcode rcode, uint32_t ttl, size_t max,
		       uint8_t out[DNS_REPLY_MAX]);

/*
 * TCP: each message has its length before it. The message at the start of data: bytes taken and *ret (into data),
 * 0 when more are needed, -EBADMSG when it is empty or over DNS_QUERY_MAX.
 */
long dns_tcp_next(const uint8_t *data, size_t len, const uint8_t **ret, size_t *ret_len) MUST_CHECK;
void dns_tcp_head(uint8_t out[2], size_t len);

/* "A", "AAAA", "TYPE4711"; out holds 16. */
char *dns_type_name(uint16_t type, char out[16]);

#endif
