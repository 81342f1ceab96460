/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internet addresses: one type for both families, strict text, prefixes, and the class of an address. Pure.
 *
 * Invariants
 *  A1  An IPv4 address is kept as ::ffff:a.b.c.d. The two ways to write it are therefore the same address, in
 *      every comparison, range and class; it is always written a.b.c.d.
 *  A2  Text has only the form that all programs read alike: IPv4 is four decimal numbers without leading zeros, IPv6
 *      is RFC 4291 (at most 4 hex digits a group, one "::" that stands for at least one group, an IPv4 tail). No
 *      octal, hex or short forms, no zone, no brackets, no space.
 *  A3  Only ADDR_GLOBAL may be dialled without a rule of the policy for the address. An IPv6 form that contains an IPv4
 *      address (NAT64, 6to4, Teredo, compatible, ISATAP) is never ADDR_GLOBAL.
 *  A4  A range never mixes families: an IPv4 address is only in an IPv4 range, so ::/0 is all of IPv6 and no IPv4.
 */
#ifndef CODEC_ADDR_H
#define CODEC_ADDR_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct addr {
	uint8_t b[16]; /* network order */
};

struct addr_range {
	struct addr base; /* no bit is set after the prefix */
	uint8_t bits;	  /* of the 128: 10.0.0.0/8 has 104; addr_range_len() gives 8 */
};

#define ADDR_TEXT_LEN 46
#define ADDR_RANGE_TEXT_LEN 50
#define ADDR_SOCKADDR_LEN 28

/* The purpose of an address, by IANA's registries of special addresses and by the conventions of clouds. */
enum addr_class {
	ADDR_GLOBAL,
	ADDR_UNSPECIFIED,   /* 0.0.0.0, :: */
	ADDR_THIS_NETWORK,  /* 0.0.0.0/8: some kernels take it for this host */
	ADDR_LOOPBACK,	    /* 127.0.0.0/8, ::1 */
	ADDR_PRIVATE,	    /* 10/8, 172.16/12, 192.168/16 */
	ADDR_CGNAT,	    /* 100.64.0.0/10 */
	ADDR_LINK_LOCAL,    /* 169.254/16, fe80::/10 */
	ADDR_METADATA,	    /* a cloud's service for instance credentials; the list is in addr_class.c */
	ADDR_MULTICAST,	    /* 224/4, ff00::/8 */
	ADDR_BROADCAST,	    /* 255.255.255.255 */
	ADDR_DOCUMENTATION, /* 192.0.2/24, 198.51.100/24, 203.0.113/24, 2001:db8::/32, 3fff::/20 */
	ADDR_BENCHMARK,	    /* 198.18/15, 2001:2::/48 */
	ADDR_RESERVED,	    /* 240/4, 192.0.0/24, and all IPv6 outside 2000::/3 that has no name here */
	ADDR_RELAY,	    /* 192.88.99/24, 6to4 relay anycast */
	ADDR_ANYCAST_SINK, /* 192.31.196/24, 192.52.193/24, 192.175.48/24, 2001:4:112::/48, 2620:4f:8000::/48 */
	ADDR_NAT64,	   /* 64:ff9b::/96, 64:ff9b:1::/48 */
	ADDR_6TO4,	   /* 2002::/16 */
	ADDR_TEREDO,	   /* 2001::/32 */
	ADDR_V4_COMPAT,	   /* ::a.b.c.d, ::ffff:0:a.b.c.d */
	ADDR_ISATAP,	   /* …:[02]00:5efe:a.b.c.d */
	ADDR_ULA,	   /* fc00::/7 */
	ADDR_SITE_LOCAL,   /* fec0::/10 */
	ADDR_ORCHID,	   /* 2001:10::/28, 2001:20::/28 */
	ADDR_DISCARD,	   /* 100::/64 */
	ADDR_SRV6,	   /* 5f00::/16 */
	ADDR_CLASS_COUNT
};

/* Parses a text that is exactly one address. -EINVAL with the fault in `e`, which quotes the text made harmless. */
int addr_parse(const char *s, size_t len, struct addr *ret, struct err *e) MUST_CHECK;

/* a.b.c.d, or RFC 5952. Returns out. */
char *addr_format(const struct addr *a, char out[ADDR_TEXT_LEN]);

bool addr_is_v4(const struct addr *a);
bool addr_eq(const struct addr *a, const struct addr *b);
int addr_cmp(const struct addr *a, const struct addr *b);

struct addr addr_from_v4(uint32_t host_order);
uint32_t addr_v4(const struct addr *a); /* host order; only of one that addr_is_v4() */
struct addr addr_from_bytes4(const uint8_t b[4]);
struct addr addr_from_bytes16(const uint8_t b[16]);

/*
 * A struct sockaddr_in or sockaddr_in6 of Linux as bytes. -EAFNOSUPPORT for any other family or a length that does
 * not fit; flow and scope are dropped. The other way IPv4 becomes a sockaddr_in; returns the length.
 */
int addr_from_sockaddr(const void *sa, size_t len, struct addr *ret, uint16_t *ret_port) MUST_CHECK;
size_t addr_to_sockaddr(const struct addr *a, uint16_t port, uint8_t out[ADDR_SOCKADDR_LEN]);

enum addr_class addr_special(const struct addr *a);
const char *addr_special_name(enum addr_class c); /* "a private address": completes a sentence after "is" */

/*
 * Parses "10.0.0.0/8"; an address alone is a range of one. -EINVAL when bits are set after the prefix; `e` names the
 * right form.
 */
int addr_range_parse(const char *s, size_t len, struct addr_range *ret, struct err *e) MUST_CHECK;
char *addr_range_format(const struct addr_range *r, char out[ADDR_RANGE_TEXT_LEN]);
unsigned addr_range_len(const struct addr_range *r); /* the number after the slash */
bool addr_range_contains(const struct addr_range *r, const struct addr *a);
bool addr_range_covers(const struct addr_range *outer, const struct addr_range *inner);

/* The number of addresses, UINT64_MAX when there are more; and the n-th of them, n below that number. */
uint64_t addr_range_count(const struct addr_range *r);
struct addr addr_range_at(const struct addr_range *r, uint64_t n);

#endif
