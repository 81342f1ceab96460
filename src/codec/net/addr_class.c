/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The class of an address. The first entry that matches decides, so a narrower range is before the wider one that
 * contains it. The ranges are those of IANA's special-purpose registries. Some that the registries call globally
 * reachable are no ordinary hosts (anycast sinks, relays): these are not ADDR_GLOBAL here.
 */
#include "codec/net/addr.h"

#include <assert.h>
#include <string.h>

#define V4(a, b, c, d) ((uint32_t)(a) << 24 | (uint32_t)(b) << 16 | (uint32_t)(c) << 8 | (uint32_t)(d))

static const struct {
	uint32_t base;
	uint8_t bits, class;
} v4_table[] = {
	/* Metadata services: EC2 and most other clouds, ECS, EKS, Alibaba, Azure's wire server, Oracle's old one. */
	{ V4(169, 254, 169, 254), 32, ADDR_METADATA },	{ V4(169, 254, 170, 2), 32, ADDR_METADATA },
	{ V4(169, 254, 170, 23), 32, ADDR_METADATA },	{ V4(100, 100, 100, 200), 32, ADDR_METADATA },
	{ V4(168, 63, 129, 16), 32, ADDR_METADATA },	{ V4(192, 0, 0, 192), 32, ADDR_METADATA },
	{ V4(0, 0, 0, 0), 32, ADDR_UNSPECIFIED },	{ V4(0, 0, 0, 0), 8, ADDR_THIS_NETWORK },
	{ V4(10, 0, 0, 0), 8, ADDR_PRIVATE },		{ V4(100, 64, 0, 0), 10, ADDR_CGNAT },
	{ V4(127, 0, 0, 0), 8, ADDR_LOOPBACK },		{ V4(169, 254, 0, 0), 16, ADDR_LINK_LOCAL },
	{ V4(172, 16, 0, 0), 12, ADDR_PRIVATE },	{ V4(192, 0, 0, 0), 24, ADDR_RESERVED },
	{ V4(192, 0, 2, 0), 24, ADDR_DOCUMENTATION },	{ V4(192, 31, 196, 0), 24, ADDR_ANYCAST_SINK },
	{ V4(192, 52, 193, 0), 24, ADDR_ANYCAST_SINK }, { V4(192, 88, 99, 0), 24, ADDR_RELAY },
	{ V4(192, 168, 0, 0), 16, ADDR_PRIVATE },	{ V4(192, 175, 48, 0), 24, ADDR_ANYCAST_SINK },
	{ V4(198, 18, 0, 0), 15, ADDR_BENCHMARK },	{ V4(198, 51, 100, 0), 24, ADDR_DOCUMENTATION },
	{ V4(203, 0, 113, 0), 24, ADDR_DOCUMENTATION }, { V4(224, 0, 0, 0), 4, ADDR_MULTICAST },
	{ V4(255, 255, 255, 255), 32, ADDR_BROADCAST }, { V4(240, 0, 0, 0), 4, ADDR_RESERVED },
};

static const struct {
	uint64_t hi, lo;
	uint8_t bits, class;
} v6_table[] = {
	/* Metadata services: EC2, EKS, Google. */
	{ 0xfd000ec200000000, 0x254, 128, ADDR_METADATA },
	{ 0xfd000ec200000000, 0x23, 128, ADDR_METADATA },
	{ 0xfd2000ce00000000, 0x254, 128, ADDR_METADATA },
	{ 0, 0, 128, ADDR_UNSPECIFIED },
	{ 0, 1, 128, ADDR_LOOPBACK },
	{ 0, 0, 96, ADDR_V4_COMPAT },
	{ 0, 0xffff000000000000, 96, ADDR_V4_COMPAT },
	{ 0x0064ff9b00000000, 0, 96, ADDR_NAT64 },
	{ 0x0064ff9b00010000, 0, 48, ADDR_NAT64 },
	{ 0x0100000000000000, 0, 64, ADDR_DISCARD },
	{ 0x2001000000000000, 0, 32, ADDR_TEREDO },
	{ 0x2001000200000000, 0, 48, ADDR_BENCHMARK },
	{ 0x2001000401120000, 0, 48, ADDR_ANYCAST_SINK },
	{ 0x2001001000000000, 0, 28, ADDR_ORCHID },
	{ 0x2001002000000000, 0, 28, ADDR_ORCHID },
	{ 0x2001000000000000, 0, 23, ADDR_RESERVED },
	{ 0x20010db800000000, 0, 32, ADDR_DOCUMENTATION },
	{ 0x2002000000000000, 0, 16, ADDR_6TO4 },
	{ 0x2620004f80000000, 0, 48, ADDR_ANYCAST_SINK },
	{ 0x3fff000000000000, 0, 20, ADDR_DOCUMENTATION },
	{ 0x5f00000000000000, 0, 16, ADDR_SRV6 },
	{ 0xfc00000000000000, 0, 7, ADDR_ULA },
	{ 0xfe80000000000000, 0, 10, ADDR_LINK_LOCAL },
	{ 0xfec0000000000000, 0, 10, ADDR_SITE_LOCAL },
	{ 0xff00000000000000, 0, 8, ADDR_MULTICAST },
};

static const char *const names[] = {
	[ADDR_GLOBAL] = "an ordinary address",
	[ADDR_UNSPECIFIED] = "the unspecified address",
	[ADDR_THIS_NETWORK] = "an address of \"this network\"",
	[ADDR_LOOPBACK] = "a loopback address",
	[ADDR_PRIVATE] = "a private address",
	[ADDR_CGNAT] = "a carrier's private address (100.64.0.0/10)",
	[ADDR_LINK_LOCAL] = "a link-local address",
	[ADDR_METADATA] = "a cloud's metadata address",
	[ADDR_MULTICAST] = "a multicast address",
	[ADDR_BROADCAST] = "the broadcast address",
	[ADDR_DOCUMENTATION] = "an address for documentation",
	[ADDR_BENCHMARK] = "an address for benchmarks",
	[ADDR_RESERVED] = "a reserved address",
	[ADDR_RELAY] = "a 6to4 relay's address",
	[ADDR_ANYCAST_SINK] = "an anycast service address of the infrastructure",
	[ADDR_NAT64] = "an IPv4 address embedded by NAT64",
	[ADDR_6TO4] = "an IPv4 address embedded by 6to4",
	[ADDR_TEREDO] = "an IPv4 address embedded by Teredo",
	[ADDR_V4_COMPAT] = "an IPv4 address in an outdated IPv6 form",
	[ADDR_ISATAP] = "an IPv4 address in ISATAP form",
	[ADDR_ULA] = "a private address (unique local)",
	[ADDR_SITE_LOCAL] = "a private address (site-local)",
	[ADDR_ORCHID] = "an overlay identifier (ORCHID)",
	[ADDR_DISCARD] = "an address of the discard prefix",
	[ADDR_SRV6] = "a segment-routing identifier",
};
static_assert(sizeof(names) / sizeof(names[0]) == ADDR_CLASS_COUNT, "each class has a name");

const char *addr_special_name(enum addr_class c)
{
	return (unsigned)c < ADDR_CLASS_COUNT ? names[c] : "an unknown kind of address";
}

static enum addr_class v4_class(uint32_t v)
{
	for (size_t i = 0; i < sizeof(v4_table) / sizeof(v4_table[0]); i++) {
		unsigned drop = 32u - v4_table[i].bits;

		if (v >> drop == v4_table[i].base >> drop)
			return v4_table[i].class;
	}
	return ADDR_GLOBAL;
}

static uint64_t load64(const uint8_t *p)
{
	uint64_t v = 0;

	for (int i = 0; i < 8; i++)
		v = v << 8 | p[i];
	return v;
}

/* Do the first `bits` bits agree? */
static bool prefix_is(uint64_t a, uint64_t b, unsigned bits)
{
	return bits == 0 || ((a ^ b) >> (64 - bits)) == 0;
}

enum addr_class addr_special(const struct addr *a)
{
	uint64_t hi = load64(a->b), lo = load64(a->b + 8);

	if (addr_is_v4(a))
		return v4_class(addr_v4(a));
	for (size_t i = 0; i < sizeof(v6_table) / sizeof(v6_table[0]); i++) {
		unsigned bits = v6_table[i].bits;

		if (prefix_is(hi, v6_table[i].hi, bits < 64 ? bits : 64) &&
		    prefix_is(lo, v6_table[i].lo, bits > 64 ? bits - 64 : 0))
			return v6_table[i].class;
	}
	if (hi >> 61 != 1)
		return ADDR_RESERVED;
	/* The interface id of ISATAP; the bit that is masked off tells whether the IPv4 address is global. */
	if ((lo >> 32 & 0xfdffffff) == 0x00005efe)
		return ADDR_ISATAP;
	return ADDR_GLOBAL;
}
