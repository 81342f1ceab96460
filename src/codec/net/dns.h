/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DNS messages on the sandbox's side (RFC 1035, 6891): one query in, one response out. c-ares parses the responses of
 * real servers, in coffer-dial. Pure.
 *
 * Invariants
 *  D1  A query has exactly one question and, beside it, nothing but at most one OPT record. Its name is not
 *      compressed, and each byte of a label is printable ASCII without space and dot: everything else is FORMERR,
 *      bytes after the last record too.
 *  D2  `host` is the name in the form of host_canon(). A well-formed name that is no host (a wildcard, digits only) is
 *      DNS_NAME_ODD and has only `text`. The response repeats the question in the letter case of the query.
 *  D3  A response is never larger than `max`; records that do not fit are left out and TC is set.
 *  D4  The response has an OPT record exactly when the query had a valid one. No option is ever echoed.
 */
#ifndef CODEC_DNS_H
#define CODEC_DNS_H

#include "codec/net/addr.h"
#include "codec/net/host.h"

#define DNS_QUERY_MAX 4096 /* longer than any resolver sends */
#define DNS_REPLY_MAX 1232 /* also the size that our OPT record announces for UDP */
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
	DNS_NAME_HOST, /* query.host is a name; an address literal in a query is ODD */
	DNS_NAME_PTR,  /* a complete address below in-addr.arpa or ip6.arpa: query.addr, and query.host */
	DNS_NAME_ROOT,
	DNS_NAME_ODD,
};

struct dns_query {
	uint16_t id;
	uint8_t opcode;
	bool rd, cd;
	bool has_question; /* the fields below are set */
	uint16_t type, klass;
	enum dns_name_kind kind;
	struct host host;
	struct addr addr;
	char text[HOST_MAX + 1];	 /* lower case, no trailing dot; for the log */
	uint8_t name[DNS_NAME_WIRE_MAX]; /* wire format, in the query's letter case */
	uint8_t name_len;
	bool edns, dnssec_ok;
	uint8_t edns_version;
	uint16_t edns_size;
};

/*
 * 0; or the enum dns_rcode for dns_reply_empty(), with *ret set as far as the message could be read; or -EBADMSG when
 * it is no query at all (shorter than a header, or itself a response): then the caller must send nothing.
 */
int dns_parse(const uint8_t *msg, size_t len, struct dns_query *ret) MUST_CHECK;

/*
 * The limit for a response by UDP: the size that the query's OPT record offers, from 512 to DNS_REPLY_MAX; 512
 * without OPT.
 */
size_t dns_udp_max(const struct dns_query *q);

/*
 * Each writes a response to out and returns its length. `max` is dns_udp_max(), or DNS_REPLY_MAX on TCP, at least 512.
 * dns_reply_addrs() takes the addresses of the family that the query wants; without any the response is NODATA.
 * dns_reply_empty() is NODATA (with DNS_NOERROR), NXDOMAIN or an error; the first two have an SOA record, so that
 * they may be cached for `ttl` seconds.
 */
size_t dns_reply_addrs(const struct dns_query *q, const struct addr *a, size_t n, uint32_t ttl, size_t max,
		       uint8_t out[DNS_REPLY_MAX]);
size_t dns_reply_ptr(const struct dns_query *q, const struct host *name, uint32_t ttl, size_t max,
		     uint8_t out[DNS_REPLY_MAX]);
size_t dns_reply_empty(const struct dns_query *q, enum dns_rcode rcode, uint32_t ttl, size_t max,
		       uint8_t out[DNS_REPLY_MAX]);

/*
 * On TCP each message follows its length. dns_tcp_next() finds the message at the start of data (*ret, into data) and
 * returns the bytes it takes, 0 when it needs more, -EBADMSG when the message is empty or over DNS_QUERY_MAX.
 */
long dns_tcp_next(const uint8_t *data, size_t len, const uint8_t **ret, size_t *ret_len) MUST_CHECK;
void dns_tcp_head(uint8_t out[2], size_t len);

/* "A", "AAAA", "TYPE4711"; out holds 16. */
char *dns_type_name(uint16_t type, char out[16]);

#endif
