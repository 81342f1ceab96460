/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internet addresses and ranges: strict text in both directions, socket addresses, prefixes. The class of an address
 * (ADDR_GLOBAL and others) is in addr_class.c. A text that two programs might read differently is refused (addr.A2).
 */
#include "codec/net/addr.h"

#include "base/hex.h"
#include "codec/slice.h"

#include <errno.h>
#include <string.h>

enum { LINUX_AF_INET = 2, LINUX_AF_INET6 = 10, SOCKADDR_IN_LEN = 16, MAPPED_BITS = 96 };

static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

bool addr_is_v4(const struct addr *a)
{
	return memcmp(a->b, mapped, sizeof(mapped)) == 0;
}

bool addr_eq(const struct addr *a, const struct addr *b)
{
	return memcmp(a->b, b->b, sizeof(a->b)) == 0;
}

int addr_cmp(const struct addr *a, const struct addr *b)
{
	return memcmp(a->b, b->b, sizeof(a->b));
}

struct addr addr_from_bytes4(const uint8_t b[4])
{
	struct addr a;

	memcpy(a.b, mapped, sizeof(mapped));
	memcpy(a.b + sizeof(mapped), b, 4);
	return a;
}

struct addr addr_from_bytes16(const uint8_t b[16])
{
	struct addr a;

	memcpy(a.b, b, sizeof(a.b));
	return a;
}

struct addr addr_from_v4(uint32_t v)
{
	const uint8_t b[4] = { (uint8_t)(v >> 24), (uint8_t)(v >> 16), (uint8_t)(v >> 8), (uint8_t)v };

	return addr_from_bytes4(b);
}

uint32_t addr_v4(const struct addr *a)
{
	const uint8_t *b = a->b + sizeof(mapped);

	return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

/* --- text --------------------------------------------------------------------------------------------------- */

static bool parse_v4(const char *s, size_t len, uint8_t out[4])
{
	size_t i = 0;

	for (int part = 0; part < 4; part++) {
		unsigned v = 0;
		size_t start;

		if (part && (i == len || s[i++] != '.'))
			return false;
		start = i;
		for (; i < len && i - start < 3 && s[i] >= '0' && s[i] <= '9'; i++)
			v = v * 10 + (unsigned)(s[i] - '0');
		if (i == start || v > 255 || (s[start] == '0' && i - start > 1))
			return false;
		out[part] = (uint8_t)v;
	}
	return i == len;
}

/*
 * Parses a group of 1 to 4 hex digits or, as the last group, an IPv4 address. Returns the bytes written to out, 0:
 * neither.
 */
static size_t parse_group(const char *s, size_t len, bool last, uint8_t out[4])
{
	unsigned v = 0;

	if (last && memchr(s, '.', len))
		return parse_v4(s, len, out) ? 4 : 0;
	if (len < 1 || len > 4)
		return 0;
	for (size_t i = 0; i < len; i++) {
		int d = hex_digit(s[i]);

		if (d < 0)
			return 0;
		v = v << 4 | (unsigned)d;
	}
	out[0] = (uint8_t)(v >> 8);
	out[1] = (uint8_t)v;
	return 2;
}

/* Inserts the zeros for "::" at `gap`; SIZE_MAX: the text had none. */
static bool fill_gap(uint8_t b[16], size_t n, size_t gap)
{
	if (gap == SIZE_MAX)
		return n == 16;
	if (n > 14)
		return false;
	memmove(b + 16 - (n - gap), b + gap, n - gap);
	memset(b + gap, 0, 16 - n);
	return true;
}

static bool parse_v6(const char *s, size_t len, uint8_t b[16])
{
	size_t n = 0, gap = SIZE_MAX, i = 0;

	if (len >= 2 && s[0] == ':' && s[1] == ':') {
		gap = 0;
		i = 2;
	}
	while (i < len) {
		const char *colon = memchr(s + i, ':', len - i);
		size_t end = colon ? (size_t)(colon - s) : len;
		uint8_t part[4];
		size_t took = parse_group(s + i, end - i, end == len, part);

		if (took == 0 || n + took > 16)
			return false;
		memcpy(b + n, part, took);
		n += took;
		if (end == len)
			break;
		i = end + 1;
		if (i == len)
			return false;
		if (s[i] == ':') {
			if (gap != SIZE_MAX)
				return false;
			gap = n;
			i++;
		}
	}
	return fill_gap(b, n, gap);
}

int addr_parse(const char *s, size_t len, struct addr *ret, struct err *e)
{
	char q[SLICE_QUOTE_LEN];
	struct addr a = { 0 };

	if (len && memchr(s, ':', len)) {
		if (memchr(s, '%', len))
			return err_set(e, -EINVAL, "'%s': an address with a zone (%%…) is not accepted",
				       slice_quote(s, len, q));
		if (!parse_v6(s, len, a.b))
			return err_set(e, -EINVAL, "'%s' is not an IPv6 address", slice_quote(s, len, q));
		*ret = a;
		return 0;
	}
	if (!parse_v4(s, len, a.b + sizeof(mapped)))
		return err_set(
			e, -EINVAL,
			"'%s' is not an IPv4 address: four decimal numbers, 0 to 255, without leading zeros",
			slice_quote(s, len, q));
	memcpy(a.b, mapped, sizeof(mapped));
	*ret = a;
	return 0;
}

static char *put_decimal(char *p, unsigned v)
{
	if (v >= 100)
		*p++ = (char)('0' + v / 100);
	if (v >= 10)
		*p++ = (char)('0' + v / 10 % 10);
	*p++ = (char)('0' + v % 10);
	return p;
}

static char *put_group(char *p, unsigned v)
{
	bool began = false;

	for (int shift = 12; shift >= 0; shift -= 4) {
		unsigned d = v >> shift & 15;

		began = began || d || shift == 0;
		if (began)
			*p++ = HEX_LOWER[d];
	}
	return p;
}

static unsigned group_of(const struct addr *a, int i)
{
	const uint8_t *p = a->b + 2 * (size_t)i;

	return (unsigned)p[0] << 8 | p[1];
}

/* The first of the longest runs of two or more zero groups: RFC 5952 writes "::" there. */
static int longest_zeros(const struct addr *a, int *ret_len)
{
	int at = -1, best = 1;

	for (int i = 0, run = 0; i < 8; i++) {
		run = group_of(a, i) ? 0 : run + 1;
		if (run > best) {
			best = run;
			at = i - run + 1;
		}
	}
	*ret_len = at < 0 ? 0 : best;
	return at;
}

static void format_v6(const struct addr *a, char *p)
{
	int zeros = 0, at = longest_zeros(a, &zeros);

	for (int i = 0; i < 8; i++) {
		if (i == at) {
			*p++ = ':';
			*p++ = ':';
			i += zeros - 1;
			continue;
		}
		if (i && i != at + zeros)
			*p++ = ':';
		p = put_group(p, group_of(a, i));
	}
	*p = '\0';
}

char *addr_format(const struct addr *a, char out[ADDR_TEXT_LEN])
{
	char *p = out;

	if (!addr_is_v4(a)) {
		format_v6(a, out);
		return out;
	}
	for (int i = 0; i < 4; i++) {
		if (i)
			*p++ = '.';
		p = put_decimal(p, a->b[12 + i]);
	}
	*p = '\0';
	return out;
}

/* --- socket addresses --------------------------------------------------------------------------------------- */

int addr_from_sockaddr(const void *sa, size_t len, struct addr *ret, uint16_t *ret_port)
{
	const uint8_t *p = sa;
	uint16_t family;

	if (len < sizeof(family))
		return -EAFNOSUPPORT;
	memcpy(&family, p, sizeof(family));
	if (family == LINUX_AF_INET && len >= 8)
		*ret = addr_from_bytes4(p + 4);
	else if (family == LINUX_AF_INET6 && len >= 24)
		*ret = addr_from_bytes16(p + 8);
	else
		return -EAFNOSUPPORT;
	*ret_port = (uint16_t)(p[2] << 8 | p[3]);
	return 0;
}

size_t addr_to_sockaddr(const struct addr *a, uint16_t port, uint8_t out[ADDR_SOCKADDR_LEN])
{
	bool v4 = addr_is_v4(a);
	uint16_t family = v4 ? LINUX_AF_INET : LINUX_AF_INET6;

	memset(out, 0, ADDR_SOCKADDR_LEN);
	memcpy(out, &family, sizeof(family));
	out[2] = (uint8_t)(port >> 8);
	out[3] = (uint8_t)port;
	if (v4)
		memcpy(out + 4, a->b + sizeof(mapped), 4);
	else
		memcpy(out + 8, a->b, 16);
	return v4 ? SOCKADDR_IN_LEN : ADDR_SOCKADDR_LEN;
}

/* --- ranges ------------------------------------------------------------------------------------------------- */

static bool range_is_v4(const struct addr_range *r)
{
	return r->bits >= MAPPED_BITS && addr_is_v4(&r->base);
}

static struct addr masked(const struct addr *a, unsigned bits)
{
	struct addr m = *a;

	for (unsigned i = 0; i < 16; i++) {
		unsigned keep = bits <= 8 * i ? 0 : bits - 8 * i;

		if (keep < 8)
			m.b[i] &= (uint8_t)(0xff00 >> keep);
	}
	return m;
}

/* A number from 0 to max of 1 to 3 digits, without leading zero; -1 when it is none. */
static int parse_bits(const char *s, size_t len, unsigned max)
{
	unsigned v = 0;

	if (len < 1 || len > 3 || (s[0] == '0' && len > 1))
		return -1;
	for (size_t i = 0; i < len; i++) {
		if (s[i] < '0' || s[i] > '9')
			return -1;
		v = v * 10 + (unsigned)(s[i] - '0');
	}
	return v <= max ? (int)v : -1;
}

static int refuse_host_bits(const struct addr_range *r, unsigned len, struct err *e)
{
	struct addr_range right = { masked(&r->base, r->bits), r->bits };
	char a[ADDR_TEXT_LEN], t[ADDR_RANGE_TEXT_LEN];

	return err_set(e, -EINVAL,
		       "%s/%u has bits set after its prefix; write %s, or %s for the single address",
		       addr_format(&r->base, a), len, addr_range_format(&right, t), a);
}

int addr_range_parse(const char *s, size_t len, struct addr_range *ret, struct err *e)
{
	const char *slash = len ? memchr(s, '/', len) : NULL;
	size_t alen = slash ? (size_t)(slash - s) : len;
	bool as_v6 = alen && memchr(s, ':', alen);
	unsigned max = as_v6 ? 128 : 32;
	struct addr_range range = { .bits = 128 };
	char q[SLICE_QUOTE_LEN];
	int r, bits = (int)max;

	r = addr_parse(s, alen, &range.base, e);
	if (r < 0)
		return r;
	if (slash)
		bits = parse_bits(slash + 1, len - alen - 1, max);
	if (bits < 0)
		return err_set(e, -EINVAL, "'%s': after the slash, expected a number from 0 to %u",
			       slice_quote(s, len, q), max);
	range.bits = (uint8_t)(as_v6 ? bits : bits + MAPPED_BITS);
	struct addr base = masked(&range.base, range.bits);
	if (!addr_eq(&base, &range.base))
		return refuse_host_bits(&range, (unsigned)bits, e);
	*ret = range;
	return 0;
}

unsigned addr_range_len(const struct addr_range *r)
{
	return range_is_v4(r) ? r->bits - (unsigned)MAPPED_BITS : r->bits;
}

char *addr_range_format(const struct addr_range *r, char out[ADDR_RANGE_TEXT_LEN])
{
	char *p = addr_format(&r->base, out);

	p += strlen(p);
	*p++ = '/';
	*put_decimal(p, addr_range_len(r)) = '\0';
	return out;
}

bool addr_range_contains(const struct addr_range *r, const struct addr *a)
{
	struct addr m = masked(a, r->bits);

	return range_is_v4(r) == addr_is_v4(a) && addr_eq(&m, &r->base);
}

bool addr_range_covers(const struct addr_range *outer, const struct addr_range *inner)
{
	struct addr m = masked(&inner->base, outer->bits);

	return range_is_v4(outer) == range_is_v4(inner) && outer->bits <= inner->bits &&
	       addr_eq(&m, &outer->base);
}

uint64_t addr_range_count(const struct addr_range *r)
{
	unsigned host_bits = 128u - r->bits;

	return host_bits >= 64 ? UINT64_MAX : (uint64_t)1 << host_bits;
}

struct addr addr_range_at(const struct addr_range *r, uint64_t n)
{
	struct addr a = r->base;

	BUG_ON(n >= addr_range_count(r));
	for (int i = 15; i >= 8; i--, n >>= 8)
		a.b[i] |= (uint8_t)n;
	return a;
}
