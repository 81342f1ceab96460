/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses and ranges as text, against the C library's own reading. */
#include "codec/net/addr.h"

#include <arpa/inet.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_addr(const char *s, size_t len)
{
	char copy[64], text[ADDR_TEXT_LEN];
	struct addr a, b;
	int r = addr_parse(s, len, &a, NULL);

	if (len < sizeof(copy) && !memchr(s, 0, len)) {
		uint8_t raw[16];

		memcpy(copy, s, len);
		copy[len] = '\0';
		BUG_ON((r == 0) !=
		       (inet_pton(AF_INET, copy, raw) == 1 || inet_pton(AF_INET6, copy, raw) == 1));
	}
	if (r < 0)
		return;
	addr_format(&a, text);
	BUG_ON(addr_parse(text, strlen(text), &b, NULL) < 0 || !addr_eq(&a, &b));
	BUG_ON(addr_special(&a) >= ADDR_CLASS_COUNT);
}

static void check_range(const char *s, size_t len)
{
	struct addr_range r, again;
	char text[ADDR_RANGE_TEXT_LEN];
	struct addr last;

	if (addr_range_parse(s, len, &r, NULL) < 0)
		return;
	addr_range_format(&r, text);
	BUG_ON(addr_range_parse(text, strlen(text), &again, NULL) < 0);
	BUG_ON(again.bits != r.bits || !addr_eq(&again.base, &r.base));
	BUG_ON(!addr_range_contains(&r, &r.base) || !addr_range_covers(&r, &again));
	last = addr_range_at(&r, addr_range_count(&r) - 1);
	/* The last of ::/80 is the IPv4 address 255.255.255.255, which is in no IPv6 range. */
	BUG_ON(!addr_range_contains(&r, &last) && !addr_is_v4(&last));
}

static void check_sockaddr(const uint8_t *data, size_t size)
{
	uint8_t out[ADDR_SOCKADDR_LEN];
	struct addr a;
	uint16_t port;

	if (addr_from_sockaddr(data, size, &a, &port) < 0)
		return;
	BUG_ON(addr_to_sockaddr(&a, port, out) > sizeof(out));
	BUG_ON(memcmp(out + 2, data + 2, 2) != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	check_addr((const char *)data, size);
	check_range((const char *)data, size);
	check_sockaddr(data, size);
	return 0;
}
